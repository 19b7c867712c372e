// Vectors in the compiler's extensions, the same bits on every processor; some operations on 16 lanes need intrinsics.
#pragma once
#include <cstring>
#include <initializer_list>
#include <limits>
#include <new>
#if defined(__AVX2__)
#include <immintrin.h>
#endif

#include "portable.hpp"

namespace qubolearn::VARIANT {

// Bytes of a register on the processor that this variant is compiled for.
#if defined(__AVX512F__)
inline constexpr int REGISTER = 64;
#elif defined(__AVX__)
inline constexpr int REGISTER = 32;
#else
inline constexpr int REGISTER = 16;
#endif
template <class T>
inline constexpr int NATIVE = REGISTER / static_cast<int>(sizeof(T));  // lanes in a register

template <class T, int N>
struct VectorOf {
  typedef T type __attribute__((vector_size(N * sizeof(T))));
};
template <class T, int N>
using Vector = typename VectorOf<T, N>::type;

constexpr int LANES = 16;
using Floats = Vector<float, LANES>;
using Ints = Vector<std::int32_t, LANES>;
using Words = Vector<std::uint32_t, LANES>;
using Mask = std::uint16_t;  // one bit per lane
constexpr double INFINITE = __builtin_inf();

template <class V = Floats, class T>
INLINE V load(const T* p) {
  V v;
  std::memcpy(&v, p, sizeof v);  // p need not be aligned
  return v;
}
template <class V, class T>
INLINE void store(T* p, V v) { std::memcpy(p, &v, sizeof v); }
template <class V = Floats, class T>
INLINE V splat(T value) { return value - V{}; }
template <class V>
INLINE V minimum(V a, V b) { return a < b ? a : b; }
template <class V>
INLINE V maximum(V a, V b) { return a > b ? a : b; }

#if defined(__AVX2__) && !defined(__AVX512F__)
struct Halves { __m256 low, high; };
INLINE Floats maximum(Floats a, Floats b) {
  const auto left = load<Halves>(&a), right = load<Halves>(&b);
  const Halves found = {_mm256_max_ps(left.low, right.low), _mm256_max_ps(left.high, right.high)};
  return load(&found);
}
INLINE Floats minimum(Floats a, Floats b) { return -maximum(-a, -b); }
#endif

// below(a, b) returns the lanes where a < b, and lookup(table, index) table[index & 15], lane by lane; add_where and
// negate_where leave the lanes outside the mask as they are.
#if defined(__AVX512F__) && defined(__AVX512DQ__)

INLINE Mask below(Floats a, Floats b) { return _mm512_cmp_ps_mask((__m512)a, (__m512)b, _CMP_LT_OQ); }
INLINE Floats add_where(Floats total, Mask mask, Floats value) {
  return (Floats)_mm512_mask_add_ps((__m512)total, mask, (__m512)total, (__m512)value);
}
INLINE Floats select(Mask mask, Floats yes, Floats no) {
  return (Floats)_mm512_mask_blend_ps(mask, (__m512)no, (__m512)yes);
}
INLINE Floats negate_where(Floats values, Mask mask) {
  return (Floats)_mm512_mask_sub_ps((__m512)values, mask, _mm512_setzero_ps(), (__m512)values);
}
INLINE Floats lookup(Floats table, Ints index) {
  return (Floats)_mm512_maskz_permutexvar_ps(0xFFFF, (__m512i)index, (__m512)table);
}

#else
// Without comparisons, which compilers do lane by lane in vectors wider than a register.
INLINE Floats select(Mask mask, Floats yes, Floats no) {
  constexpr Words top = {1u << 31, 1 << 30, 1 << 29, 1 << 28, 1 << 27, 1 << 26, 1 << 25, 1 << 24,
                         1 << 23, 1 << 22, 1 << 21, 1 << 20, 1 << 19, 1 << 18, 1 << 17, 1 << 16};
  const Ints lanes = (Ints)(splat<Words>(static_cast<std::uint32_t>(mask)) * top) >> 31;
  return (Floats)((lanes & (Ints)yes) | (~lanes & (Ints)no));
}
INLINE Floats add_where(Floats total, Mask mask, Floats value) { return select(mask, total + value, total); }
INLINE Floats negate_where(Floats values, Mask mask) { return select(mask, 0.0f - values, values); }

#if defined(__AVX2__)
INLINE Mask below(Floats a, Floats b) {
  const auto left = load<Halves>(&a), right = load<Halves>(&b);
  const int low = _mm256_movemask_ps(_mm256_cmp_ps(left.low, right.low, _CMP_LT_OQ));
  return Mask(low | _mm256_movemask_ps(_mm256_cmp_ps(left.high, right.high, _CMP_LT_OQ)) << 8);
}
INLINE __m256 lookup(Halves table, __m256 index) {
  const __m256i at = _mm256_castps_si256(index);
  const __m256 low = _mm256_permutevar8x32_ps(table.low, at), high = _mm256_permutevar8x32_ps(table.high, at);
  return _mm256_blendv_ps(low, high, _mm256_castsi256_ps(_mm256_slli_epi32(at, 28)));  // permutes read 3 bits
}
INLINE Floats lookup(Floats table, Ints index) {
  const auto from = load<Halves>(&table), at = load<Halves>(&index);
  const Halves found = {lookup(from, at.low), lookup(from, at.high)};
  return load(&found);
}
#else
INLINE Mask below(Floats a, Floats b) {
  unsigned mask = 0;
  for (int lane = 0; lane < LANES; ++lane) mask |= unsigned(a[lane] < b[lane]) << lane;
  return static_cast<Mask>(mask);
}
INLINE Floats lookup(Floats table, Ints index) {
  Floats result;
  for (int lane = 0; lane < LANES; ++lane) result[lane] = table[index[lane] & (LANES - 1)];
  return result;
}
#endif
#endif

// Return e**x for -87 <= x <= 0 with a relative error below 1e-5; smaller x count as -87.
INLINE Floats exp(Floats x) {
  const Floats y = maximum(x * 1.44269504f, splat(-126.0f));
  const Ints whole = __builtin_convertvector(y - 0.5f, Ints);  // rounds to nearest, since y <= 0
  const Floats part = y - __builtin_convertvector(whole, Floats);
  Floats power = splat(1.5403530e-4f);  // Taylor coefficients log(2)**k / k!
  for (float term : {1.3333558e-3f, 9.6181291e-3f, 5.5504109e-2f, 2.4022651e-1f, 6.9314718e-1f, 1.0f})
    power = power * part + term;
  return (Floats)((Ints)power + (whole << 23));
}

// Working memory of a kernel: aligned for vectors, with room for whole vectors of 64 bytes.
template <class T>
class Scratch {
  static constexpr std::size_t VECTOR = 64;
  std::size_t size_;
  T* data_;
 public:
  explicit Scratch(std::size_t size) : size_(size) {
    if (size > std::numeric_limits<std::size_t>::max() / 4 / sizeof(T)) throw std::bad_alloc();
    const std::size_t bytes = (size * sizeof(T) + VECTOR - 1) / VECTOR * VECTOR;
    data_ = static_cast<T*>(::operator new[](bytes, std::align_val_t(VECTOR)));
  }
  Scratch(std::size_t size, T value) : Scratch(size) {
    for (T& each : *this) each = value;
  }
  Scratch(Scratch&& other) noexcept : size_(other.size_), data_(other.data_) { other.data_ = nullptr; }
  ~Scratch() { ::operator delete[](data_, std::align_val_t(VECTOR)); }
  T* data() { return data_; }
  const T* data() const { return data_; }
  T& operator[](std::size_t i) { return data_[i]; }
  const T& operator[](std::size_t i) const { return data_[i]; }
  std::size_t size() const { return size_; }
  T* begin() { return data_; }
  T* end() { return data_ + size_; }
};

}  // namespace qubolearn::VARIANT
