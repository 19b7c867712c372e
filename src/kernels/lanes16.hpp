// Sixteen numbers at a time: the compiler's vectors, and the few operations that it has no good code for.
#pragma once
#include <cstdint>
#include <cstring>
#include <initializer_list>

#if defined(__AVX2__)
#include <immintrin.h>
#endif

#include "portable.hpp"

namespace qubolearn::VARIANT {

constexpr int LANES = 16;

using Floats = float __attribute__((vector_size(4 * LANES)));
using Ints = std::int32_t __attribute__((vector_size(4 * LANES)));
using Words = std::uint32_t __attribute__((vector_size(4 * LANES)));
using Mask = std::uint16_t;  // one bit per lane

INLINE Floats splat(float value) { return value - Floats{}; }

INLINE Floats load(const float* from) {
  Floats values;
  std::memcpy(&values, from, sizeof values);
  return values;
}

INLINE void store(float* to, Floats values) { std::memcpy(to, &values, sizeof values); }

INLINE int sum(Ints values) {
  int total = 0;
  for (int lane = 0; lane < LANES; ++lane) total += values[lane];
  return total;
}

#if defined(__AVX512F__) && defined(__AVX512DQ__)

// Return the lanes where a < b.
INLINE Mask below(Floats a, Floats b) { return _mm512_cmp_ps_mask((__m512)a, (__m512)b, _CMP_LT_OQ); }

// Return total + value in the lanes of the mask, total elsewhere.
INLINE Floats add_where(Floats total, Mask mask, Floats value) {
  return (Floats)_mm512_mask_add_ps((__m512)total, mask, (__m512)total, (__m512)value);
}

INLINE Floats select(Mask mask, Floats yes, Floats no) {
  return (Floats)_mm512_mask_blend_ps(mask, (__m512)no, (__m512)yes);
}

// Return the values with their sign changed in the lanes of the mask.
INLINE Floats negate_where(Floats values, Mask mask) {
  return (Floats)_mm512_mask_sub_ps((__m512)values, mask, _mm512_setzero_ps(), (__m512)values);
}

// Return table[index & 15], lane by lane.
INLINE Floats lookup(Floats table, Ints index) {
  return (Floats)_mm512_maskz_permutexvar_ps(0xFFFF, (__m512i)index, (__m512)table);
}

#else

INLINE Ints lanes_of(Mask mask) {
  constexpr Ints bits = {1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384, 32768};
  return ((static_cast<std::int32_t>(mask) - Ints{}) & bits) != 0;
}

INLINE Mask below(Floats a, Floats b) {
  Ints truth = a < b;
#if defined(__AVX2__)
  __m256 halves[2];
  std::memcpy(halves, &truth, sizeof halves);
  return static_cast<Mask>(_mm256_movemask_ps(halves[0]) | _mm256_movemask_ps(halves[1]) << 8);
#else
  unsigned mask = 0;
  for (int lane = 0; lane < LANES; ++lane) mask |= (truth[lane] & 1u) << lane;
  return static_cast<Mask>(mask);
#endif
}

INLINE Floats add_where(Floats total, Mask mask, Floats value) { return lanes_of(mask) ? total + value : total; }

INLINE Floats select(Mask mask, Floats yes, Floats no) { return lanes_of(mask) ? yes : no; }

INLINE Floats negate_where(Floats values, Mask mask) { return lanes_of(mask) ? 0.0f - values : values; }

INLINE Floats lookup(Floats table, Ints index) {
#if defined(__AVX2__)
  __m256 low_high[2], found[2];
  __m256i halves[2];
  std::memcpy(low_high, &table, sizeof table);
  std::memcpy(halves, &index, sizeof index);
  for (int half = 0; half < 2; ++half) {
    __m256 low = _mm256_permutevar8x32_ps(low_high[0], halves[half]);  // its index has 3 bits
    __m256 high = _mm256_permutevar8x32_ps(low_high[1], halves[half]);
    found[half] = _mm256_blendv_ps(low, high, _mm256_castsi256_ps(_mm256_slli_epi32(halves[half], 28)));
  }
  Floats result;
  std::memcpy(&result, found, sizeof result);
  return result;
#else
  Floats result;
  for (int lane = 0; lane < LANES; ++lane) result[lane] = table[index[lane] & (LANES - 1)];
  return result;
#endif
}

#endif

// Return e**x for -87 <= x <= 0 with a relative error below 1e-5; smaller x count as -87.
INLINE Floats exp(Floats x) {
  Floats y = x * 1.44269504f;
  y = y > -126.0f ? y : splat(-126.0f);
  const Ints whole = __builtin_convertvector(y - 0.5f, Ints);  // rounds to nearest, since y <= 0
  const Floats part = y - __builtin_convertvector(whole, Floats);
  Floats power = splat(1.5403530e-4f);  // Taylor coefficients log(2)**k / k!
  for (float term : {1.3333558e-3f, 9.6181291e-3f, 5.5504109e-2f, 2.4022651e-1f, 6.9314718e-1f, 1.0f})
    power = power * part + term;
  return (Floats)((Ints)power + (whole << 23));
}

}  // namespace qubolearn::VARIANT
