// SPDX-License-Identifier: MIT OR Apache-2.0
// The parts of pmix_glue that need no server.
#include <criterion/criterion.h>
#include <poll.h>
#include <sys/mman.h>
#include <unistd.h>

#include <random>
#include <thread>

#include "pmix_glue/local.h"
#include "pmix_glue/server.h"
#include "pmix_glue/shift.h"
#include "pmix_glue/store.h"
#include "test/pmix_glue/hosted.h"

using namespace rlx;
using namespace rlx::pmix;

Test(choose_source, takes_what_the_environment_says_and_never_a_silent_world_of_one) {
  const struct {
    std::vector<std::string> environment;
    const char* wanted;  // "single", "pmix", or a part of the error
  } table[] = {
      {{}, "single"},
      {{"HOME=/", "PATH=/bin"}, "single"},
      {{"PMIX_NAMESPACE=x", "PMIX_RANK=0"}, "pmix"},
      {{"PMIX_NAMESPACE=x"}, "PMIX_RANK is not"},
      {{"PMIX_NAMESPACE=x", "PMIX_RANK=0", "SLURM_STEP_ID=0", "SLURM_NTASKS=4"}, "pmix"},
      {{"SLURM_STEP_ID=0", "SLURM_NTASKS=2", "SLURM_PROCID=0"}, "srun --mpi=pmix"},
      {{"SLURM_STEP_ID=0", "SLURM_STEP_NUM_TASKS=2"}, "srun --mpi=pmix"},
      {{"SLURM_STEP_ID=0", "SLURM_STEP_NUM_TASKS=1", "SLURM_NTASKS=4"}, "single"},
      {{"SLURM_NTASKS=4", "SLURM_JOB_ID=3"}, "single"},
      {{"PMI_FD=5", "PMI_SIZE=2", "PMI_RANK=1"}, "PMI-1 only"},
      {{"PMI_FD=5", "PMI_SIZE=1", "PMI_RANK=0"}, "single"},
      {{"RLX_RANK=1", "RLX_SIZE=2"}, "start it with rlxrun"},
      {{"OMPI_COMM_WORLD_RANK=1", "OMPI_COMM_WORLD_SIZE=2"}, "mpirun"},
      {{"TORCHELASTIC_RUN_ID=none", "WORLD_SIZE=2"}, "torchrun"},
      {{"WORLD_SIZE=2"}, "single"},
      {{"FLUX_TASK_RANK=0", "FLUX_JOB_SIZE=2"}, "flux"},
      {{"SLURM_STEP_ID=0", "SLURM_NTASKS=many"}, "single"},
  };
  for (const auto& row : table) {
    const auto source = choose_source(row.environment);
    const std::string got =
        !source ? source.error().text : (*source == Source::kPmix ? "pmix" : "single");
    cr_expect(got.find(row.wanted) != std::string::npos, "wanted %s, got %s", row.wanted,
              got.c_str());
  }
}

Test(choose_source, an_error_says_what_was_seen_and_how_to_go_on) {
  const auto source = choose_source({"SLURM_STEP_ID=0", "SLURM_NTASKS=2"});
  cr_assert(!source);
  for (const char* part : {"SLURM_NTASKS=2", "PMIX_NAMESPACE", "srun --mpi=pmix", "RLX_BOOTSTRAP"})
    cr_expect(source.error().text.find(part) != std::string::npos, "%s", part);
}

Test(single_bootstrap, is_a_world_of_one) {
  const auto b = single_bootstrap();
  cr_expect_eq(b->facts().rank, 0);
  cr_expect_eq(b->facts().size, 1);
  cr_assert(b->put("blob"));
  cr_assert(b->fence(Deadline::never()));
  cr_expect(b->get(0).value() == "blob");
  cr_expect(!b->get(1));
  cr_expect(b->finalize(Deadline::never()).has_value());
}

namespace {

using Lifetime = Publication::Lifetime;
using Scope = Publication::Scope;

std::string look(Store& store, const ProcId& by, const std::string& key) {
  std::string found = "-";
  store.lookup({by, {key}, 0}, [&](const std::vector<Publication>& items) {
    if (!items.empty()) found = items[0].value;
  });
  return found;
}

}  // namespace

Test(store, shows_a_name_to_those_in_its_scope) {
  const ProcId a{"job", 0}, b{"job", 1}, c{"other", 0};
  const struct {
    Scope scope;
    const char *a, *b, *c;
  } table[] = {{Scope::kRank, "v", "-", "-"},
               {Scope::kJob, "v", "v", "-"},
               {Scope::kSession, "v", "v", "v"}};
  for (const auto& row : table) {
    Store store;
    cr_assert(store.publish({a, "k", "v", Lifetime::kSession, row.scope}));
    cr_expect(!store.publish({a, "k", "w", Lifetime::kSession, row.scope}));
    cr_expect(look(store, a, "k") == row.a);
    cr_expect(look(store, b, "k") == row.b);
    cr_expect(look(store, c, "k") == row.c);
    store.unpublish(b, {});
    cr_expect(look(store, a, "k") == "v", "only its owner takes it back");
    store.unpublish(a, {"x"});
    cr_expect(look(store, a, "k") == "v");
    store.unpublish(a, {"k"});
    cr_expect(look(store, a, "k") == "-");
  }
}

Test(store, keeps_a_name_as_long_as_it_was_published_for) {
  const ProcId owner{"job", 0}, other{"job", 1};
  const struct {
    Lifetime lifetime;
    const char *first, *second, *after_rank, *after_job;
  } table[] = {{Lifetime::kFirstRead, "v", "-", "-", "-"},
               {Lifetime::kRank, "v", "v", "-", "-"},
               {Lifetime::kJob, "v", "v", "v", "-"},
               {Lifetime::kSession, "v", "v", "v", "v"}};
  for (const auto& row : table) {
    Store store;
    cr_assert(store.publish({owner, "k", "v", row.lifetime, Scope::kSession}));
    cr_expect(look(store, other, "k") == row.first);
    cr_expect(look(store, other, "k") == row.second);
    store.gone(other);
    store.gone(owner);
    cr_expect(look(store, {"x", 0}, "k") == row.after_rank);
    store.gone({"job", kAllRanks});
    cr_expect(look(store, {"x", 0}, "k") == row.after_job);
  }
}

Test(store, parks_a_lookup_until_enough_is_there_it_is_cancelled_or_its_rank_is_gone) {
  Store store;
  int n_answers = 0;
  size_t n_found = 0;
  const auto count = [&](const std::vector<Publication>& items) {
    ++n_answers;
    n_found = items.size();
  };
  const ProcId owner{"job", 0};
  const auto publish = [&](const char* key) {
    cr_assert(store.publish({owner, key, "v", Lifetime::kFirstRead, Scope::kSession}));
  };
  store.lookup({{"job", 1}, {"a", "b"}, 2}, count);
  publish("a");
  cr_expect_eq(n_answers, 0);
  publish("b");
  cr_expect_eq(n_answers, 1);
  cr_expect_eq(n_found, 2u);
  const uint64_t ticket = store.lookup({{"job", 1}, {"c"}, 1}, count);
  store.lookup({{"job", 2}, {"c"}, 1}, count);
  store.cancel(ticket);
  store.gone({"job", 2});
  publish("c");
  cr_expect_eq(n_answers, 1);
  cr_expect(look(store, owner, "c") == "v");
}

Test(shift, runs_posts_timers_and_descriptors_on_the_running_thread) {
  Shift shift;
  cr_assert(shift.open());
  std::string order;
  const auto wait = [&shift] {
    pollfd fd{shift.fd(), POLLIN, 0};
    ::poll(&fd, 1, 5000);
    shift.run();
  };
  std::thread([&] { shift.post([&] { order += "p"; }); }).join();
  wait();
  cr_expect_str_eq(order.c_str(), "p");
  const auto late = shift.after_ms(60000, [&] { order += "!"; });
  shift.after_ms(2, [&] { order += "2"; });
  shift.after_ms(1, [&] { order += "1"; });
  const auto never = shift.after_ms(1, [&] { order += "!"; });
  shift.cancel(never);
  shift.cancel(late);
  while (order.size() < 3) wait();
  cr_expect_str_eq(order.c_str(), "p12");
  int ends[2];
  cr_assert_eq(::pipe(ends), 0);
  cr_assert(shift.watch(ends[0], [&] {
    order += "r";
    shift.unwatch(ends[0]);
  }));
  cr_assert_eq(::write(ends[1], "x", 1), 1);
  wait();
  shift.run();
  cr_expect_str_eq(order.c_str(), "p12r");
  ::close(ends[0]);
  ::close(ends[1]);
}

Test(protocol, is_pmix_for_any_file_that_is_no_program_of_mpich, .timeout = 60) {
  for (const char* path : {"/bin/true", "/nonexistent", "/", "/dev/null", "/etc/passwd"})
    cr_expect(protocol_of(path) == Protocol::kPmix, "%s", path);
  // Damaged programs: cut at every length of the header, then with bytes changed anywhere.
  const std::string good = test::read_file("/proc/self/exe");
  std::mt19937 random(1);
  for (int round = 0; round < 400; ++round) {
    std::string bad = good.substr(0, 20000);
    if (round < 200)
      bad.resize(static_cast<size_t>(round) * 7);
    else
      for (int i = 0; i < 40; ++i) bad[random() % 1200] = static_cast<char>(random());
    const int fd = ::memfd_create("program", MFD_CLOEXEC);
    cr_assert_eq(::write(fd, bad.data(), bad.size()), static_cast<ssize_t>(bad.size()));
    cr_expect(protocol_of("/proc/self/fd/" + std::to_string(fd)) == Protocol::kPmix);
    ::close(fd);
  }
}

Test(environment, of_other_launchers_is_recognised) {
  for (const char* name : {"PMIX_RANK", "PMI_FD", "PRTE_X", "OMPI_COMM_WORLD_RANK",
                           "JSM_JSRUN_PORT", "OMPI_MCA_ess_base_jobid", "HYDI_CONTROL_FD"})
    cr_expect(belongs_to_a_launcher(name), "%s", name);
  for (const char* name : {"PATH", "PMIX_MCA_gds", "OMPI_MCA_btl", "RLX_LOG", "MPI_HOME"})
    cr_expect(!belongs_to_a_launcher(name), "%s", name);
}
