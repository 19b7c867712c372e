// Functions that give the same bits on every system, unlike libm's; always inlined, as variants must not share code.
#pragma once
#include <cstdint>

#define INLINE inline __attribute__((always_inline))

namespace qubolearn {

// Return log(x) for normal x > 0.
INLINE double portable_log(double x) {
  const auto bits = __builtin_bit_cast(std::uint64_t, x);
  int exponent = static_cast<int>(bits >> 52) - 1023;
  double mantissa = __builtin_bit_cast(double, (bits & 0xFFFFFFFFFFFFFu) | 0x3FF0000000000000u);
  if (mantissa > 1.4142135623730951) mantissa /= 2, ++exponent;
  const double s = (mantissa - 1) / (mantissa + 1), square = s * s;
  double sum = 0;
  for (int k = 23; k >= 1; k -= 2) sum = sum * square + 1.0 / k;
  return 2 * s * sum + exponent * 0.69314718055994531;
}

// Return exp(x) for |x| < 700.
INLINE double portable_exp(double x) {
  const double whole = __builtin_rint(x * 1.4426950408889634);
  const double rest = (x - whole * 0.693147180369123816490) - whole * 1.90821492927058770002e-10;
  double sum = 1;
  for (int k = 14; k >= 1; --k) sum = sum * rest / k + 1;
  return sum * __builtin_bit_cast(double, static_cast<std::uint64_t>(1023 + static_cast<int>(whole)) << 52);
}

}  // namespace qubolearn
