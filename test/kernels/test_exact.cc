// SPDX-License-Identifier: MIT OR Apache-2.0
#include <criterion/criterion.h>

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

#include <random>

#include "kernels/exact.h"
#include "kernels/reduce.h"
#include "test/kernels/oracle.h"

using namespace rlx;

namespace {

using Rng = std::mt19937_64;

double uniform(Rng& rng, double from, double to) {
  return std::uniform_real_distribution<double>(from, to)(rng);
}

// A value near 2^exponent that the type holds, or zero or infinity beyond its range.
double near_power(Dtype dtype, Rng& rng, double exponent) {
  oracle::ExactSum round;
  round.add(std::ldexp(uniform(rng, -1, 1), static_cast<int>(exponent)));
  return round.round(dtype);
}

double normal(Rng& rng) { return std::normal_distribution<double>()(rng); }

// Kinds of data; each aims at another tier or rule.
enum Kind {
  gradients,
  spread2,
  spread6,
  wide,
  cancels,
  ties,
  zeros,
  subnormal,
  huge,
  special,
  raw
};
constexpr const char* kKindNames[] = {"gradients", "spread2", "spread6", "wide",
                                      "cancels",   "ties",    "zeros",   "subnormal",
                                      "huge",      "special", "raw"};
constexpr int kKinds = 11;

double raw_bits(Dtype dtype, Rng& rng) {
  const std::uint64_t bits = rng();
  return oracle::load(dtype, &bits, 0);
}

double one_value(Dtype dtype, Kind kind, Rng& rng) {
  const oracle::Shape shape = oracle::shape_of(dtype);
  switch (kind) {
    case gradients:
      return near_power(dtype, rng, 2 * std::fabs(normal(rng)));
    case spread2:
      return near_power(dtype, rng, 2 * normal(rng));
    case spread6:
      return near_power(dtype, rng, 6 * normal(rng));
    case wide:
    case cancels:
      return near_power(dtype, rng, uniform(rng, shape.lowest, shape.highest));
    case ties: {  // halves of units, with something far below to break the tie or not
      const int low[] = {0,   -1,   -(shape.precision - 1), -shape.precision, -shape.precision - 1,
                         -60, -120, shape.lowest + 1};
      const double x = std::ldexp(1.0, std::max(low[rng() % 8], shape.lowest));
      return rng() % 2 ? x : -x;
    }
    case zeros:
      return rng() % 4 ? -0.0 : 0.0;
    case subnormal:
      return near_power(dtype, rng, shape.lowest + uniform(rng, 0, shape.precision + 3));
    case huge:
      if (rng() % 60 == 0) return rng() % 2 ? INFINITY : -INFINITY;
      return rng() % 4 ? near_power(dtype, rng, shape.highest + uniform(rng, 0, 2)) : 1;
    case special:
      return rng() % 40 ? normal(rng) > 0 ? 1 : -0.0
                        : (rng() % 3 ? (rng() % 2 ? INFINITY : -INFINITY) : NAN);
    default:
      return raw_bits(dtype, rng);
  }
}

// `ways` arrays of `count` elements, each at an address that is only as aligned as its type.
struct Buffers {
  Buffers(Dtype type, std::size_t n_ways, std::size_t n, Rng& rng) : dtype(type), count(n) {
    for (std::size_t p = 0; p < n_ways; ++p) {
      memory.emplace_back((n + 64) * size_of(type), '\x5a');
      offsets.push_back(rng() % 8 * size_of(type));
    }
  }
  void* at(std::size_t p) { return memory[p].data() + offsets[p]; }
  double get(std::size_t p, std::size_t i) { return oracle::load(dtype, at(p), i); }
  void set(std::size_t p, std::size_t i, double value) {
    const std::uint64_t bits = oracle::bits_of(dtype, value);
    std::memcpy(static_cast<char*>(at(p)) + i * size_of(dtype), &bits, size_of(dtype));
  }
  std::vector<const void*> sources() {
    std::vector<const void*> all;
    for (std::size_t p = 0; p < memory.size(); ++p) all.push_back(at(p));
    return all;
  }

  Dtype dtype;
  std::size_t count;
  std::vector<std::vector<char>> memory;
  std::vector<std::size_t> offsets;
};

void fill(Buffers& buffers, Kind kind, Rng& rng) {
  const std::size_t ways = buffers.memory.size();
  for (std::size_t i = 0; i < buffers.count; ++i) {
    for (std::size_t p = 0; p < ways; ++p) buffers.set(p, i, one_value(buffers.dtype, kind, rng));
    if (kind == cancels)  // every second way takes back the one before, almost always
      for (std::size_t p = 1; p < ways; p += 2)
        if (rng() % 8) buffers.set(p, i, -buffers.get(p - 1, i));
  }
}

std::vector<std::uint64_t> expected_sums(Buffers& in, Dtype out) {
  std::vector<std::uint64_t> bits;
  for (std::size_t i = 0; i < in.count; ++i) {
    oracle::ExactSum sum;
    for (std::size_t p = 0; p < in.memory.size(); ++p) sum.add(in.get(p, i));
    bits.push_back(oracle::bits_of(out, sum.round(out)));
  }
  return bits;
}

void expect_bits(Dtype dtype, const void* got, const std::vector<std::uint64_t>& want,
                 const std::string& what) {
  for (std::size_t i = 0; i < want.size(); ++i) {
    const std::uint64_t bits = oracle::stored_bits(dtype, got, i);
    if (bits != want[i])
      cr_assert_fail("%s, element %zu: got %#lx, want %#lx", what.c_str(), i, bits, want[i]);
  }
}

std::string describe(const char* isa, Dtype dtype, int kind, std::size_t ways, std::size_t count) {
  return std::string(isa) + " " + std::string(name_of(dtype)) + " " + kKindNames[kind] + " ways " +
         std::to_string(ways) + " count " + std::to_string(count);
}

void check_all_forms(Buffers& in, const std::string& what, Rng& rng) {
  const auto want = expected_sums(in, in.dtype);
  const auto srcs = in.sources();
  Buffers out(in.dtype, 2, in.count, rng);
  void* dsts[] = {out.at(0), out.at(1)};
  kernels::exact_sum_n(in.dtype, dsts, srcs, in.count, kernels::Stores::streaming);
  expect_bits(in.dtype, dsts[0], want, what);
  expect_bits(in.dtype, dsts[1], want, what + " second output");
  void* in_place[] = {in.at(rng() % srcs.size())};
  kernels::exact_sum_n(in.dtype, in_place, srcs, in.count);
  expect_bits(in.dtype, in_place[0], want, what + " in place");
}

constexpr Dtype kFloats[] = {Dtype::f16, Dtype::bf16, Dtype::f32, Dtype::f64};

}  // namespace

Test(exact, rounds_the_mathematical_sum_once_for_all_types_ways_and_data, .timeout = 600) {
  oracle::on_each_isa([](const char* isa) {
    Rng rng(7);
    for (const Dtype dtype : kFloats)
      for (int kind = 0; kind < kKinds; ++kind)
        for (std::size_t ways = 1; ways <= 17; ++ways)
          for (const std::size_t count : {std::size_t{1}, std::size_t{13}, 500 + rng() % 1200}) {
            Buffers in(dtype, ways, count, rng);
            fill(in, static_cast<Kind>(kind), rng);
            check_all_forms(in, describe(isa, dtype, kind, ways, count), rng);
          }
  });
}

Test(exact, takes_more_ways_than_its_vector_tiers_hold, .timeout = 300) {
  oracle::on_each_isa([](const char* isa) {
    Rng rng(8);
    for (const Dtype dtype : kFloats)
      for (int kind = 0; kind < kKinds; ++kind)
        for (const std::size_t ways : {127, 128, 129, 300}) {
          Buffers in(dtype, ways, 40, rng);
          fill(in, static_cast<Kind>(kind), rng);
          check_all_forms(in, describe(isa, dtype, kind, ways, 40), rng);
        }
  });
}

Test(exact, gives_the_same_bits_however_leaves_are_spread_over_accumulators, .timeout = 600) {
  oracle::on_each_isa([](const char* isa) {
    Rng rng(9);
    for (const Dtype dtype : kFloats)
      for (int kind = 0; kind < kKinds; ++kind)
        for (std::size_t leaves = 1; leaves <= 16; leaves += 3) {
          const std::size_t count = 1 + rng() % 200;
          Buffers in(dtype, leaves, count, rng);
          fill(in, static_cast<Kind>(kind), rng);
          const auto want = expected_sums(in, dtype);
          const std::string what = describe(isa, dtype, kind, leaves, count);
          std::vector<kernels::ExactAccumulator> parts;
          for (int part = 0; part < 3; ++part) parts.emplace_back(dtype, count);
          for (std::size_t p = 0; p < leaves; ++p) parts[rng() % 3].add(in.at(p));
          std::size_t n_terms = 1;
          for (const auto& part : parts) n_terms = std::max(n_terms, part.n_terms());
          // As ranks do: exchange the terms, sum them all.
          std::vector<double> wire(3 * n_terms * count);
          std::vector<const void*> terms;
          for (std::size_t part = 0; part < 3; ++part)
            parts[part].copy_terms(0, count, n_terms, &wire[part * n_terms * count]);
          for (std::size_t k = 0; k < 3 * n_terms; ++k) terms.push_back(&wire[k * count]);
          Buffers out(dtype, 1, count, rng);
          void* dsts[] = {out.at(0)};
          kernels::exact_sum_n(Dtype::f64, dtype, dsts, terms, count);
          expect_bits(dtype, dsts[0], want, what + " by terms");
          // Or merge one into another.
          for (std::size_t part = 1; part < 3; ++part) {
            std::vector<const double*> more;
            for (std::size_t k = 0; k < parts[part].n_terms(); ++k)
              more.push_back(parts[part].term(k));
            parts[0].add_terms(more);
          }
          parts[0].round(dtype, out.at(0));
          expect_bits(dtype, out.at(0), want, what + " merged");
        }
  });
}

Test(exact, keeps_one_term_for_data_of_moderate_spread) {
  Rng rng(10);
  Buffers in(Dtype::f32, 8, 4000, rng);
  fill(in, gradients, rng);
  kernels::ExactAccumulator sum(Dtype::f32, 4000);
  std::vector<float> out(4000, 1.f);
  sum.round(Dtype::f32, out.data());
  cr_assert_eq(out[17], 0.f, "no contributions sum to zero");
  for (std::size_t p = 0; p < 8; ++p) sum.add(in.at(p));
  cr_assert_leq(sum.n_terms(), 2u);
  sum.clear();
  cr_assert_eq(sum.n_terms(), 0u);
}

#if defined(__x86_64__)
Test(exact, ignores_and_keeps_the_floating_point_settings_of_the_caller) {
  const unsigned before = _mm_getcsr();
  const unsigned odd_settings = 0x1F80 | 0x8040 | 0x6000;  // flush, denormals are zero, truncate
  oracle::on_each_isa([&](const char* isa) {
    Rng rng(11);
    for (const Dtype dtype : kFloats)
      for (const Kind kind : {spread2, wide, subnormal}) {
        Buffers in(dtype, 5, 1100, rng), out(dtype, 1, 1100, rng);
        fill(in, kind, rng);
        const auto want = expected_sums(in, dtype);
        void* dsts[] = {out.at(0)};
        kernels::ExactAccumulator sum(dtype, 1100);
        _mm_setcsr(odd_settings);
        kernels::exact_sum_n(dtype, dsts, in.sources(), 1100);
        const unsigned after = _mm_getcsr();
        _mm_setcsr(before);
        cr_assert_eq(after, odd_settings);
        expect_bits(dtype, dsts[0], want, describe(isa, dtype, kind, 5, 1100));
        _mm_setcsr(odd_settings);
        for (std::size_t p = 0; p < 5; ++p) sum.add(in.at(p));
        sum.round(dtype, out.at(0));
        _mm_setcsr(before);
        expect_bits(dtype, dsts[0], want, describe(isa, dtype, kind, 5, 1100) + " accumulated");
      }
  });
}
#endif
