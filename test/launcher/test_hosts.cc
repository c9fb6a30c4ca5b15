// SPDX-License-Identifier: MIT OR Apache-2.0
// Which hosts a job may use, and what is known of them.
#include <criterion/criterion.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/stat.h>

#include <fstream>

#include "launcher/allocation.h"
#include "launcher/flux.h"
#include "launcher/host_file.h"
#include "launcher/host_ranges.h"
#include "launcher/hosts.h"
#include "launcher/node_facts.h"
#include "launcher/resource_manager.h"
#include "test/launcher/launch.h"

using namespace rlx;
using namespace rlx::launcher;
using rlx::test::cut;
using rlx::test::expect_same;
using rlx::test::holds;

namespace {

std::string text_of(const std::vector<HostEntry>& hosts) {
  std::string text;
  for (const auto& host : hosts) {
    text += text.empty() ? "" : " ";
    text += host.user.empty() ? host.name : host.user + "@" + host.name;
    if (host.slots > 0) text += fmt::format(":{}", host.slots);
    if (host.max_slots > 0) text += fmt::format("/{}", host.max_slots);
    if (host.port > 0) text += fmt::format("!{}", host.port);
  }
  return text;
}

// The allocation, or why there is none. This host is "box".
Result<Allocation> allocate(const std::string& line,
                            const std::vector<std::string>& environment = {}) {
  RLX_TRY_ASSIGN(const auto parsed, parse_command_line(cut(line)));
  return read_allocation(parsed, Environment(environment), "box");
}

// "a b:4": its hosts, with the slots somebody said; or the error.
std::string allocated(const std::string& line, const std::vector<std::string>& environment = {}) {
  const auto allocation = allocate(line, environment);
  return allocation ? text_of(allocation->hosts) : allocation.error().text;
}

std::string write(const std::string& path, const std::string& text) {
  std::ofstream(path) << text;
  return path;
}

}  // namespace

Test(hosts, are_named_in_the_words_of_slurm) {
  const struct {
    const char *list, *names;
  } table[] = {{"n[1-2,4],gpu[001-003]-ib", "n1 n2 n4 gpu001-ib gpu002-ib gpu003-ib"},
               {"r[1-2]n[01-02]", "r1n01 r1n02 r2n01 r2n02"},
               {"c-ib[08-11]", "c-ib08 c-ib09 c-ib10 c-ib11"},
               {"[1-2]", "1 2"},
               {"n[9-10]x", "n9x n10x"},
               {"one", "one"}};
  for (const auto& row : table) {
    const auto names = expand_host_list(row.list);
    expect_same(names ? fmt::format("{}", fmt::join(*names, " ")) : names.error().text, row.names);
  }
  for (const char* wrong : {"", "n[", "n]", "n[]", "n[1-", "n[2-1]", "n[1,]", "n[a-b]", "a,,b",
                            "n[1-2]n[1-99999]", "n[0-999999999]", "n[1-9999999999]", "n[[1]]"})
    cr_expect(!expand_host_list(wrong), "%s", wrong);
}

Test(hosts, of_a_list_have_users_slots_and_addresses) {
  const auto list = [](const char* text) {
    const auto hosts = read_host_list(text);
    return hosts ? text_of(*hosts) : hosts.error().text;
  };
  expect_same(list("a:4,b[01-03]"), "a:4 b01 b02 b03");
  expect_same(list("me@n[1-2]:2,[::1]:3,fe80::1%eth0,[fe80::2]"),
              "me@n1:2 me@n2:2 ::1:3 fe80::1%eth0 fe80::2");
  cr_expect(holds(list("+n0"), "host '+n0': want its name, not its place"));
  for (const char* wrong :
       {"a:x",        "a:",      ":3",     "a,,b",        "[::1]x", "-oProxyCommand=x",
        "a;b",        "@a",      "-x@a",   "a b",         "$(a)",   "a:0",
        "a:99999999", ".",       "..",     "../../x",     "a/b",    "a:4:5",
        "a:b:c",      "[a:b]:4", "[-o:x]", "fe80::1%-$x", "a;b@c",  "a@b@c"})
    cr_expect(!read_host_list(wrong), "%s", wrong);
}

// A name becomes a word of the agent's command and a part of file names.
Test(hosts, with_names_that_are_more_than_names_are_refused_from_wherever_they_come) {
  const test::TempDir dir;
  for (const std::string bad : {"-oProxyCommand=x", "../../x", "..", "a;b", "a:4:5"}) {
    const std::string lines = write(dir / "lines", bad + " 2\n");
    const struct {
      std::string options, variable, where;
    } table[] = {
        {"--host " + bad, "", ""},
        {"--hostfile " + write(dir / "text", "a user=me\n" + bad + "\n"), "", "text:2: "},
        {"--hostfile " + write(dir / "user", "a user=-" + bad + "\n"), "", "user:1: "},
        {"--hostfile " + write(dir / "json", R"([{"ssh": "a"}, {"ssh": ")" + bad + "\"}]"), "",
         "json[1]: "},
        {"--hostfile " + write(dir / "ips", R"([{"ips": [")" + bad + "\"]}]"), "", "ips[0]: "},
        {"--hostfile " + write(dir / "at", R"([{"ssh": "-)" + bad + "@a\"}]"), "", "at[0]: "},
        {"--rm slurm", "SLURM_JOB_NODELIST=a," + bad, "SLURM_JOB_NODELIST: "},
        {"", "PBS_NODEFILE=" + lines, "PBS_NODEFILE: "},
        {"", "LSB_MCPU_HOSTS=a 1 " + bad + " 2", "LSB_MCPU_HOSTS: "},
        {"", "LSB_DJOB_HOSTFILE=" + lines, "LSB_DJOB_HOSTFILE: "},
        {"", "PE_HOSTFILE=" + lines, "PE_HOSTFILE: "},
    };
    for (const auto& row : table) {
      const auto seen = allocated(row.options + " ./a", {"SLURM_JOB_ID=7", row.variable});
      cr_expect(holds(seen, row.where) && (holds(seen, "' is no user's name") ||
                                           holds(seen, ": this is no host's name; want ")),
                "%s: %s", row.options.c_str(), seen.c_str());
      cr_expect_eq(holds(seen, "; --rm none "), !row.variable.empty(), "%s", seen.c_str());
    }
  }
}

Test(hosts, are_those_of_the_options_or_this_one_alone) {
  const struct {
    const char *line, *hosts;
  } table[] = {{"./a", "box"},
               {"--host a ./a", "a"},
               {"--host a:2,b ./a", "a:2 b"},
               {"--host a,a,b:2 --host b ./a", "a:2 b:3"},
               {"--host a,a.example.org,b ./a", "a:2 b"},
               {"--host localhost,box,127.0.0.1 ./a", "localhost:3"},
               {"-n 1 --host a ./a : -n 1 --host b ./b", "a b"}};
  for (const auto& row : table) expect_same(allocated(row.line), row.hosts);
  const auto two = *allocate("-n 1 --host b,a,b ./a : -n 1 --host a ./b");
  expect_same(fmt::format("{} {}", two.mentions, two.of_app), "[0, 1, 0, 1] [[0, 1, 0], [1]]");
  cr_expect(two.named && !two.hosts[0].here);
  const auto alone = *allocate("./a");
  cr_expect(!alone.named && alone.hosts[0].here);
  cr_expect((*allocate("--host 127.0.0.1 ./a")).hosts[0].here);
}

Test(hosts, come_from_files_of_three_forms) {
  const struct {
    const char *text, *wanted;  // or part of the error
  } table[] = {
      {"a slots=2\nb  max_slots=8 slots=4 # comment\n\n# more\nc user=me port=2222\r\n",
       "a:2 b:4/8 me@c!2222"},
      {"a:4\nb\nme@c:2", "a:4 b me@c:2"},
      {"n[01-02] slots=3", "n01:3 n02:3"},
      {"a\nb\na", "a b a"},
      {R"([{"ssh": "h1", "ips": ["10.0.0.1"], "rdma": [null, "rdma_en5"]}, {"ssh": "me@h2"}])",
       "h1:1 me@h2:1"},
      {"  [\n {\"ips\": [\"10.0.0.1\"], \"slots\": 4}]", "10.0.0.1:4"},
      {"[::1]:2", "::1:2"},
      {"\xef\xbb\xbf"
       "a:2\nb",
       "a:2 b"},
      {"\xef\xbb\xbf[{\"ssh\": \"a\"}]", "a:1"},
      {R"({"hosts": [{"ssh": "a"}, {"ssh": "b"}], "backend": "ring", "envs": []})", "a:1 b:1"},
      {R"({"hosts": ["a", "me@b"]})", "a me@b"},
      {"[\"a\", 3]", R"(f[1]: want "HOST" or {"ssh": "HOST", "ips": [...]})"},
      {R"({"hosts": [{"ssh": "a"}], "envs": ["A=1"]})", "f: \"envs\" is not read; "},
      {R"({"hosts": "a"})", R"(f: want an array of hosts or {"hosts": [...]})"},
      {R"({"ssh": "a"})", R"(f: want an array of hosts or {"hosts": [...]})"},
      {"a slots = 2 max_slots= 3\nb slots =4\n", "a:2/3 b:4"},
      {"a slots = = 2", "f:1: '=2' is not"},
      {"a slots =", "f:1: '' is not"},
      {"a = 2", "f:1: host 'a=2': "},
      {"a \033[31mb", "f:1: '\\x1b[31mb': want"},
      {"a:4:5", "f:1: host 'a:4': this is no host's name"},
      {"", "f: this file names no host"},
      {"# nobody\n", "f: this file names no host"},
      {"[]", "f: this file names no host"},
      {"a\nb slots=x", "f:2: 'x' is not"},
      {"a\n\nb slot=2", "f:3: 'slot=2': want"},
      {"a b", "f:1: 'b': want"},
      {"a:2 ifhn=a-ib",
       "f:1: 'ifhn=a-ib': take it out; all networks are tried, or those that RLX_NET"},
      {"a:2 binding=user:0,1", "f:1: 'binding=user:0,1': take it out; --bind-to and --map-by say"},
      {"a,b", "f:1: 'a,b': one host a line"},
      {"a slots=3 max_slots=2", "f:1: slots=3 is more than max_slots=2"},
      {"a port=70000", "f:1: '70000' is more than 65535"},
      {"[{\"ssh\": \"a\"},\n{\"ssh\": ]", "f:2: this is not JSON"},
      {R"([{"ssh": "a"}, {"name": "b"}])", "f[1]: want"},
  };
  for (const auto& row : table) {
    const auto hosts = parse_host_file(row.text, "f");
    const std::string seen = hosts ? text_of(*hosts) : hosts.error().text;
    cr_expect(hosts ? seen == row.wanted : holds(seen, row.wanted), "%s: %s", row.text,
              seen.c_str());
  }
  const auto longest = parse_host_file("a " + std::string(1000, 'b'), "f");
  cr_expect(holds(longest.error().text, "f:1: '" + std::string(80, 'b') + "...': want"));
  const auto hosts = *parse_host_file("a\nb:2", "f");
  expect_same(hosts[1].source, "f:2");
}

Test(hosts, of_files_lists_and_the_variable_are_chosen_in_order) {
  const test::TempDir dir;
  const std::string file = write(dir / "f", "a slots=4\nb\nc slots=2 max_slots=3\n");
  const std::string other = write(dir / "g", "x\n"), empty = write(dir / "e", "");
  const std::string f = "--hostfile " + file + " ";
  const std::vector<std::string> usual{"RLX_HOSTFILE=" + other};
  expect_same(allocated(f + "./a"), "a:4 b c:2/3");
  expect_same(allocated("-f " + file + " ./a"), "a:4 b c:2/3");
  expect_same(allocated(f + "--host c,a:2 ./a"), "c:2/3 a:2");
  expect_same(allocated(f + "--host a:9,b:9 ./a"), "a:4 b:9");  // never more than the file says
  expect_same(allocated("./a", usual), "x");
  expect_same(allocated(f + "./a", usual), "a:4 b c:2/3");
  expect_same(allocated("--host q ./a", usual), "q");
  expect_same(allocated("-n 1 " + f + "./a : -n 1 " + f + "./b"), "a:4 b c:2/3");
  const auto some = *allocate("-n 1 " + f + "--host c ./a : -n 1 " + f + "./b");
  expect_same(text_of(some.hosts), "a:4 b c:2/3");
  expect_same(fmt::format("{}", some.of_app[0]), "[2]");
  cr_expect(holds(allocated(f + "--host a,d ./a"), "host 'd' (--host) is not in " + file));
  cr_expect(holds(allocated("--hostfile /nowhere/f ./a"), "cannot open /nowhere/f: No such file"));
  cr_expect(holds(allocated("--hostfile " + empty + " ./a"), "names no host"));
}

Test(managers, give_hosts_by_their_environment) {
  const test::TempDir dir;
  const std::string lines = write(dir / "lines", "a\na\nb\na\n");
  const std::string pe = write(dir / "pe", "a 2 all.q@a <NULL>\nb 4 all.q@b UNDEFINED\n");
  const std::string srun = "PATH=" + dir.path();
  write(dir / "srun", "");
  chmod((dir / "srun").c_str(), 0755);
  using Variables = std::vector<std::string>;
  const auto slurm = [&](Variables more) {
    more.insert(more.end(), {"SLURM_JOB_ID=7", "SLURM_JOB_NODELIST=box,n[1-2]", srun});
    return more;
  };
  const struct {
    Variables environment;
    const char *options, *wanted;  // or part of the error
  } table[] = {
      {slurm({"SLURM_NTASKS=5", "SLURM_TASKS_PER_NODE=2(x2),1"}), "", "box:2 n1:2 n2:1"},
      // Without -n Slurm says one task a node: the cpus count.
      {slurm({"SLURM_TASKS_PER_NODE=1(x3)", "SLURM_JOB_CPUS_PER_NODE=8(x3)"}), "",
       "box:8 n1:8 n2:8"},
      {slurm({"SLURM_JOB_CPUS_PER_NODE=8(x2),3", "SLURM_CPUS_PER_TASK=4"}), "", "box:2 n1:2 n2:1"},
      // Inside a step of fewer nodes.
      {slurm({"SLURM_NTASKS=1", "SLURM_TASKS_PER_NODE=1", "SLURM_JOB_CPUS_PER_NODE=4(x3)"}), "",
       "box:4 n1:4 n2:4"},
      {slurm({}), "", "box n1 n2"},
      {slurm({}), "--rm none", "box"},
      {{"SLURM_JOB_ID=7", "SLURM_JOB_NODELIST=n[1-"},
       "",
       "SLURM_JOB_NODELIST: 'n[1-' is not a list of hosts such as n[1-2,4] or gpu[001-003]-ib (at "
       "most 65536 hosts); --rm none "},
      {slurm({"SLURM_NTASKS=3", "SLURM_TASKS_PER_NODE=1(x3)"}), "--host n2,n1:4", "n2:1 n1:1"},
      {slurm({}), "--host n1,n7,n8", "host 'n7' (--host) is not in Slurm job 7, which has box, n1"},
      {slurm({"SLURM_HET_SIZE=2"}), "", "Slurm job 7 is heterogeneous"},
      {{"SLURM_JOB_ID=7", "SLURM_JOB_NODELIST=n[1-2]", "SLURMD_NODENAME=n2"},
       "--host localhost",
       "n2"},
      {{"SLURM_JOB_ID=7", "SLURM_JOB_NODELIST=n1", "PATH=/nowhere"}, "", "box"},  // leaked
      {{"SLURM_JOB_ID=7", "SLURM_JOB_NODELIST=n1", "PATH=/nowhere"}, "--rm slurm", "n1"},
      {{"SLURM_JOB_ID=7"}, "", "box"},
      {{"SLURM_JOB_ID=7"}, "--rm slurm", "--rm slurm: there is no such job here"},
      {{"PBS_NODEFILE=" + lines, "PBS_JOBID=1"}, "", "a:3 b:1"},
      {{"PBS_NODEFILE=/nowhere/f"}, "", "PBS_NODEFILE: cannot open /nowhere/f"},
      {{"LSB_MCPU_HOSTS=a 2 b 4"}, "", "a:2 b:4"},
      {{"LSB_MCPU_HOSTS=a 2 b"}, "", "'a 2 b' is not 'HOST SLOTS"},
      {{"LSB_DJOB_HOSTFILE=" + lines}, "", "a:3 b:1"},
      {{"PE_HOSTFILE=" + pe}, "", "a:2 b:4"},
      {{"PE_HOSTFILE=" + lines}, "", "lines:1: 'a' is not 'HOST SLOTS"},
      {{"PBS_NODEFILE=" + lines, "PE_HOSTFILE=" + pe}, "", "a:3 b:1"},  // the first in order
      {{"PBS_NODEFILE=" + lines, "PE_HOSTFILE=" + pe}, "--rm sge", "a:2 b:4"},
  };
  for (const auto& row : table) {
    const auto allocation = allocate(row.options + std::string(" ./a"), row.environment);
    const std::string seen = allocation ? text_of(allocation->hosts) : allocation.error().text;
    cr_expect(allocation ? seen == row.wanted : holds(seen, row.wanted), "%s %s: %s",
              row.environment[0].c_str(), row.options, seen.c_str());
  }
  const auto pbs = *allocate("./a", {"PBS_NODEFILE=" + lines});
  expect_same(fmt::format("{}", pbs.mentions), "[0, 0, 1, 0]");
  cr_expect(pbs.manager == Manager::kPbs && pbs.named);
  for (const char* bad : {"2(x", "2(x2)", "many"}) {
    const auto unread =
        *allocate("./a", slurm({"SLURM_NTASKS=5", std::string("SLURM_TASKS_PER_NODE=") + bad}));
    cr_expect(holds(fmt::format("{}", fmt::join(unread.notes, "; ")),
                    std::string("SLURM_TASKS_PER_NODE=") + bad +
                        " is not used: it is no count for each of 3 nodes"));
    expect_same(text_of(unread.hosts), "box n1 n2");
  }
  const auto leaked = *allocate("./a", {"SLURM_JOB_ID=7", "SLURM_JOB_NODELIST=n1"});
  cr_expect(holds(fmt::format("{}", leaked.notes), "not in its n1"));
  const auto by_cpus = *allocate("./a", slurm({"SLURM_JOB_CPUS_PER_NODE=8(x3)"}));
  const auto more =
      *allocate("--host n1:4,n2:1 ./a", slurm({"SLURM_NTASKS=6", "SLURM_TASKS_PER_NODE=2(x3)"}));
  expect_same(fmt::format("{}", more.warnings),
              "[\"n1:4 (--host): Slurm job 7 has 2 slots there\"]");
  cr_expect(by_cpus.hosts[0].at_most_cores && by_cpus.hosts[0].here && !by_cpus.hosts[1].here);
}

// Flux is in no Debian 12: a stand-in answers as its manuals say. KNOWN are its commands.
Test(managers, are_asked_by_command_where_they_are_flux) {
  const test::TempDir dir;
  write(
      dir / "flux",
      "#!/bin/sh\n"
      "case \" $KNOWN \" in *\" $1 \"*) ;; *) echo \"flux: '$1' is not a flux command\" >&2; exit "
      "1;; "
      "esac\n"
      "test \"$LIST\" = never && exec sleep 1000\n"
      "case \"$*\" in 'hostlist local') echo \"$LIST\";; 'getattr hostlist') echo \"old,$LIST\";; "
      "*) exit 9;; esac\n");
  chmod((dir / "flux").c_str(), 0755);
  const struct {
    const char *known, *list, *task, *options, *wanted;  // or part of the error
  } table[] = {
      {"hostlist", "f[1-3]", "", "", "f1 f2 f3"},
      {"hostlist getattr", "f[1-2],box,g[001,004]", "", "", "f1 f2 box g001 g004"},
      {"hostlist", "f[1-3]", "", "--host f3:2,f1", "f3:2 f1"},
      {"hostlist", "f[1-3]", "", "--host f9", "host 'f9' (--host) is not in this Flux instance"},
      {"hostlist", "f[1-3]", "f2Qm", "--host f9", "is not in Flux job f2Qm, which has f1, f2, f3"},
      {"hostlist", "f1,f1,f2", "", "", "f1 f2"},  // several brokers on a host
      {"hostlist", "f[1-3]", "", "--rm none", "box"},
      {"getattr", "f[1-3]", "", "", "old f1 f2 f3"},
      {"getattr", "f[1-3]", "f2Qm", "",
       "'flux hostlist local' exited with code 1: flux: 'hostlist'"},
      {"", "", "", "", "exited with code 1: flux: 'hostlist' is not a flux command; --rm none "},
      {"hostlist", "", "", "", "'flux hostlist local' names no host; --rm none "},
      {"hostlist", "Welcome to Flux\n\nf[1-2]\n\n", "", "", "f1 f2"},
      {"hostlist", "f1 f2", "", "", "flux hostlist local: host 'f1 f2': this is no host's name; "},
      {"hostlist", "f[", "", "", "'flux hostlist local' says 'f[' is not a list of hosts"},
  };
  for (const auto& row : table) {
    std::vector<std::string> environment{
        "FLUX_URI=local:///x", "PATH=" + dir.path(), std::string("KNOWN=") + row.known,
        std::string("LIST=") + row.list, std::string("FLUX_JOB_ID=") + row.task};
    const auto allocation = allocate(row.options + std::string(" ./a"), environment);
    const std::string seen = allocation ? text_of(allocation->hosts) : allocation.error().text;
    cr_expect(allocation ? seen == row.wanted : holds(seen, row.wanted), "%s %s: %s", row.list,
              row.options, seen.c_str());
  }
  const auto some = *allocate("--host f3,f2 ./a", {"FLUX_URI=local:///x", "PATH=" + dir.path(),
                                                   "KNOWN=hostlist", "LIST=f1,f1,f[2-3]"});
  cr_expect(some.manager == Manager::kFlux && some.named);
  cr_expect_eq(some.hosts[0].flux_rank, 3);
  cr_expect_eq(some.hosts[1].flux_rank, 2);
  const auto silent = ask_flux_for_hosts(
      Environment({"PATH=" + dir.path() + ":/usr/bin:/bin", "KNOWN=hostlist", "LIST=never"}), 0.05);
  cr_assert(!silent);
  cr_expect(
      silent.error().text.ends_with("'flux hostlist local' did not answer within 0.05 s; --rm none "
                                    "takes no notice of Flux, then --host names hosts"),
      "%s", silent.error().text.c_str());
  const auto missing = allocate("./a", {"FLUX_URI=local:///x", "PATH=/nowhere"});
  cr_assert(!missing);
  expect_same(
      missing.error().text,
      "inside Flux (FLUX_URI is set), but flux: command not found in PATH; --rm none takes no "
      "notice of Flux, then --host names hosts");
  expect_same(allocated("--rm flux ./a"),
              "--rm flux: there is no such job here (FLUX_URI not set)");
}

Test(facts, of_a_node_reach_the_planner_through_bytes) {
  TopologySource source;
  source.synthetic = "pack:2 numa:2 core:4 pu:2";
  const Topology machine = Topology::load(source).value();
  NodeFacts facts = facts_of(machine, Environment({"CUDA_VISIBLE_DEVICES=0,1", "A=b"}), "n1");
  facts.allowed = *CpuSet::parse("0-7");
  facts.quota = 2.5;
  const auto allocation = *allocate("--host n1 ./a");
  Topologies topologies;
  const auto of_bytes = [&] { return decode_node_facts(encode(facts)).value(); };
  auto refused = hosts_of(allocation, std::vector{of_bytes()}, topologies);
  cr_assert(!refused);  // neither XML nor a topology of that signature
  facts.xml = machine.xml().value();
  const auto hosts = hosts_of(allocation, std::vector{of_bytes()}, topologies);
  cr_assert(hosts.has_value(), "%s", hosts ? "" : hosts.error().text.c_str());
  cr_expect_eq((*hosts)[0].slots, 3);  // the quota, rounded up
  expect_same((*hosts)[0].topology.allowed().text(), "0-7");
  facts.xml.clear();
  cr_expect(hosts_of(allocation, std::vector{of_bytes()}, topologies).has_value());
  auto by_cpus = allocation;
  by_cpus.hosts[0].slots = 8;
  by_cpus.hosts[0].source = "SLURM_JOB_CPUS_PER_NODE=8";
  by_cpus.hosts[0].at_most_cores = true;
  const auto capped = hosts_of(by_cpus, std::vector{of_bytes()}, topologies);
  cr_assert(capped && (*capped)[0].slots == 3);
  expect_same((*capped)[0].slots_source,
              "SLURM_JOB_CPUS_PER_NODE=8, capped by a control group, which allows 2.5 cpus");
  const std::string bytes = encode(facts);
  for (std::size_t n = 0; n < bytes.size(); ++n)
    cr_expect(!decode_node_facts(std::string_view(bytes).substr(0, n)), "%zu bytes", n);
  cr_assert_eq(of_bytes().visible.size(), 1u);
  expect_same(of_bytes().visible[0], "CUDA_VISIBLE_DEVICES=0,1");
}
