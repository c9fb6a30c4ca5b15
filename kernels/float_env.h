// SPDX-License-Identifier: MIT OR Apache-2.0
// The floating-point environment of the exact kernels: IEEE arithmetic whatever the caller set
// (frameworks like to flush subnormals to zero), and the processor's word on whether every
// operation since the last look was exact.
#pragma once

#include <cstdint>

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

namespace rlx::kernels {

#if defined(__x86_64__)

// Round to nearest, subnormals kept, all exceptions masked, all flags clear. The destructor gives
// the caller's settings and flags back.
class FloatEnv {
 public:
  FloatEnv() : saved_(_mm_getcsr()) { set(kIeee); }
  ~FloatEnv() { set(saved_); }
  FloatEnv(const FloatEnv&) = delete;
  FloatEnv& operator=(const FloatEnv&) = delete;

  void clear_inexact() { set(kIeee); }

  // Whether anything was rounded since clear_inexact(). The arithmetic in question must have read
  // its operands from memory since then, and stored its results to `results`: neither a load nor a
  // store can pass these asm statements, which may touch all memory, and what is computed between
  // the two stays between them.
  bool inexact(const void* results) const {
    std::uint32_t flags;
    asm volatile("stmxcsr %0" : "=m"(flags) : "r"(results) : "memory");
    return (flags & kInexact) != 0;
  }

  // False where the flag does not work, as under valgrind.
  static bool reports_inexact() {
    static const bool works = [] {
      FloatEnv env;
      volatile double one = 1, tiny = 0x1p-60, sum;
      sum = one + one;
      const bool quiet = !env.inexact(const_cast<double*>(&sum));
      sum = one + tiny;
      return quiet && env.inexact(const_cast<double*>(&sum));
    }();
    return works;
  }

 private:
  static constexpr std::uint32_t kIeee = 0x1F80, kInexact = 0x20;

  static void set(std::uint32_t value) { asm volatile("ldmxcsr %0" : : "m"(value) : "memory"); }

  std::uint32_t saved_;
};

#else

// Elsewhere the default environment is taken to be in force, and no flag is read.
class FloatEnv {
 public:
  void clear_inexact() {}
  bool inexact(const void*) const { return true; }
  static bool reports_inexact() { return false; }
};

#endif

}  // namespace rlx::kernels
