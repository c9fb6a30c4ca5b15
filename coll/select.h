// SPDX-License-Identifier: MIT OR Apache-2.0
// Which algorithm carries out a call: the first rule that fits, else the cheapest valid one by the
// cost model. Every rank decides alone from facts that all share, so all decide the same.
//
// A rules file (RLX_RULES) has one rule a line, the first that matches wins, # starts a comment:
//   all_reduce fabric=tcp ranks=2-8 bytes=0-64K dtype=* -> recursive_doubling
//   * ranks=2 -> auto
// Keys: fabric (shm, tcp, ...), ranks and bytes (A, A-B, A-: inclusive; suffixes K M G), dtype, op,
// mode. A key that is left out matches everything; `auto` means the model. A rule whose algorithm
// is not valid for a call is passed over and counted.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "coll/algorithm.h"

namespace rlx {

struct Rule {
  std::uint32_t coll_mask = 0;  // bit by Coll
  std::string fabric;           // empty: any
  std::uint64_t min_ranks = 0, max_ranks = ~std::uint64_t{0};
  std::uint64_t min_bytes = 0, max_bytes = ~std::uint64_t{0};
  int dtype = -1, op = -1, mode = -1;  // -1: any
  std::string algorithm;               // "auto": the model
  std::string where;                   // file:line
};

// `file` is the name that errors carry: file:line, the word, the nearest known one.
Result<std::vector<Rule>> parse_rules(std::string_view text, std::string_view file);
Result<std::vector<Rule>> load_rules(const std::string& path);

struct Candidate {
  const Algorithm* algorithm;
  double cost_us;           // predicted
  std::string_view reject;  // why it is not valid; empty if it is
};

struct Choice {
  const Algorithm* algorithm;  // never nullptr: every call has a valid algorithm
  Params params;
  const Rule* rule;  // that decided; nullptr: the model
};

class Selector {
 public:
  Selector(Model model, std::vector<Rule> rules);

  Choice choose(const Shape& shape);
  // Every algorithm of the collective, cheapest valid one first: for rlx-info explain.
  std::vector<Candidate> explain(const Shape& shape) const;
  Params params(const Shape& shape) const;
  // Calls for which a rule matched but named an algorithm that is not valid.
  std::uint64_t rules_passed_over() const { return passed_over_; }
  const Model& model() const { return model_; }

 private:
  double cost_us(const Algorithm& algorithm, const Shape& shape) const;

  Model model_;
  std::vector<Rule> rules_;
  std::uint64_t passed_over_ = 0;
};

// Typical constants of a fabric ("shm", "tcp") for n_local ranks on a host with `cores` for them.
Model model_of(std::string_view fabric, int n_local, int cores);

}  // namespace rlx
