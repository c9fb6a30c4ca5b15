// SPDX-License-Identifier: MIT OR Apache-2.0
// Cost: O(G^3) for G ranks.   Source: Kuhn-Munkres with potentials (Jonker-Volgenant form).
// Tested by test/sched/test_relabel.cc
#include "sched/relabel.h"

#include <algorithm>
#include <limits>
#include <numeric>

namespace rlx::sched {
namespace {

constexpr int kForbidden = -1'000'000;
constexpr int kMostExact = 512;

struct Matrix {
  int n;
  std::vector<int> gain;
  int operator()(int row, int column) const { return gain[size_t(row) * n + column]; }
};

// column_of[row] with the largest total gain.
std::vector<int> assign_exactly(const Matrix& m) {
  const int n = m.n;
  constexpr int64_t kInfinity = std::numeric_limits<int64_t>::max() / 4;
  std::vector<int64_t> u(n + 1), v(n + 1);
  std::vector<int> row_of(n + 1), way(n + 1);
  for (int i = 1; i <= n; ++i) {
    row_of[0] = i;
    int j0 = 0;
    std::vector<int64_t> least(n + 1, kInfinity);
    std::vector<uint8_t> used(n + 1);
    do {
      used[j0] = 1;
      const int i0 = row_of[j0];
      int64_t delta = kInfinity;
      int j1 = 0;
      for (int j = 1; j <= n; ++j) {
        if (used[j]) continue;
        const int64_t reduced = -int64_t{m(i0 - 1, j - 1)} - u[i0] - v[j];
        if (reduced < least[j]) {
          least[j] = reduced;
          way[j] = j0;
        }
        if (least[j] < delta) {
          delta = least[j];
          j1 = j;
        }
      }
      for (int j = 0; j <= n; ++j) {
        if (used[j]) {
          u[row_of[j]] += delta;
          v[j] -= delta;
        } else {
          least[j] -= delta;
        }
      }
      j0 = j1;
    } while (row_of[j0] != 0);
    for (; j0; j0 = way[j0]) row_of[j0] = row_of[way[j0]];
  }
  std::vector<int> column_of(n);
  for (int j = 1; j <= n; ++j) column_of[row_of[j] - 1] = j - 1;
  return column_of;
}

std::vector<int> assign_greedily(const Matrix& m) {
  std::vector<std::pair<int, int>> pairs;  // the pairs worth looking at, then the identity
  for (int i = 0; i < m.n; ++i)
    for (int j = 0; j < m.n; ++j)
      if (m(i, j) > 0) pairs.emplace_back(i, j);
  std::stable_sort(pairs.begin(), pairs.end(),
                   [&](auto a, auto b) { return m(a.first, a.second) > m(b.first, b.second); });
  std::vector<int> column_of(m.n, -1), taken(m.n);
  const auto take = [&](int i, int j) {
    if (column_of[i] >= 0 || taken[j] || m(i, j) <= kForbidden) return;
    column_of[i] = j;
    taken[j] = 1;
  };
  for (auto [i, j] : pairs) take(i, j);
  for (int i = 0; i < m.n; ++i) take(i, i);
  for (int i = 0; i < m.n; ++i)
    for (int j = 0; j < m.n; ++j) take(i, j);
  return column_of;
}

std::vector<int> assign(const Matrix& m, int& total) {
  std::vector<int> column_of = m.n <= kMostExact ? assign_exactly(m) : assign_greedily(m);
  total = 0;
  for (int i = 0; i < m.n; ++i) total += column_of[i] < 0 ? kForbidden : m(i, column_of[i]);
  return column_of;
}

class Relabel {
 public:
  Relabel(std::span<const int32_t> before, std::span<const int32_t> after, const Cluster& cluster,
          bool keep_nodes)
      : before_(before),
        after_(after),
        cluster_(cluster),
        nodes_(keep_nodes ? cluster.nodes() : 1) {
    ranks_.resize(nodes_);
    for (int r = 0; r < cluster.ranks(); ++r)
      ranks_[keep_nodes ? cluster.node_of[r] : 0].push_back(r);
  }

  // By rank of the plan: the rank that becomes it. Identity where the shapes leave no choice.
  std::vector<int> run() {
    std::vector<int> name(cluster_.ranks());
    std::iota(name.begin(), name.end(), 0);
    Matrix outer{nodes_, std::vector<int>(size_t(nodes_) * nodes_)};
    std::vector<std::vector<int>> inner(outer.gain.size());
    for (int a = 0; a < nodes_; ++a)
      for (int b = 0; b < nodes_; ++b) {
        const size_t i = size_t(a) * nodes_ + b;
        outer.gain[i] = kForbidden;
        if (ranks_[a].size() == ranks_[b].size())
          inner[i] = assign(overlaps(ranks_[a], ranks_[b]), outer.gain[i]);
      }
    int total;
    const std::vector<int> node = assign(outer, total);
    if (total <= kForbidden / 2) return name;
    for (int a = 0; a < nodes_; ++a)
      for (size_t i = 0; i < ranks_[a].size(); ++i)
        name[ranks_[a][i]] = ranks_[node[a]][inner[size_t(a) * nodes_ + node[a]][i]];
    return name;
  }

 private:
  // How many experts of plan rank `from[i]` rank `to[j]` holds already.
  Matrix overlaps(const std::vector<int>& from, const std::vector<int>& to) const {
    const int n = static_cast<int>(from.size());
    Matrix m{n, std::vector<int>(size_t(n) * n)};
    for (int i = 0; i < n; ++i)
      for (int j = 0; j < n; ++j) {
        int& gain = m.gain[size_t(i) * n + j];
        const int a = from[i], b = to[j];
        if (cluster_.slots_of(a) != cluster_.slots_of(b) ||
            cluster_.speed[a] != cluster_.speed[b]) {
          gain = kForbidden;
          continue;
        }
        const auto lo = before_.begin() + cluster_.first_slot[b], hi = lo + cluster_.slots_of(b);
        for (int s = cluster_.first_slot[a]; s < cluster_.first_slot[a + 1]; ++s)
          gain += after_[s] != kEmpty && std::find(lo, hi, after_[s]) != hi;
      }
    return m;
  }

  std::span<const int32_t> before_, after_;
  const Cluster& cluster_;
  const int nodes_;
  std::vector<std::vector<int>> ranks_;  // by node
};

}  // namespace

void keep_slots(std::span<const int32_t> before, std::span<int32_t> after, const Cluster& cluster) {
  for (int r = 0; r < cluster.ranks(); ++r) {
    const int lo = cluster.first_slot[r], hi = cluster.first_slot[r + 1];
    for (int s = lo; s < hi; ++s) {
      if (before[s] == kEmpty || after[s] == before[s]) continue;
      const auto found = std::find(&after[lo], &after[0] + hi, before[s]);
      if (found != &after[0] + hi && before[found - &after[0]] != *found)
        std::swap(after[s], *found);
    }
  }
}

std::vector<int32_t> relabel(std::span<const int32_t> before, std::span<const int32_t> after,
                             const Cluster& cluster, bool keep_nodes) {
  const std::vector<int> name = Relabel(before, after, cluster, keep_nodes).run();
  std::vector<int32_t> renamed(after.size());
  for (int r = 0; r < cluster.ranks(); ++r)
    std::copy_n(after.begin() + cluster.first_slot[r], cluster.slots_of(r),
                renamed.begin() + cluster.first_slot[name[r]]);
  keep_slots(before, renamed, cluster);
  return renamed;
}

}  // namespace rlx::sched
