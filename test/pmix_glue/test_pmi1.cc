// SPDX-License-Identifier: MIT OR Apache-2.0
#include <criterion/criterion.h>

#include <random>

#include "pmix_glue/pmi1.h"

using namespace rlx;
using namespace rlx::pmix;

namespace {

Pmi1Job job_of(uint32_t n) {
  Pmi1Job::Facts facts;
  facts.name = "kvs_test";
  facts.universe_size = n + 1;
  facts.nodes.assign(n, 0);
  facts.apps.assign(n, 0);
  return Pmi1Job(facts);
}

// What rank 0 is told when it says `line`.
std::string ask(Pmi1Job& job, const std::string& line, uint32_t rank = 0) {
  Pmi1Job::Output out;
  if (!job.input(rank, line + "\n", out)) return "refused";
  std::string all;
  for (const auto& reply : out.lines) all += std::to_string(reply.rank) + ":" + reply.text;
  return all;
}

}  // namespace

Test(pmi1, answers_every_request_of_a_client) {
  const struct {
    const char* request;
    const char* reply;
  } conversation[] = {
      {"cmd=init pmi_version=1 pmi_subversion=1",
       "0:cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0\n"},
      {"cmd=get_maxes", "0:cmd=maxes kvsname_max=256 keylen_max=64 vallen_max=1024\n"},
      {"cmd=get_appnum", "0:cmd=appnum appnum=0\n"},
      {"cmd=get_my_kvsname", "0:cmd=my_kvsname kvsname=kvs_test\n"},
      {"cmd=get_universe_size", "0:cmd=universe_size size=3\n"},
      {"cmd=get kvsname=kvs_test key=PMI_process_mapping",
       "0:cmd=get_result rc=0 msg=success value=(vector,(0,1,2))\n"},
      {"cmd=get kvsname=kvs_test key=a", "0:cmd=get_result rc=-1 msg=key_not_found\n"},
      {"cmd=put kvsname=kvs_test key=a value=b=c", "0:cmd=put_result rc=0 msg=success\n"},
      {"cmd=get kvsname=kvs_test key=a", "0:cmd=get_result rc=0 msg=success value=b=c\n"},
      {"cmd=put kvsname=kvs_test key= value=b",
       "0:cmd=put_result rc=-1 msg=too_long_or_store_full\n"},
      {"cmd=getbyidx kvsname=kvs_test idx=1",
       "0:cmd=getbyidx_results rc=0 nextidx=2 key=a val=b=c\n"},
      {"cmd=getbyidx kvsname=kvs_test idx=2",
       "0:cmd=getbyidx_results rc=-1 reason=no_more_keyvals\n"},
      {"cmd=getbyidx kvsname=kvs_test idx=-1x",
       "0:cmd=getbyidx_results rc=-1 reason=no_more_keyvals\n"},
      {"cmd=publish_name service=s port=p", "0:cmd=publish_result rc=0 info=ok\n"},
      {"cmd=publish_name service=s port=q", "0:cmd=publish_result rc=-1 msg=already_published\n"},
      {"cmd=lookup_name service=s", "0:cmd=lookup_result rc=0 port=p\n"},
      {"cmd=unpublish_name service=s", "0:cmd=unpublish_result rc=0 info=ok\n"},
      {"cmd=lookup_name service=s", "0:cmd=lookup_result rc=-1 msg=service_not_found\n"},
      {"mcmd=spawn\nnprocs=2\nexecname=x\nendcmd",
       "0:cmd=spawn_result rc=-1 msg=spawn_is_not_supported\n"},
      {"cmd=finalize", "0:cmd=finalize_ack\n"},
      {"cmd=sing", "refused"},
      {"", "refused"},
  };
  Pmi1Job job = job_of(2);
  for (const auto& row : conversation) {
    const auto reply = ask(job, row.request);
    cr_expect_str_eq(reply.c_str(), row.reply, "%s: %s", row.request, reply.c_str());
  }
}

Test(pmi1, lets_all_out_of_a_barrier_when_the_last_comes_in) {
  Pmi1Job job = job_of(3);
  for (int round = 0; round < 2; ++round) {
    for (const uint32_t rank : {0u, 0u, 2u}) cr_expect(ask(job, "cmd=barrier_in", rank).empty());
    // Rank 0 twice is once.
    const auto all = ask(job, "cmd=barrier_in", 1);
    cr_expect_str_eq(all.c_str(),
                     "0:cmd=barrier_out rc=0\n1:cmd=barrier_out rc=0\n2:cmd=barrier_out rc=0\n");
  }
}

Test(pmi1, reports_init_finalize_and_abort) {
  Pmi1Job job = job_of(1);
  Pmi1Job::Output out;
  cr_assert(job.input(0, "cmd=init pmi_version=1 pmi_subversion=1\ncmd=finalize\n", out));
  cr_expect(out.connected && out.finalized && !out.abort);
  cr_assert(job.input(0, "cmd=abort exitcode=42\n", out));
  cr_assert(out.abort.has_value());
  cr_expect_eq(out.abort->status, 42);
}

Test(pmi1, reads_requests_cut_anywhere) {
  const std::string requests = "cmd=put kvsname=k key=a value=1\ncmd=get kvsname=k key=a\n";
  for (size_t cut = 0; cut <= requests.size(); ++cut) {
    Pmi1Job job = job_of(1);
    Pmi1Job::Output out;
    cr_assert(job.input(0, requests.substr(0, cut), out));
    cr_assert(job.input(0, requests.substr(cut), out));
    cr_assert_eq(out.lines.size(), 2u);
    cr_expect_str_eq(out.lines[1].text.c_str(), "cmd=get_result rc=0 msg=success value=1\n");
  }
}

Test(pmi1, refuses_a_request_without_end) {
  Pmi1Job job = job_of(1);
  Pmi1Job::Output out;
  const std::string piece(4096, 'x');
  Status status;
  for (int i = 0; i < 10 && status; ++i) status = job.input(0, piece, out);
  cr_expect(!status.has_value());
}

// Any bytes at all: it answers or refuses, and what it answers are whole lines to ranks that exist.
Test(pmi1, survives_any_bytes, .timeout = 60) {
  const std::string words[] = {"cmd=",
                               "mcmd=",
                               "put",
                               "get",
                               "init",
                               "abort",
                               "key=",
                               "value=",
                               "barrier_in",
                               "idx=",
                               "getbyidx",
                               " ",
                               "\n",
                               "=",
                               "endcmd",
                               "exitcode=",
                               "99999999999999999999",
                               "spawn",
                               "service=",
                               "publish_name",
                               std::string(1, '\0'),
                               "\xff",
                               std::string(70, 'k')};
  std::mt19937 random(1);
  for (int round = 0; round < 3000; ++round) {
    Pmi1Job job = job_of(3);
    for (int piece = 0; piece < 20; ++piece) {
      std::string bytes;
      for (unsigned i = random() % 12; i > 0; --i)
        bytes += random() % 8 == 0 ? std::string(1, static_cast<char>(random()))
                                   : words[random() % std::size(words)];
      Pmi1Job::Output out;
      if (!job.input(random() % 4, bytes, out)) continue;
      for (const auto& line : out.lines) {
        cr_assert_lt(line.rank, 3u);
        cr_assert_eq(line.text.find('\n'), line.text.size() - 1);
      }
    }
  }
}

Test(pmi1, maps_ranks_to_nodes_as_mpich_reads_it) {
  const struct {
    std::vector<uint32_t> nodes;
    const char* text;
  } table[] = {{{0}, "(vector,(0,1,1))"},
               {{0, 0, 0, 0}, "(vector,(0,1,4))"},
               {{0, 0, 1, 1, 2, 2}, "(vector,(0,3,2))"},
               {{0, 0, 1}, "(vector,(0,1,2),(1,1,1))"},
               {{0, 1, 0, 1}, "(vector,(0,2,1),(0,2,1))"},
               {{2, 2, 0}, "(vector,(2,1,2),(0,1,1))"}};
  for (const auto& row : table) {
    const auto text = process_mapping(row.nodes);
    cr_expect_str_eq(text.c_str(), row.text);
  }
}
