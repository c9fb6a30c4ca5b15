// SPDX-License-Identifier: MIT OR Apache-2.0
#include "coll/world.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <numeric>

#include "base/knobs.h"
#include "base/log.h"
#include "fabrics/host.h"
#include "fabrics/shm.h"
#include "pmix_glue/local.h"

namespace rlx {
namespace {

// What a member tells the others when a communicator is made.
struct Proposal {
  std::int64_t colour, key;
  std::uint64_t next_context, free_channels;
};
constexpr std::uint64_t kWords = sizeof(Proposal) / sizeof(std::uint64_t);
constexpr std::uint32_t kMaxContext = 0x7fff;
// The members' vote has messages of its own: who has voted may begin the first call while others
// still count.
constexpr std::uint32_t kVoteContext = 0x8000;

std::string who_am_i(const BootstrapFacts& facts) {
  return fmt::format("{}@{}", facts.rank, facts.hostname);
}

}  // namespace

Deadline World::deadline() {
  const auto ms = knobs().timeout_ms;
  return ms == 0 ? Deadline::never() : Deadline::after_ms(ms);
}

Result<std::unique_ptr<World>> World::join() {
  RLX_TRY(check_knobs());
  RLX_TRY_ASSIGN(auto bootstrap, pmix::open_bootstrap());
  return create(std::move(bootstrap));
}

Result<std::unique_ptr<World>> World::create(std::unique_ptr<Bootstrap> bootstrap) {
  RLX_TRY(check_knobs());
  std::unique_ptr<World> world(new World());
  if (!knobs().rules.empty()) {
    RLX_TRY_ASSIGN(world->rules_, load_rules(knobs().rules));
  }
  world->bootstrap_ = std::move(bootstrap);
  const auto& facts = world->facts();
  log::set_who(who_am_i(facts));
  RLX_TRY_ASSIGN(world->endpoint_, open_endpoint(*world->bootstrap_, deadline()));
  world->links_ = make_links(*world->endpoint_);
  world->engine_ = std::make_unique<Engine>(*world->links_);
  world->find_local_ranks();

  Group group;
  group.rank = facts.rank;
  group.world.resize(static_cast<std::size_t>(facts.size));
  std::iota(group.world.begin(), group.world.end(), 0);
  group.context = world->next_context_++;
  group.name = "world";
  RLX_TRY(world->add(std::move(group), 0));
  return world;
}

// Two ranks are on one host when the shared-memory wire joins them, or when they name the same
// host.
void World::find_local_ranks() {
  ShmWire* shm = endpoint_->shm();
  for (int r = 0; r < endpoint_->size(); ++r) {
    const bool joined = shm && std::ranges::binary_search(shm->ranks(), r);
    if (joined || endpoint_->host_of(r) == endpoint_->host_of(facts().rank))
      local_ranks_.push_back(r);
  }
}

bool World::reaches_all_by_shm(const Group& group) {
  ShmWire* shm = endpoint_->shm();
  return shm && std::ranges::all_of(group.world, [&](int r) {
           return endpoint_->wire_of(r) == "self" || endpoint_->wire_of(r) == "shm";
         });
}

// The least that any member says. By messages, so it also tells everybody that all have cleared
// what the channel's last owner left. What the vote itself costs by the model is no matter, but all
// must use the same one: their own facts differ from host to host.
Status World::agree(const Group& group, Terms& terms) {
  Terms least{};
  Group electorate = group;
  electorate.context |= kVoteContext;
  Collectives voters(*engine_, std::move(electorate), Selector(Model{}, {}));
  RLX_TRY(voters.run({.coll = Coll::all_reduce,
                      .dtype = Dtype::i32,
                      .op = Op::min,
                      .count = sizeof terms / sizeof(std::int32_t),
                      .in = &terms,
                      .out = &least},
                     deadline()));
  terms = least;
  return {};
}

Result<Communicator*> World::add(Group group, int channel) {
  std::vector<Area*> areas;
  Terms terms{.areas = channel >= 0,
              .shm = reaches_all_by_shm(group),
              .cores = endpoint_->host_cores(),
              .minus_local = -static_cast<std::int32_t>(local_ranks_.size())};
  if (group.size() > 1) {
    if (terms.areas && terms.shm)
      for (const int r : group.world)
        areas.push_back(reinterpret_cast<Area*>(endpoint_->shm()->region(r, channel)));
    terms.areas = !areas.empty() && std::ranges::find(areas, nullptr) == areas.end();
    if (terms.areas)
      std::memset(static_cast<void*>(areas[static_cast<std::size_t>(group.rank)]), 0,
                  offsetof(Area, slot));
    RLX_TRY(agree(group, terms));
    if (!terms.areas) areas.clear(), channel = -1;
  }
  if (group.size() == 1 || areas.empty()) channel = -1;
  group.areas = std::move(areas);
  if (channel >= 0) free_channels_ &= ~(std::uint64_t{1} << channel);
  endpoint_->set_group(group.context, group.world);
  Model model = model_of(terms.shm ? "shm" : "tcp", -terms.minus_local, terms.cores);
  model.cache_bytes = last_level_cache_bytes().value_or(model.cache_bytes);
  communicators_.push_back(
      std::make_unique<Communicator>(*engine_, std::move(group), Selector(model, rules_), channel));
  return communicators_.back().get();
}

Result<Communicator*> World::split(Communicator& parent, int colour, int key, std::string name,
                                   Purpose purpose) {
  const Proposal mine{colour, key, next_context_, free_channels_};
  std::vector<Proposal> all(static_cast<std::size_t>(parent.size()));
  RLX_TRY(parent.collectives().run({.coll = Coll::all_gather,
                                    .dtype = Dtype::u64,
                                    .purpose = purpose,
                                    .count = kWords,
                                    .in = &mine,
                                    .out = all.data()},
                                   deadline()));
  std::uint64_t context = 0;
  for (const auto& p : all) context = std::max(context, p.next_context);
  if (context > kMaxContext)
    return fail(Code::kUnsupported,
                fmt::format("{}: {} communicators were made, no more are possible", parent.name(),
                            kMaxContext));
  next_context_ = static_cast<std::uint32_t>(context) + 1;
  if (colour < 0) return nullptr;

  std::vector<int> members;
  std::uint64_t free_channels = ~std::uint64_t{0};
  for (int r = 0; r < parent.size(); ++r) {
    const auto& p = all[static_cast<std::size_t>(r)];
    if (p.colour != colour) continue;
    members.push_back(r);
    free_channels &= p.free_channels;
  }
  std::ranges::stable_sort(members, {},
                           [&](int r) { return all[static_cast<std::size_t>(r)].key; });
  Group group;
  group.context = static_cast<std::uint32_t>(context);
  group.name = std::move(name);
  for (const int r : members) {
    if (r == parent.rank()) group.rank = static_cast<int>(group.world.size());
    group.world.push_back(parent.to_world(r));
  }
  return add(std::move(group), free_channels ? std::countr_zero(free_channels) : -1);
}

Status World::free(Communicator* communicator) {
  if (communicator == communicators_.front().get())
    return fail(Code::kInvalid, "the world communicator cannot be freed; rlx_finalize ends it");
  if (const int n = communicator->collectives().n_pending())
    return fail(Code::kInvalid,
                fmt::format("{}: {} collectives are pending; wait for them before freeing it",
                            communicator->name(), n));
  if (const int n = endpoint_->n_in_use(communicator->context()))
    return fail(Code::kInvalid,
                fmt::format("{}: {} pending; wait for {} before freeing it", communicator->name(),
                            n == 1 ? "1 message is" : fmt::format("{} messages are", n),
                            n == 1 ? "it" : "them"));
  endpoint_->clear_group(communicator->context());
  if (communicator->channel() >= 0) free_channels_ |= std::uint64_t{1} << communicator->channel();
  std::erase_if(communicators_, [&](const auto& c) { return c.get() == communicator; });
  return {};
}

Communicator* World::of_context(std::uint32_t context) const {
  for (const auto& c : communicators_)
    if (c->context() == context) return c.get();
  return nullptr;
}

Status World::finalize() {
  const Deadline all = deadline().started();
  // After this barrier nobody needs our memory or our messages any more.
  Status met =
      world().collectives().run({.coll = Coll::barrier, .purpose = Purpose::finalize}, all);
  if (met) met = endpoint_->flush(all);
  // Who still flushes may have a word for us, such as a report of a call that took long: it must be
  // read, or the flush waits for us and we for it.
  bootstrap_->meanwhile([this] { endpoint_->poll(); });
  const Status left = bootstrap_->finalize(all);
  return met ? left : met;
}

void World::abort(int exit_code, std::string_view why) {
  bootstrap_->abort(exit_code, why);
  std::abort();  // not reached; g++ does not see that a virtual call never returns
}

}  // namespace rlx
