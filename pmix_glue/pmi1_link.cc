// SPDX-License-Identifier: MIT OR Apache-2.0
// The sockets of ranks that speak PMI-1.
#include <fmt/core.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "base/log.h"
#include "pmix_glue/server_impl.h"

namespace rlx::pmix {
namespace {

Pmi1Job::Facts facts_of(const Job& job, uint32_t here) {
  Pmi1Job::Facts facts;
  facts.here = here;
  facts.name = "kvs_" + job.name;
  facts.universe_size = std::max(job.universe_size, static_cast<uint32_t>(job.ranks.size()));
  for (const auto& place : job.ranks) {
    facts.nodes.push_back(place.node);
    facts.apps.push_back(place.app);
  }
  return facts;
}

// A client waits for each answer before it asks again, so an answer that does not fit in the socket
// is a client that breaks the protocol; it never blocks us.
bool send_line(int fd, const std::string& line) {
  const ssize_t n = ::send(fd, line.data(), line.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
  return n == static_cast<ssize_t>(line.size());
}

}  // namespace

Result<int> Server::Impl::open_pmi1(JobRecord& record, uint32_t rank) {
  if (!record.pmi1) record.pmi1 = std::make_unique<Pmi1Job>(facts_of(record.job, options.node));
  if (record.pmi1_sockets.contains(rank))
    return fail(Code::kInternal, fmt::format("rank {} has its PMI-1 socket already", rank));
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
    return fail_errno(fmt::format("cannot make a PMI-1 socket for rank {}", rank));
  const Status watched =
      shift.watch(ends[0], [this, job = record.job.name, rank] { read_pmi1(job, rank); });
  if (!watched) {
    ::close(ends[0]);
    ::close(ends[1]);
    return tl::unexpected(watched.error());
  }
  record.pmi1_sockets[rank] = ends[0];
  return ends[1];
}

void Server::Impl::send_pmi1(const JobRecord& record, const Pmi1Job::Output& out) const {
  for (const auto& line : out.lines) {
    const auto to = record.pmi1_sockets.find(line.rank);
    if (to != record.pmi1_sockets.end() && !send_line(to->second, line.text))
      log::warn("rank {} does not read its PMI-1 connection", line.rank);
  }
}

void Server::Impl::read_pmi1(const std::string& job, uint32_t rank) {
  JobRecord& record = jobs.find(job)->second;
  const auto socket = record.pmi1_sockets.find(rank);
  char buffer[4096];
  const ssize_t n = ::recv(socket->second, buffer, sizeof buffer, MSG_DONTWAIT);
  if (n < 0 && (errno == EAGAIN || errno == EINTR)) return;
  Pmi1Job::Output out;
  Status status;
  if (n > 0) status = record.pmi1->input(rank, {buffer, static_cast<size_t>(n)}, out);
  if (!status) log::warn("rank {}: {}; its PMI-1 connection is closed", rank, status.error().text);
  if (n <= 0 || !status) {
    shift.unwatch(socket->second);
    ::close(socket->second);
    record.pmi1_sockets.erase(socket);
  }
  send_pmi1(record, out);
  if (out.barrier)
    exchange->meet(Meeting::kPmi1Barrier, {{job, kAllRanks}}, std::move(*out.barrier),
                   [this, job](const Result<std::string>& all) {
                     const auto it = jobs.find(job);
                     if (it == jobs.end()) return;
                     Pmi1Job::Output done;
                     it->second.pmi1->barrier_done(all, done);
                     send_pmi1(it->second, done);
                   });
  const ProcId id{job, rank};
  {
    const std::lock_guard lock(mutex);
    record.ranks[rank].state.connected |= out.connected;
    record.ranks[rank].state.finalized |= out.finalized;
  }
  if (out.connected) host->connected(id);
  if (out.finalized) host->finalized(id);
  if (out.abort) host->aborted(id, out.abort->status, out.abort->message, {});
}

void Server::Impl::close_pmi1(JobRecord& record) {
  for (const auto& [rank, fd] : record.pmi1_sockets) {
    shift.unwatch(fd);
    ::close(fd);
  }
  record.pmi1_sockets.clear();
}

}  // namespace rlx::pmix
