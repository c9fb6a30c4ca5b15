// SPDX-License-Identifier: MIT OR Apache-2.0
// How blocks are stored that peers read next: past the caches or not. Between cores that share a
// cache, storing past it costs up to twice as much; between others it saves up to nine tenths,
// for there a line in another core's cache is slower than memory. Each way is tried for a few calls
// now and then (base/faster_way.h). What a rank stores costs its peers, so all ranks publish what
// the tries took them (Area::spent), and all decide by the sum, at the same call.
#pragma once

#include <cstdint>
#include <span>

#include "base/faster_way.h"
#include "coll/area.h"
#include "coll/shape.h"
#include "kernels/copy.h"

namespace rlx {

class ShownStores {
 public:
  // A call begins on this rank; those before it have ended here. The same calls in the same order
  // on all ranks; n_bytes is the same on all.
  kernels::Stores begin(std::span<Area* const> areas, Coll coll, std::uint64_t n_bytes) {
    coll_ = static_cast<int>(coll);
    size_ = size_class(n_bytes);
    Kind& kind = kinds_[coll_][size_];
    // The call after the last try: not all have ended that yet. The next one: all have.
    if (kind.calls_to_verdict > 0 && --kind.calls_to_verdict == 0) kind.trial.set_best(best(areas));
    way_ = kind.trial.next(size_ == kSizeClasses - 1);
    return static_cast<kernels::Stores>(way_);
  }
  // Whether took() wants to know of the call that began last.
  bool asks() const { return kinds_[coll_][size_].trial.asks(); }
  void took(Area& own, double cost) {
    Kind& kind = kinds_[coll_][size_];
    if (!kind.trial.took(way_, cost)) return;
    for (const int way : {0, 1})
      own.spent[coll_][size_][way].store(kind.trial.cost(way), std::memory_order_relaxed);
    kind.calls_to_verdict = 2;
  }

 private:
  struct Kind {
    WayTrial trial;
    int calls_to_verdict = 0;  // 0: none is due
  };

  int best(std::span<Area* const> areas) const {
    double sum[2] = {0, 0};
    for (const Area* area : areas)
      for (const int way : {0, 1})
        sum[way] += area->spent[coll_][size_][way].load(std::memory_order_relaxed);
    return sum[1] < sum[0];
  }

  Kind kinds_[kCollCount][kSizeClasses];
  int coll_ = 0, size_ = 0, way_ = 0;
};

}  // namespace rlx
