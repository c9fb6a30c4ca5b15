// SPDX-License-Identifier: MIT OR Apache-2.0
// Every step takes the hottest rank of a window and the move that relieves it most for its price:
// an exchange of two slots, one more replica of an expert of that rank in the place of a replica
// that others have too, or, where none of these helps, an exchange of two slots for two. A step is
// accepted if the ranks it touches all stay below the peak, so the sorted times fall. Cost: O(P k)
// a step.   Tested by test/sched/test_search.cc
#include "sched/search.h"

#include <algorithm>
#include <limits>

namespace rlx::sched {

void apply(LayerState& state, const Move& move) {
  if (move.other >= 0)
    state.swap(move.slot, move.other);
  else
    state.assign(move.slot, move.expert);
}

namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

class Search {
 public:
  Search(LayerState& state, const SearchOptions& options)
      : state_(state),
        options_(options),
        cluster_(state.layer().cluster),
        windows_(static_cast<int>(state.layer().windows.size())),
        experts_(state.layer().experts()) {
    for (double speed : cluster_.speed) pace_.push_back(1 / speed);
    if (options.old.empty()) return;
    old_.resize(size_t(cluster_.ranks()) * experts_);
    for (int s = 0; s < cluster_.slots(); ++s)
      if (options.old[s] != kEmpty) old_[at(cluster_.rank_of[s], options.old[s])] = 1;
    for (int s = 0; s < cluster_.slots(); ++s)
      fetches_ += is_fetch(cluster_.rank_of[s], state.expert(s));
  }

  std::vector<Step> run(double bound) {
    std::vector<Step> steps;
    const double target = bound * (1 + options_.gap);
    const int most_steps = 4 * cluster_.slots() + 64;
    while (static_cast<int>(steps.size()) < most_steps) {
      const double before = state_.total_peak();
      if (before <= target || worked_out()) break;
      find_best(before);
      if (best_.empty()) break;
      for (const Move& move : best_) {
        fetches_ += extra_fetches(move);
        apply(state_, move);
        steps.push_back({move, state_.total_peak(), fetches_});
      }
      // With several windows the acceptance rule is optimistic about ranks it did not look at.
      if (windows_ == 1 || state_.total_peak() <= before * (1 + 1e-12)) continue;
      break;
    }
    return steps;
  }

 private:
  size_t at(int rank, int e) const { return size_t(rank) * experts_ + e; }
  int is_fetch(int rank, int32_t e) const {
    return !old_.empty() && e != kEmpty && !old_[at(rank, e)];
  }
  int extra_fetches(const Move& m) const {
    const int r = cluster_.rank_of[m.slot];
    if (m.other < 0) return is_fetch(r, m.expert) - is_fetch(r, state_.expert(m.slot));
    const int q = cluster_.rank_of[m.other];
    const int32_t e = state_.expert(m.slot), f = state_.expert(m.other);
    return is_fetch(r, f) + is_fetch(q, e) - is_fetch(r, e) - is_fetch(q, f);
  }

  // Thousands of ranks: what is found by then has to do. Counted, not timed: the same everywhere.
  bool worked_out() const { return work_ > kMostWork; }

  bool priced() const { return !old_.empty() || options_.price; }

  // Keeps the candidate if it gains more for its price than the best so far.
  void offer(std::initializer_list<Move> moves, double score) {
    if (score >= limit_) return;
    const double gain = base_ - score;
    if (!priced()) {
      best_ = moves;
      limit_ = score;
    } else if (options_.price) {
      candidates_.push_back({gain, moves});
    } else {
      take_if_better(gain, moves, 0);
    }
  }

  void take_if_better(double gain, std::span<const Move> moves, double price) {
    if (gain <= best_merit_ * kFree) return;
    int fetches = 0;
    for (const Move& m : moves) fetches += extra_fetches(m);
    const double merit = gain / std::max(kFree, fetches + price);
    if (merit <= best_merit_) return;
    best_merit_ = merit;
    best_.assign(moves.begin(), moves.end());
  }

  // Asking for prices is slow: only the moves that gain most are asked for.
  void weigh_candidates() {
    constexpr size_t kMostAsked = 64;
    std::stable_sort(candidates_.begin(), candidates_.end(),
                     [](const Candidate& a, const Candidate& b) { return a.gain > b.gain; });
    if (candidates_.size() > kMostAsked) candidates_.resize(kMostAsked);
    for (const Candidate& c : candidates_) {
      double price = 0;
      for (const Move& m : c.moves) price += options_.price(state_, m);
      take_if_better(c.gain, c.moves, price);
    }
    candidates_.clear();
  }

  void find_best(double before) {
    best_.clear();
    best_merit_ = 0;
    base_ = before;
    limit_ = before * (1 - 1e-9);
    std::vector<int> hot;
    for (int t = 0; t < windows_; ++t) {
      const int h = state_.hottest(t);
      if (std::find(hot.begin(), hot.end(), h) == hot.end()) hot.push_back(h);
    }
    for (int h : hot) {
      set_focus(h);
      try_swaps(h);
      // From scratch the counts are optimal already: exchanges are cheaper to look through.
      if (priced() || best_.empty()) try_replicas(h);
    }
    weigh_candidates();
    if (!best_.empty()) return;
    for (int h : hot) {
      set_focus(h);
      try_double_swaps(h);
    }
    weigh_candidates();
  }

  // floor_[t]: what window t contributes at least; nothing in the windows where h is the hottest.
  void set_focus(int h) {
    floor_.assign(windows_, 0);
    for (int t = 0; t < windows_; ++t)
      if (state_.hottest(t) != h) floor_[t] = state_.peak(t);
  }

  // The sum of peaks if `d(t)` of cost goes from rank h to rank r.
  template <class Difference>
  double shift_score(int h, int r, Difference d) const {
    double score = 0;
    for (int t = 0; t < windows_; ++t) {
      const double a = state_.time(t, h) - d(t) * pace_[h];
      const double b = state_.time(t, r) + d(t) * pace_[r];
      score += std::max(std::max(a, b), floor_[t]);
    }
    return score;
  }

  // Whatever h gives rank r, one of the two ends above what is wanted: at best they end level.
  bool too_hot(int h, int r) const {
    if (windows_ > 1) return false;
    if (state_.time(0, r) >= limit_) return true;
    const double work = state_.time(0, h) / pace_[h] + state_.time(0, r) / pace_[r];
    return work / (1 / pace_[h] + 1 / pace_[r]) * (1 - 1e-12) >= limit_;
  }

  int coldest() const {
    int coldest = 0;
    for (int r = 1; r < cluster_.ranks(); ++r)
      if (state_.time(0, r) < state_.time(0, coldest)) coldest = r;
    return coldest;
  }

  bool may_swap(int s, int q) const {
    const int32_t e = state_.expert(s), f = state_.expert(q);
    const int r = cluster_.rank_of[s], p = cluster_.rank_of[q];
    return e != f && (e == kEmpty || !state_.holds(p, e)) && (f == kEmpty || !state_.holds(r, f));
  }

  void try_swaps(int h) {
    // The coldest rank first: a good exchange with it rules out most others unseen.
    work_ += cluster_.ranks();
    const int cold = coldest();
    if (cold != h) try_swaps(h, cold);
    for (int r = 0; r < cluster_.ranks(); ++r)
      if (r != h && r != cold) try_swaps(h, r);
  }

  void try_swaps(int h, int r) {
    for (int s = cluster_.first_slot[h]; s < cluster_.first_slot[h + 1]; ++s) {
      if (state_.expert(s) == kEmpty || too_hot(h, r)) continue;
      work_ += cluster_.slots_of(r);
      for (int q = cluster_.first_slot[r]; q < cluster_.first_slot[r + 1]; ++q) {
        const double score = shift_score(
            h, r, [&](int t) { return state_.slot_cost(t, s) - state_.slot_cost(t, q); });
        if (score < limit_ && may_swap(s, q)) offer({{s, q}}, score);
      }
    }
  }

  // The sum of peaks if `slot` gets expert g: the ranks of the expert that goes become slower.
  double replace_score(int h, int slot, int32_t g) {
    const int r = cluster_.rank_of[slot];
    const int32_t f = state_.expert(slot);
    work_ += 1 + (f == kEmpty ? 0 : state_.copies(f));
    double score = 0;
    for (int t = 0; t < windows_; ++t) {
      const double more =
          f == kEmpty || state_.copies(f) < 2
              ? 0
              : state_.share(t, f, state_.copies(f) - 1) - state_.slot_cost(t, slot);
      const double new_share = g == kEmpty ? 0 : state_.share(t, g, state_.copies(g) + 1);
      const double less = g == kEmpty ? 0 : state_.share(t, g, state_.copies(g)) - new_share;
      const auto relief = [&](int rank) {
        return g != kEmpty && rank != r && state_.holds(rank, g) ? less : 0.0;
      };
      double peak = std::max(
          floor_[t], state_.time(t, r) + (new_share - state_.slot_cost(t, slot)) * pace_[r]);
      if (h != r) {
        const double worse = f != kEmpty && state_.holds(h, f) ? more : 0;
        peak = std::max(peak, state_.time(t, h) + (worse - relief(h)) * pace_[h]);
      }
      if (score + peak >= limit_) return kNever;
      if (f != kEmpty)
        for (int q : state_.slots_of(f)) {
          const int p = cluster_.rank_of[q];
          if (p != r) peak = std::max(peak, state_.time(t, p) + (more - relief(p)) * pace_[p]);
        }
      score += peak;
    }
    return score;
  }

  bool is_spare(int slot) const {
    return state_.expert(slot) == kEmpty || state_.copies(state_.expert(slot)) > 1;
  }

  // Whether a move that gains `most` at best can beat the best so far.
  bool can_pay(double most, const Move& move) const {
    return !priced() || most > best_merit_ * std::max<double>(kFree, extra_fetches(move));
  }

  // What the rank of `slot` gains at most if g takes the slot.
  double most_exchanged(int slot, int32_t g) const {
    double less = 0;
    for (int t = 0; t < windows_; ++t)
      less += std::max(0.0, state_.slot_cost(t, slot) - state_.share(t, g, state_.copies(g) + 1));
    return less * pace_[cluster_.rank_of[slot]];
  }

  // What rank h gains at most from one more replica of e elsewhere.
  double most_relief(int h, int32_t e) const {
    double relief = 0;
    for (int t = 0; t < windows_; ++t)
      relief += state_.share(t, e, state_.copies(e)) - state_.share(t, e, state_.copies(e) + 1);
    return relief * pace_[h];
  }

  void try_replicas(int h) {
    const int begin = cluster_.first_slot[h], end = cluster_.first_slot[h + 1];
    for (int s = begin; s < end; ++s) {
      const int32_t e = state_.expert(s);
      if (e == kEmpty) continue;
      const double most = most_relief(h, e);
      if (base_ - most >= limit_) continue;
      for (int q = 0; q < cluster_.slots() && !worked_out(); ++q) {
        const int r = cluster_.rank_of[q];
        if (r == h || !is_spare(q) || e == state_.expert(q) || state_.holds(r, e)) continue;
        const Move move{q, -1, e};
        if (priced() && most <= best_merit_ * std::max(kFree, double(extra_fetches(move))))
          continue;
        offer({move}, replace_score(h, q, e));
      }
    }
    for (int s = begin; s < end; ++s) {
      if (state_.expert(s) == kEmpty || !is_spare(s)) continue;
      for (int g = 0; g < experts_; ++g) {
        const Move move{s, -1, g};
        if (state_.holds(h, g)) continue;
        const double most = most_exchanged(s, g);
        if (base_ - most >= limit_ || !can_pay(most, move)) continue;
        offer({move}, replace_score(h, s, g));
      }
      if (options_.allow_empty) offer({{s, -1, kEmpty}}, replace_score(h, s, kEmpty));
    }
  }

  void try_double_swaps(int h) {
    const int begin = cluster_.first_slot[h], end = cluster_.first_slot[h + 1];
    for (int r = 0; r < cluster_.ranks(); ++r) {
      if (r == h || too_hot(h, r) || worked_out()) continue;
      for (int a = begin; a < end; ++a)
        for (int b = a + 1; b < end; ++b)
          for (int c = cluster_.first_slot[r]; c < cluster_.first_slot[r + 1]; ++c) {
            if (!may_swap(a, c)) continue;
            work_ += cluster_.slots_of(r);
            for (int d = cluster_.first_slot[r]; d < cluster_.first_slot[r + 1]; ++d) {
              if (d == c) continue;
              const double score = shift_score(h, r, [&](int t) {
                return state_.slot_cost(t, a) + state_.slot_cost(t, b) - state_.slot_cost(t, c) -
                       state_.slot_cost(t, d);
              });
              if (score < limit_ && may_swap(b, d)) offer({{a, c}, {b, d}}, score);
            }
          }
    }
  }

  struct Candidate {
    double gain;
    std::vector<Move> moves;
  };

  static constexpr int64_t kMostWork = int64_t{1} << 31;  // slots looked at: some seconds
  static constexpr double kFree = 0.05;  // the price of a move that costs nothing, in fetches

  LayerState& state_;
  const SearchOptions& options_;
  const Cluster& cluster_;
  const int windows_, experts_;
  std::vector<uint8_t> old_;  // ranks x experts: held before
  int fetches_ = 0;
  int64_t work_ = 0;           // slots looked at so far
  std::vector<double> pace_;   // by rank: 1 / speed
  std::vector<double> floor_;  // by window: see set_focus
  double base_ = 0, limit_ = 0, best_merit_ = 0;
  std::vector<Move> best_;
  std::vector<Candidate> candidates_;  // with SearchOptions::price only
};

}  // namespace

std::vector<Step> search(LayerState& state, double bound, const SearchOptions& options) {
  return Search(state, options).run(bound);
}

}  // namespace rlx::sched
