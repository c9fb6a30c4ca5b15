// SPDX-License-Identifier: MIT OR Apache-2.0
#include "test/coll/station.h"

#include <cstring>
#include <numeric>

#include "coll/select.h"
#include "fabrics/registry.h"
#include "fabrics/shm.h"
#include "test/support/fork_world.h"

namespace rlx::test {
namespace {

template <class T>
T must(Result<T> result) {
  if (!result) throw RankFailed(result.error().text);
  return std::move(*result);
}

}  // namespace

Station::Station(Bootstrap& bootstrap, std::string_view fabrics) {
  const BootstrapFacts& facts = bootstrap.facts();
  endpoint_ = must(Endpoint::create(facts, must(make_wires(fabrics, facts))));
  RLX_EXPECT_OK(bootstrap.put(endpoint_->blob()));
  bootstrap.watch(
      [this](int rank, std::string cause) { endpoint_->report_failure(rank, std::move(cause)); });
  RLX_EXPECT_OK(bootstrap.fence(Deadline::after_ms(20000)));
  for (int r = 0; r < facts.size; ++r) RLX_EXPECT_OK(endpoint_->connect(r, must(bootstrap.get(r))));
  links_ = make_links(*endpoint_);
  engine_ = std::make_unique<Engine>(*links_);
}

Station::~Station() = default;

bool Station::shares_memory() const {
  return endpoint_->shm() != nullptr &&
         endpoint_->shm()->ranks().size() == static_cast<std::size_t>(endpoint_->size());
}

Collectives& Station::communicator(const std::string& rules, int cores) {
  Group group;
  group.rank = rank();
  group.world.resize(static_cast<std::size_t>(size()));
  std::iota(group.world.begin(), group.world.end(), 0);
  const auto number = static_cast<int>(communicators_.size());
  group.context = static_cast<std::uint32_t>(number + 1);
  group.name = "test." + std::to_string(number);
  if (shares_memory() && size() > 1)
    for (int r = 0; r < size(); ++r)
      group.areas.push_back(reinterpret_cast<Area*>(endpoint_->shm()->region(r, number)));
  const Model model = model_of(shares_memory() ? "shm" : "tcp", size(), cores);
  communicators_.push_back(std::make_unique<Collectives>(
      *engine_, std::move(group), Selector(model, must(parse_rules(rules, "rules")))));
  return *communicators_.back();
}

void Station::meet(std::vector<int> ranks) {
  // Over messages: works whatever the communicators of the test are worth by now.
  if (ranks.empty())
    for (int r = 0; r < size(); ++r) ranks.push_back(r);
  std::vector<char> tokens(static_cast<std::size_t>(size()));
  const std::uint64_t tag = make_tag(0xfffe, 0);
  std::vector<Request*> requests;
  for (const int r : ranks) {
    if (r == rank()) continue;
    requests.push_back(
        endpoint_->irecv(r, tag, kWholeTag, &tokens[static_cast<std::size_t>(r)], 1));
    Request* sent = endpoint_->isend(r, tag, &tokens[static_cast<std::size_t>(rank())], 1);
    if (sent != nullptr) requests.push_back(sent);
  }
  for (Request* request : requests) {
    RLX_EXPECT_OK(engine_->wait(request, Deadline::after_ms(20000)));
    request->release();
  }
  RLX_EXPECT_OK(endpoint_->flush(Deadline::after_ms(20000)));
}

}  // namespace rlx::test
