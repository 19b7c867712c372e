// Vectors of numbers, one lane each, in the compiler's vector extensions: every processor gives the same bits.
#pragma once
#include <cstdint>
#include <cstring>

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

template <class V, class T>
inline V load(const T* p) {
  V v;
  std::memcpy(&v, p, sizeof v);  // p need not be aligned
  return v;
}

template <class V, class T>
inline void store(T* p, V v) {
  std::memcpy(p, &v, sizeof v);
}

template <class V, class T>
inline V splat(T value) {
  return V{} + value;
}

template <class V>
inline V minimum(V a, V b) {
  return a < b ? a : b;
}

template <class V>
inline V maximum(V a, V b) {
  return a > b ? a : b;
}

// The lanes whose numbers differ in one bit change places.
template <int BIT, class T, int N>
inline Vector<T, N> swap_lanes(Vector<T, N> v) {
  Vector<T, N> swapped;
  for (int i = 0; i < N; ++i) swapped[i] = v[i ^ BIT];
  return swapped;
}

}  // namespace qubolearn::VARIANT
