// SPDX-License-Identifier: MIT OR Apache-2.0
#include <criterion/criterion.h>

#include <random>

#include "kernels/reduce.h"
#include "test/kernels/oracle.h"

using namespace rlx;

namespace {

using Rng = std::mt19937_64;
constexpr int kMaxWays = 9;

// Every type has at least these many random bits; floats get magnitudes that overflow at times.
std::uint64_t random_bits(Dtype dtype, Rng& rng) {
  const std::uint64_t bits = rng();
  if (!is_float(dtype)) return rng() % 4 ? bits : bits & 0x0101010101010101u;
  if (rng() % 16 == 0) return bits;  // any pattern: NaN, infinities, subnormals
  const double small = std::ldexp(static_cast<double>(bits % 4095) - 2047, -6);
  return oracle::bits_of(dtype, dtype == Dtype::bf16 ? std::ldexp(bits % 255 - 127.0, -3) : small);
}

std::uint64_t integer_op(Op op, Dtype dtype, std::uint64_t a, std::uint64_t b) {
  const int unused = 64 - 8 * static_cast<int>(size_of(dtype));
  const auto order = [&](std::uint64_t x) {  // an unsigned number in the order of the type
    const bool is_signed = dtype == Dtype::i8 || dtype == Dtype::i32 || dtype == Dtype::i64;
    return x << unused ^ (is_signed ? std::uint64_t{1} << 63 : 0);
  };
  switch (op) {
    case Op::prod:
      return a * b;
    case Op::min:
      return order(a) < order(b) ? a : b;
    case Op::max:
      return order(a) < order(b) ? b : a;
    case Op::land:
      return a && b;
    case Op::lor:
      return a || b;
    case Op::lxor:
      return !a != !b;
    case Op::band:
      return a & b;
    case Op::bor:
      return a | b;
    case Op::bxor:
      return a ^ b;
    default:
      return a + b;
  }
}

// T is the type that the kernels compute in.
template <class T>
T float_op(Op op, T a, T b) {
  switch (op) {
    case Op::prod:
      return a * b;
    case Op::min:
    case Op::max: {
      if (std::isnan(a) || std::isnan(b)) return std::numeric_limits<T>::quiet_NaN();
      if (a == b) return std::signbit(a) == (op == Op::min) ? a : b;
      return (a < b) == (op == Op::min) ? a : b;
    }
    default:
      return a + b;
  }
}

// f32 to a 16-bit type to nearest even, by the exact oracle.
std::uint64_t narrow(Dtype dtype, float value) {
  oracle::ExactSum sum;
  sum.add(value);
  return oracle::bits_of(dtype, sum.round(dtype));
}

std::uint64_t expected(Dtype dtype, Op op, const std::vector<std::uint64_t>& in) {
  if (!is_float(dtype)) {
    const std::uint64_t mask = ~std::uint64_t{0} >> (64 - 8 * size_of(dtype));
    const bool logical = op == Op::land || op == Op::lor || op == Op::lxor;
    std::uint64_t acc = logical ? (in[0] & mask) != 0 : in[0];
    for (std::size_t p = 1; p < in.size(); ++p)
      acc = integer_op(op, dtype, acc & mask, in[p] & mask);
    return acc & mask;
  }
  if (dtype == Dtype::f64) {
    double acc = oracle::load(dtype, &in[0], 0);
    for (std::size_t p = 1; p < in.size(); ++p)
      acc = float_op(op, acc, oracle::load(dtype, &in[p], 0));
    return oracle::bits_of(dtype, acc);
  }
  auto acc = static_cast<float>(oracle::load(dtype, &in[0], 0));
  for (std::size_t p = 1; p < in.size(); ++p)
    acc = float_op(op, acc, static_cast<float>(oracle::load(dtype, &in[p], 0)));
  return narrow(dtype, acc);
}

// NaNs are equal, except that min and max promise which one.
bool same(Dtype dtype, Op op, std::uint64_t got, std::uint64_t want) {
  if (got == want) return true;
  if (!is_float(dtype) || op == Op::min || op == Op::max) return false;
  return std::isnan(oracle::load(dtype, &got, 0)) && std::isnan(oracle::load(dtype, &want, 0));
}

struct Case {
  const char* isa;
  Dtype dtype;
  Op op;
  std::size_t ways, count;
  kernels::Stores stores;
  bool in_place;
};

std::string describe(const Case& c) {
  return std::string(c.isa) + " " + std::string(name_of(c.dtype)) + " " +
         std::string(name_of(c.op)) + " ways " + std::to_string(c.ways) + " count " +
         std::to_string(c.count) + (c.in_place ? " in place" : "");
}

void check(const Case& c, Rng& rng) {
  const std::size_t size = size_of(c.dtype), room = (c.count + 128) * size;
  const std::size_t skew = rng() % 2 ? 0 : rng() % 64 * size;  // outputs aligned alike, or not
  std::vector<std::vector<char>> memory(c.ways + 2, std::vector<char>(room, '\x77'));
  std::vector<const void*> srcs;
  for (std::size_t p = 0; p < c.ways; ++p) {
    char* at = memory[p].data() + rng() % 64 * size;
    srcs.push_back(at);
    for (std::size_t i = 0; i < c.count; ++i) {
      const std::uint64_t bits = random_bits(c.dtype, rng);
      std::memcpy(at + i * size, &bits, size);
    }
  }
  std::vector<std::uint64_t> want;
  for (std::size_t i = 0; i < c.count; ++i) {
    std::vector<std::uint64_t> in;
    for (const void* src : srcs) in.push_back(oracle::stored_bits(c.dtype, src, i));
    want.push_back(expected(c.dtype, c.op, in));
  }
  std::vector<void*> dsts = {memory[c.ways].data() + skew, memory[c.ways + 1].data() + skew};
  if (c.in_place) dsts[1] = const_cast<void*>(srcs[rng() % c.ways]);
  if (c.ways == 2 && c.stores == kernels::Stores::cached && rng() % 2) {
    dsts.resize(1);
    kernels::reduce2(c.dtype, c.op, dsts[0], srcs[0], srcs[1], c.count);
  } else {
    kernels::reduce_n(c.dtype, c.op, dsts, srcs, c.count, c.stores);
  }
  for (const void* dst : dsts)
    for (std::size_t i = 0; i < c.count; ++i) {
      const std::uint64_t got = oracle::stored_bits(c.dtype, dst, i);
      if (!same(c.dtype, c.op, got, want[i]))
        cr_assert_fail("%s, element %zu: got %#lx, want %#lx", describe(c).c_str(), i, got,
                       want[i]);
    }
  cr_assert_eq(*(static_cast<char*>(dsts[0]) + c.count * size), '\x77', "%s wrote past its end",
               describe(c).c_str());
}

}  // namespace

Test(reduce, gives_the_right_value_for_every_type_operation_count_and_form, .timeout = 600) {
  oracle::on_each_isa([](const char* isa) {
    Rng rng(1);
    for (int dtype = 0; dtype < kDtypeCount; ++dtype)
      for (int op = 0; op < kOpCount; ++op)
        for (std::size_t ways = 1; ways <= kMaxWays; ++ways)
          for (const std::size_t count : {std::size_t{0}, std::size_t{1}, 2 + rng() % 900}) {
            Case c{isa,
                   static_cast<Dtype>(dtype),
                   static_cast<Op>(op),
                   ways,
                   count,
                   rng() % 2 ? kernels::Stores::streaming : kernels::Stores::cached,
                   rng() % 2 == 0};
            if (op_applies(c.op, c.dtype)) check(c, rng);
          }
  });
}

Test(reduce, divides_floats_to_nearest_and_integers_toward_zero) {
  oracle::on_each_isa([](const char* isa) {
    Rng rng(2);
    for (int t = 0; t < kDtypeCount; ++t)
      for (const std::size_t divisor : {1, 3, 7, 8, 1000}) {
        const auto dtype = static_cast<Dtype>(t);
        std::vector<char> data(101 * size_of(dtype));
        std::vector<std::uint64_t> before;
        for (std::size_t i = 0; i < 101; ++i) {
          const std::uint64_t bits = random_bits(dtype, rng);
          std::memcpy(data.data() + i * size_of(dtype), &bits, size_of(dtype));
          before.push_back(oracle::stored_bits(dtype, data.data(), i));
        }
        kernels::divide(dtype, data.data(), 101, divisor);
        for (std::size_t i = 0; i < 101; ++i) {
          const std::uint64_t got = oracle::stored_bits(dtype, data.data(), i);
          std::uint64_t want = before[i] / divisor;
          if (dtype == Dtype::i8) want = std::uint8_t(std::int8_t(before[i]) / int(divisor));
          if (dtype == Dtype::i32) want = std::uint32_t(std::int32_t(before[i]) / int(divisor));
          if (dtype == Dtype::i64)
            want = std::uint64_t(std::int64_t(before[i]) / std::int64_t(divisor));
          if (dtype == Dtype::f64)
            want = oracle::bits_of(dtype, oracle::load(dtype, &before[i], 0) / double(divisor));
          else if (is_float(dtype))
            want = narrow(dtype, float(oracle::load(dtype, &before[i], 0)) / float(divisor));
          cr_assert(same(dtype, Op::sum, got, want), "%s %s / %zu: got %#lx, want %#lx", isa,
                    std::string(name_of(dtype)).c_str(), divisor, got, want);
        }
      }
  });
}
