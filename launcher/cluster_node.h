// SPDX-License-Identifier: MIT OR Apache-2.0
// What one node says, on its way to the head: only what this node may say is passed on.
#pragma once

#include "launcher/cluster.h"

namespace rlx::launcher {

class Cluster::FromNode final : public NodeEvents {
 public:
  FromNode(Cluster& cluster, std::uint32_t node) : cluster_(cluster), node_(node) {}

  void started(RankId rank, pid_t pid, const std::string& note) override {
    if (owns(rank)) head().started(rank, pid, note);
  }
  void joined(RankId rank) override {
    if (owns(rank)) head().joined(rank);
  }
  void held(RankId rank) override {
    if (owns(rank)) head().held(rank);
  }
  void not_started(std::uint32_t, std::uint32_t job, const StartProblem& problem) override {
    if (cluster_.node_of_.contains(job)) head().not_started(node_, job, problem);
  }
  void output(RankId rank, Stream stream, Text text) override {
    if (owns(rank)) head().output(rank, stream, std::move(text));
  }
  void output_ended(RankId rank, Stream stream) override {
    if (owns(rank)) head().output_ended(rank, stream);
  }
  void output_lost(RankId rank, const std::string& problem) override {
    if (owns(rank)) head().output_lost(rank, problem);
  }
  void exited(RankId rank, int wait_status, const pmix::RankState& state) override {
    if (owns(rank)) head().exited(rank, wait_status, state);
  }
  void aborted(RankId by, int status, const std::string& message,
               const std::vector<RankId>& victims) override {
    if (owns(by)) head().aborted(by, status, message, victims);
  }
  void control_wanted(RankId by, const pmix::Control& control,
                      const std::vector<RankId>& targets) override {
    if (owns(by)) head().control_wanted(by, control, targets);
  }
  void spawn_wanted(RankId by, pmix::SpawnRequest request) override {
    if (!owns(by)) return;
    cluster_.asked_[++cluster_.n_asked_] = {node_, request.id};
    request.id = cluster_.n_asked_;
    head().spawn_wanted(by, std::move(request));
  }
  void input_taken(RankId rank, std::size_t n_bytes, bool closed) override {
    if (owns(rank)) head().input_taken(rank, n_bytes, closed);
  }
  void reported(const std::vector<std::string>& lines) override { head().reported(lines); }
  void quiet() override { cluster_.quiet(node_); }

 private:
  bool owns(RankId rank) const { return cluster_.owns(node_, rank); }
  NodeEvents& head() { return cluster_.head_; }

  Cluster& cluster_;
  std::uint32_t node_;
};

}  // namespace rlx::launcher
