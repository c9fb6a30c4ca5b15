// SPDX-License-Identifier: MIT OR Apache-2.0
#include "pmix_glue/client.h"

#include <fmt/core.h>
#include <pmix.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstdlib>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "base/log.h"
#include "pmix_glue/info.h"
#include "pmix_glue/mail.h"
#include "pmix_glue/status.h"

namespace rlx::pmix {
namespace {

constexpr char kBlobKey[] = "rlx.blob.1";

constexpr auto kTurnEvery = std::chrono::milliseconds(5);

// For the server's word on a rank that a wire found gone.
constexpr auto kPatience = std::chrono::milliseconds(500);

class Value {
 public:
  ~Value() {
    if (value_ != nullptr) PMIX_VALUE_RELEASE(value_);
  }
  Value() = default;
  Value(const Value&) = delete;
  Value& operator=(const Value&) = delete;
  pmix_value_t** operator&() { return &value_; }
  const pmix_value_t* get() const { return value_; }

 private:
  pmix_value_t* value_ = nullptr;
};

// Answered from what the server gave at Init: a server without the key is not asked again.
void get_optional(const pmix_proc_t& proc, const char* key, Value& value) {
  InfoList optional;
  optional.flag(PMIX_OPTIONAL, true);
  if (PMIx_Get(&proc, key, optional.data(), optional.size(), &value) != PMIX_SUCCESS)
    log::debug("the PMIx server does not give {}", key);
}

std::vector<int> parse_ranks(const std::string& list) {
  std::vector<int> ranks;
  const char* at = list.data();
  const char* const end = at + list.size();
  while (at < end) {
    int rank = 0;
    const auto [next, error] = std::from_chars(at, end, rank);
    if (error != std::errc()) return {};
    ranks.push_back(rank);
    at = next < end && *next == ',' ? next + 1 : end;
  }
  return ranks;
}

class Client final : public Bootstrap {
 public:
  explicit Client(const pmix_proc_t& me) : me_(me) {}
  Status read_facts();

  const BootstrapFacts& facts() const override { return facts_; }
  Status put(std::string_view blob) override;
  Status fence(Deadline deadline) override;
  Result<std::string> get(int rank) override;
  [[noreturn]] void abort(int exit_code, std::string_view why) override;
  Status finalize(Deadline deadline) override;
  void watch(std::function<void(int, std::string)> on_failure) override;
  void peer_failed(int rank, const std::string& cause) override;
  std::optional<std::string> last_word_on(int rank) override;
  void meanwhile(std::function<void()> turn) override { turn_ = std::move(turn); }
  void hear_events() { hears_of_peers_ = register_events(); }

 private:
  pmix_proc_t all() const {
    pmix_proc_t proc = me_;
    proc.rank = PMIX_RANK_WILDCARD;
    return proc;
  }
  Status meet(bool collect, Deadline deadline, const char* what);
  std::string absent() const;

  pmix_proc_t me_;
  BootstrapFacts facts_;
  bool hears_of_peers_ = false;
  bool is_patient_ = true;      // the server has said something whenever it was waited for
  std::function<void()> turn_;  // while waiting in finalize(); empty: just wait
};

Status Client::read_facts() {
  Value size, peers, host;
  get_optional(all(), PMIX_JOB_SIZE, size);
  get_optional(all(), PMIX_LOCAL_PEERS, peers);
  get_optional(me_, PMIX_HOSTNAME, host);
  const auto n = number(size.get());
  if (!n || *n < 1 || me_.rank >= *n)
    return fail(Code::kInvalid,
                fmt::format("the PMIx server says that the job has {} ranks and this is rank {}",
                            n.value_or(0), me_.rank));
  facts_.rank = static_cast<int>(me_.rank);
  facts_.size = static_cast<int>(*n);
  facts_.source = "pmix";
  facts_.job_id = me_.nspace;
  facts_.local_ranks = parse_ranks(text(peers.get()));
  facts_.hostname = text(host.get());
  if (facts_.hostname.empty()) {
    char name[256] = "";
    ::gethostname(name, sizeof name - 1);
    facts_.hostname = name;
  }
  return {};
}

Status Client::put(std::string_view blob) {
  pmix_value_t value;
  PMIX_VALUE_CONSTRUCT(&value);
  value.type = PMIX_BYTE_OBJECT;
  value.data.bo.bytes = const_cast<char*>(blob.data());  // copied by PMIx_Put
  value.data.bo.size = blob.size();
  pmix_status_t status = PMIx_Put(PMIX_GLOBAL, kBlobKey, &value);
  if (status == PMIX_SUCCESS) status = PMIx_Commit();
  if (status != PMIX_SUCCESS) return fail_pmix(status, "PMIx_Put");
  return {};
}

// The state of one fence, owned by its callback as well: it may come after the deadline.
struct Meeting {
  std::optional<pmix_status_t> status;  // under Mail::mutex
};

void on_met(pmix_status_t status, void* context) {
  const auto* meeting = static_cast<std::shared_ptr<Meeting>*>(context);
  {
    const std::lock_guard lock(mail().mutex);
    (*meeting)->status = status;
  }
  mail().news.notify_all();
  delete meeting;
}

// The first to fail: later ones often only follow it.
std::string describe(const std::vector<std::pair<int, std::string>>& failed) {
  const auto& [rank, cause] = failed.front();
  return rank < 0 ? cause : fmt::format("rank {}: {}", rank, cause);
}

Status Client::meet(bool collect, Deadline deadline, const char* what) {
  InfoList infos;
  infos.flag(PMIX_COLLECT_DATA, collect);
  const auto meeting = std::make_shared<Meeting>();
  auto* context = new std::shared_ptr<Meeting>(meeting);
  const pmix_proc_t everyone = all();
  const pmix_status_t begun =
      PMIx_Fence_nb(&everyone, 1, infos.data(), infos.size(), on_met, context);
  if (begun != PMIX_SUCCESS) {
    delete context;
    if (begun == PMIX_OPERATION_SUCCEEDED) return {};
    return fail_pmix(begun, "PMIx_Fence");
  }
  auto& box = mail();
  std::unique_lock lock(box.mutex);
  const auto over = [&] { return meeting->status || !box.failed.empty(); };
  // Steady time is CLOCK_MONOTONIC; a deadline of never would overflow it.
  const auto until = std::chrono::steady_clock::now() +
                     std::chrono::nanoseconds(std::min<int64_t>(deadline.left_ns(), 1LL << 60));
  while (turn_ && !over() && std::chrono::steady_clock::now() < until) {
    lock.unlock();
    turn_();
    lock.lock();
    box.news.wait_for(lock, kTurnEvery, over);
  }
  if (!box.news.wait_until(lock, until, over)) {
    lock.unlock();
    return fail(Code::kTimeout,
                fmt::format("rank {} waited in {} for all {} ranks until the deadline; {}",
                            facts_.rank, what, facts_.size, absent()));
  }
  if (meeting->status == PMIX_SUCCESS) return {};
  // A fence that ends early says only that someone is gone; who, comes as an event just after.
  box.news.wait_for(lock, std::chrono::seconds(2), [&] { return !box.failed.empty(); });
  if (box.failed.empty())
    return fail_pmix(meeting->status.value_or(PMIX_ERROR), fmt::format("in {}", what));
  return fail(Code::kPeerFailed,
              fmt::format("rank {} in {}: {}", facts_.rank, what, describe(box.failed)));
}

// Ranks that have not put anything yet, as words. Ours has, so whoever has not is late.
std::string Client::absent() const {
  std::string list;
  int n_absent = 0;
  for (int r = 0; r < facts_.size && n_absent < 8; ++r) {
    pmix_proc_t proc = me_;
    proc.rank = static_cast<pmix_rank_t>(r);
    InfoList infos;
    infos.flag(PMIX_IMMEDIATE, true);
    infos.integer(PMIX_TIMEOUT, 1);
    Value value;
    if (PMIx_Get(&proc, kBlobKey, infos.data(), infos.size(), &value) == PMIX_SUCCESS) continue;
    list += fmt::format("{}{}", n_absent++ > 0 ? ", " : "", r);
  }
  if (n_absent == 0) return "all of them have started, so one is stuck or stopped";
  return fmt::format("rank{} {} ha{} not come", n_absent > 1 ? "s" : "", list,
                     n_absent > 1 ? "ve" : "s");
}

Status Client::fence(Deadline deadline) { return meet(true, deadline, "the first fence"); }

Result<std::string> Client::get(int rank) {
  pmix_proc_t proc = me_;
  proc.rank = static_cast<pmix_rank_t>(rank);
  // After the fence the server has it; without this a missing key is waited for.
  InfoList infos;
  infos.flag(PMIX_IMMEDIATE, true);
  Value value;
  const pmix_status_t status = PMIx_Get(&proc, kBlobKey, infos.data(), infos.size(), &value);
  if (status != PMIX_SUCCESS)
    return fail_pmix(status,
                     fmt::format("nothing from rank {}: is it a program of the same rlx?", rank));
  if (value.get()->type != PMIX_BYTE_OBJECT)
    return fail(Code::kInvalid, fmt::format("rank {} put a value that is not bytes", rank));
  const auto& bytes = value.get()->data.bo;
  return std::string(bytes.bytes != nullptr ? bytes.bytes : "", bytes.size);
}

void Client::abort(int exit_code, std::string_view why) {
  // Only rlxrun prints what it is told; other launchers keep it to themselves.
  if (std::getenv("RLX_JOBID") == nullptr)
    fmt::print(stderr, "rlx: rank {} aborts the job: {}\n", facts_.rank, why);
  PMIx_Abort(exit_code, std::string(why).c_str(), nullptr, 0);
  ::_exit((exit_code & 0xff) != 0 ? exit_code & 0xff : 1);
}

Status Client::finalize(Deadline deadline) {
  const Status met = meet(false, deadline, "finalize");
  mail().left = met.has_value();
  // Still in the job, to end it: see peer_failed.
  if (!met && !hears_of_peers_) return met;
  const pmix_status_t status = PMIx_Finalize(nullptr, 0);
  if (!met) return met;
  if (status != PMIX_SUCCESS) return fail_pmix(status, "PMIx_Finalize");
  return {};
}

void Client::watch(std::function<void(int, std::string)> on_failure) {
  std::vector<std::pair<int, std::string>> already;
  {
    const std::lock_guard lock(mail().mutex);
    mail().on_failure = on_failure;
    already = mail().failed;
  }
  for (const auto& [rank, cause] : already) on_failure(rank, cause);
}

// A launcher whose server tells of deaths ends the job as it is told.
void Client::peer_failed(int rank, const std::string& cause) {
  if (hears_of_peers_ || mail().left) return;
  report(rank, cause);
  end_job_soon(fmt::format("rank {} is gone: {}", rank, cause));
}

std::optional<std::string> Client::last_word_on(int rank) {
  if (!hears_of_peers_ || mail().left) return std::nullopt;
  std::optional<std::string> word;
  std::unique_lock lock(mail().mutex);
  const auto has_come = [&] {
    for (const auto& [known, cause] : mail().failed)
      if (known == rank || known < 0) word = cause;
    return word.has_value();
  };
  // Where the network to a host is gone, its ranks are, one after the other: only once.
  is_patient_ &= mail().news.wait_for(lock, is_patient_ ? kPatience : kPatience * 0, has_come);
  return word;
}

}  // namespace

Result<std::unique_ptr<Bootstrap>> connect_client() {
  pmix_proc_t me;
  const pmix_status_t status = PMIx_Init(&me, nullptr, 0);
  if (status != PMIX_SUCCESS)
    return fail_pmix(
        status,
        fmt::format("the PMIx server that PMIX_NAMESPACE names does not answer (PMIx here: {})",
                    PMIx_Get_version()));
  auto client = std::make_unique<Client>(me);
  RLX_TRY(client->read_facts());
  mail().job = me.nspace;
  client->hear_events();
  return std::unique_ptr<Bootstrap>(std::move(client));
}

}  // namespace rlx::pmix
