// SPDX-License-Identifier: MIT OR Apache-2.0
// The loop of every element-wise reduction: inputs in order, in registers, to all outputs.
// Compiled once per instruction set (see format-inl.h).
#if defined(RLX_KERNELS_WAYS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef RLX_KERNELS_WAYS_INL_H_
#undef RLX_KERNELS_WAYS_INL_H_
#else
#define RLX_KERNELS_WAYS_INL_H_
#endif

#include <hwy/cache_control.h>

#include <algorithm>

#include "kernels/format-inl.h"
#include "kernels/ways.h"

HWY_BEFORE_NAMESPACE();
namespace rlx::kernels {
namespace HWY_NAMESPACE {

template <class F, class O>
class WaysLoop {
  using Stored = typename F::Stored;
  using V = typename F::V;

 public:
  explicit WaysLoop(const Ways& ways) : ways_(ways) {}

  void run() {
    const std::size_t head = ways_.stores == Stores::streaming ? elements_to_boundary() : kNoHead;
    if (head == kNoHead || head >= ways_.count) return from(0);
    streams_ = true;
    if (head != 0) some(0, head);
    from(head);
    hwy::FlushStream();
  }

 private:
  static constexpr std::size_t kNoHead = ~std::size_t{0};
  static constexpr typename F::D kD{};

  // Streaming stores want aligned vectors: how many elements come before the first boundary, if
  // it is the same number for all outputs.
  std::size_t elements_to_boundary() const {
    const std::size_t n_bytes = hn::Lanes(kD) * sizeof(Stored);
    const auto misalignment = [n_bytes](const void* p) {
      return reinterpret_cast<std::uintptr_t>(p) % n_bytes;
    };
    const std::size_t off = misalignment(ways_.dsts[0]);
    for (const void* dst : ways_.dsts)
      if (misalignment(dst) != off) return kNoHead;
    if (off % sizeof(Stored) != 0) return kNoHead;
    return (n_bytes - off) % n_bytes / sizeof(Stored);
  }

  const Stored* src(std::size_t p) const { return static_cast<const Stored*>(ways_.srcs[p]); }

  HWY_INLINE void write_four(V a0, V a1, V a2, V a3, std::size_t i) const {
    const std::size_t n = hn::Lanes(kD);
    for (void* dst : ways_.dsts) {
      Stored* at = static_cast<Stored*>(dst) + i;
      if (streams_) {
        F::stream(a0, at);
        F::stream(a1, at + n);
        F::stream(a2, at + 2 * n);
        F::stream(a3, at + 3 * n);
      } else {
        F::store(a0, at);
        F::store(a1, at + n);
        F::store(a2, at + 2 * n);
        F::store(a3, at + 3 * n);
      }
    }
  }

  void from(std::size_t i) const {
    const std::size_t n = hn::Lanes(kD);
    const std::size_t n_srcs = ways_.srcs.size();
    for (; i + 4 * n <= ways_.count; i += 4 * n) {
      const Stored* s = src(0) + i;
      V a0 = O::lift(kD, F::load(s)), a1 = O::lift(kD, F::load(s + n));
      V a2 = O::lift(kD, F::load(s + 2 * n)), a3 = O::lift(kD, F::load(s + 3 * n));
      for (std::size_t p = 1; p < n_srcs; ++p) {
        s = src(p) + i;
        a0 = O::combine(kD, a0, O::lift(kD, F::load(s)));
        a1 = O::combine(kD, a1, O::lift(kD, F::load(s + n)));
        a2 = O::combine(kD, a2, O::lift(kD, F::load(s + 2 * n)));
        a3 = O::combine(kD, a3, O::lift(kD, F::load(s + 3 * n)));
      }
      write_four(a0, a1, a2, a3, i);
    }
    for (; i < ways_.count; i += n) some(i, std::min(n, ways_.count - i));
  }

  // n elements from i on, a vector at most.
  HWY_NOINLINE void some(std::size_t i, std::size_t n) const {
    V a = O::lift(kD, load_some<F>(src(0) + i, n));
    for (std::size_t p = 1; p < ways_.srcs.size(); ++p)
      a = O::combine(kD, a, O::lift(kD, load_some<F>(src(p) + i, n)));
    for (void* dst : ways_.dsts) store_some<F>(a, static_cast<Stored*>(dst) + i, n);
  }

  const Ways& ways_;
  bool streams_ = false;
};

}  // namespace HWY_NAMESPACE
}  // namespace rlx::kernels
HWY_AFTER_NAMESPACE();

#endif  // RLX_KERNELS_WAYS_INL_H_
