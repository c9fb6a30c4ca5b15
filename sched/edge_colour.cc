// SPDX-License-Identifier: MIT OR Apache-2.0
// Cost: O(E V).   Source: Koenig (1916), alternating paths.   Tested by
// test/sched/test_migration.cc
#include "sched/edge_colour.h"

#include <algorithm>

namespace rlx::sched {

std::vector<int> colour_edges(const std::vector<Edge>& edges, int vertices) {
  std::vector<int> degree(2 * size_t(vertices));  // senders, then receivers
  for (const Edge& e : edges) {
    ++degree[e.from];
    ++degree[vertices + e.to];
  }
  const int colours = degree.empty() ? 0 : *std::max_element(degree.begin(), degree.end());
  std::vector<int> at(degree.size() * colours, -1);  // the edge of a colour at a vertex
  std::vector<int> colour(edges.size(), -1);
  const auto slot = [&](int vertex, int c) -> int& { return at[size_t(vertex) * colours + c]; };
  const auto free_at = [&](int vertex) {
    int c = 0;
    while (slot(vertex, c) >= 0) ++c;
    return c;
  };
  const auto other_end = [&](int edge, int vertex) {
    return vertex < vertices ? vertices + edges[edge].to : edges[edge].from;
  };
  std::vector<int> path;
  for (size_t i = 0; i < edges.size(); ++i) {
    const int u = edges[i].from, v = vertices + edges[i].to;
    const int a = free_at(u), b = free_at(v);
    // The path a, b, a, ... from v enters senders by a, so it never meets u: exchange a and b on
    // it.
    path.clear();
    for (int vertex = v, c = a; slot(vertex, c) >= 0; c = c == a ? b : a) {
      path.push_back(slot(vertex, c));
      vertex = other_end(path.back(), vertex);
    }
    for (int e : path)
      slot(edges[e].from, colour[e]) = slot(vertices + edges[e].to, colour[e]) = -1;
    for (int e : path) {
      colour[e] = colour[e] == a ? b : a;
      slot(edges[e].from, colour[e]) = slot(vertices + edges[e].to, colour[e]) = e;
    }
    colour[i] = a;
    slot(u, a) = slot(v, a) = static_cast<int>(i);
  }
  return colour;
}

}  // namespace rlx::sched
