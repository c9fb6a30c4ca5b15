// SPDX-License-Identifier: MIT OR Apache-2.0
#include <criterion/criterion.h>

#include <random>

#include "kernels/convert.h"
#include "kernels/copy.h"
#include "test/kernels/oracle.h"

using namespace rlx;

namespace {

using Rng = std::mt19937_64;
using Narrow = void (*)(std::uint16_t*, const float*, std::size_t);
using Widen = void (*)(float*, const std::uint16_t*, std::size_t);

const struct {
  Dtype dtype;
  Narrow narrow;
  Widen widen;
} kTypes[] = {{Dtype::f16, kernels::f32_to_f16, kernels::f16_to_f32},
              {Dtype::bf16, kernels::f32_to_bf16, kernels::bf16_to_f32}};

}  // namespace

Test(convert, widens_every_16_bit_pattern) {
  oracle::on_each_isa([](const char* isa) {
    for (const auto& type : kTypes) {
      std::vector<std::uint16_t> in(65536);
      for (std::size_t i = 0; i < in.size(); ++i) in[i] = static_cast<std::uint16_t>(i);
      std::vector<float> out(in.size());
      type.widen(out.data(), in.data(), in.size());
      for (std::size_t i = 0; i < in.size(); ++i) {
        const double want = oracle::decode16(type.dtype, in[i]);
        const bool same = std::isnan(want)
                              ? std::isnan(out[i])
                              : out[i] == want && std::signbit(out[i]) == std::signbit(want);
        cr_assert(same, "%s %#zx gave %g, not %g", isa, i, out[i], want);
      }
    }
  });
}

Test(convert, narrows_to_nearest_even, .timeout = 300) {
  oracle::on_each_isa([](const char* isa) {
    Rng rng(3);
    for (const auto& type : kTypes) {
      std::vector<float> in;
      // Every value of the type, the midpoint above it, and the neighbours of that midpoint.
      for (std::uint32_t i = 0; i < 65536; ++i) {
        const auto value = static_cast<float>(oracle::decode16(type.dtype, std::uint16_t(i)));
        const auto next = static_cast<float>(oracle::decode16(type.dtype, std::uint16_t(i + 1)));
        const float middle = value / 2 + next / 2;
        for (const float x :
             {value, middle, std::nextafter(middle, INFINITY), std::nextafter(middle, -INFINITY)})
          in.push_back(x);
      }
      for (int i = 0; i < 100003; ++i) {
        const auto bits = static_cast<std::uint32_t>(rng());
        in.emplace_back();
        std::memcpy(&in.back(), &bits, 4);
      }
      std::vector<std::uint16_t> out(in.size());
      type.narrow(out.data(), in.data(), in.size());
      for (std::size_t i = 0; i < in.size(); ++i) {
        oracle::ExactSum sum;
        sum.add(in[i]);
        const auto want = oracle::bits_of(type.dtype, sum.round(type.dtype));
        const bool both_nan = std::isnan(in[i]) && std::isnan(oracle::decode16(type.dtype, out[i]));
        cr_assert(both_nan || out[i] == want, "%s %s of %a gave %#x, not %#lx", isa,
                  std::string(name_of(type.dtype)).c_str(), in[i], out[i], want);
      }
    }
  });
}

Test(convert, scales_to_bytes_and_back) {
  oracle::on_each_isa([](const char* isa) {
    const float in[] = {0, -0.f, 1, -1, 63.5, -200, 200, INFINITY, -INFINITY, NAN, 0.49f, 1e30f};
    const int want[] = {0, 0, 2, -2, 127, -127, 127, 127, -127, 0, 1, 127};
    constexpr std::size_t kCount = sizeof in / sizeof *in;
    std::int8_t bytes[kCount];
    float back[kCount];
    kernels::f32_to_i8(bytes, in, kCount, 0.5f);
    kernels::i8_to_f32(back, bytes, kCount, 0.5f);
    for (std::size_t i = 0; i < kCount; ++i) {
      cr_assert_eq(bytes[i], want[i], "%s: %g gave %d, not %d", isa, in[i], bytes[i], want[i]);
      cr_assert_eq(back[i], 0.5f * static_cast<float>(want[i]));
    }
    cr_assert_eq(kernels::i8_scale(in, kCount), 1e30f / 127);
    cr_assert_eq(kernels::i8_scale(in, 1), 1.f);
    cr_assert_eq(kernels::i8_scale(in, 0), 1.f);
  });
}

Test(copy, copies_any_size_and_alignment_and_nothing_beside_it, .timeout = 120) {
  oracle::on_each_isa([](const char* isa) {
    Rng rng(4);
    std::vector<char> from((17 << 20) + 300), to(from.size());
    for (char& c : from) c = static_cast<char>(rng());
    for (const std::size_t n : {0, 1, 7, 63, 64, 65, 4096, 70001, 17 << 20})
      for (const auto stores : {kernels::Stores::cached, kernels::Stores::streaming}) {
        const std::size_t a = rng() % 128, b = 1 + rng() % 128;
        std::fill(to.begin(), to.end(), '\x5c');
        kernels::copy(to.data() + b, from.data() + a, n, stores);
        cr_assert(std::memcmp(to.data() + b, from.data() + a, n) == 0, "%s %zu bytes", isa, n);
        cr_assert(to[b - 1] == '\x5c' && to[b + n] == '\x5c', "%s %zu bytes: neighbours", isa, n);
      }
  });
}

Test(copy, moves_rows_between_strides) {
  std::vector<int> from(6 * 10), to(6 * 7, -1);
  for (std::size_t i = 0; i < from.size(); ++i) from[i] = static_cast<int>(i);
  kernels::copy_rows(to.data(), 7 * sizeof(int), from.data(), 10 * sizeof(int), 5 * sizeof(int), 6);
  for (std::size_t row = 0; row < 6; ++row)
    for (std::size_t i = 0; i < 7; ++i)
      cr_assert_eq(to[row * 7 + i], i < 5 ? static_cast<int>(row * 10 + i) : -1);
  std::vector<int> all(from.size());
  kernels::copy_rows(all.data(), 40, from.data(), 40, 40, 6);
  cr_assert(all == from);
}
