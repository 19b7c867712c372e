// Arrays that several kernels take from Python as tuples, checked.
#pragma once
#include <vector>

#include "call.hpp"

namespace qubolearn {

// Return an array of a tuple; ValueError if it has another dtype or is not contiguous. The tuple keeps it alive.
template <class Array>
Array item(const nb::tuple& arrays, std::size_t k, const char* name) {
  Array array;
  if (k >= arrays.size() || !nb::try_cast<Array>(arrays[k], array, false))
    throw nb::value_error((std::string("expected a contiguous array of the right dtype: ") + name).c_str());
  return array;
}

// Check (linear [batch, n], quadratic [batch, m], starts [n + 1], neighbors [2m], places [2m]).
inline SparseQubos sparse_qubos(const nb::tuple& arrays) {
  const auto linear = item<In<double, 2>>(arrays, 0, "linear"), quadratic = item<In<double, 2>>(arrays, 1, "quadratic");
  const auto starts = item<In<std::int64_t, 1>>(arrays, 2, "starts");
  const auto neighbors = item<In<std::uint32_t, 1>>(arrays, 3, "neighbors");
  const auto places = item<In<std::int64_t, 1>>(arrays, 4, "places");
  const std::int64_t batch = linear.shape(0), n = linear.shape(1), edges = quadratic.shape(1), *s = starts.data();
  require_shape(quadratic, {batch, edges}, "quadratic");
  require_shape(starts, {n + 1}, "starts");
  require_shape(neighbors, {2 * edges}, "neighbors");
  require_shape(places, {2 * edges}, "places");
  require(s[0] == 0 && s[n] == 2 * edges, "expected starts from 0 to twice the number of edges");
  for (std::int64_t i = 0; i < n; ++i) require(s[i] <= s[i + 1], "expected starts in ascending order");
  for (std::int64_t k = 0; k < 2 * edges; ++k)
    require(neighbors.data()[k] < n && places.data()[k] >= 0 && places.data()[k] < edges,
            "expected neighbors below n and places below the number of edges");
  return {batch, n, edges, linear.data(), quadratic.data(), s, places.data(), neighbors.data()};
}

// Check (first [units + 1], bits [n], group [units]): every bit is in one unit, and units of several bits are groups.
inline Units units(const nb::tuple& arrays, std::int64_t n) {
  const auto first = item<In<std::int64_t, 1>>(arrays, 0, "first"), bits = item<In<std::int64_t, 1>>(arrays, 1, "bits");
  const auto group = item<In<bool, 1>>(arrays, 2, "group");
  const std::int64_t count = group.shape(0), *f = first.data();
  require_shape(first, {count + 1}, "first");
  require_shape(bits, {n}, "bits");
  require(f[0] == 0 && f[count] == n, "expected units from 0 to n");
  for (std::int64_t u = 0; u < count; ++u)
    require(f[u] < f[u + 1] && (group.data()[u] || f[u] + 1 == f[u + 1]), "expected groups, and units of one bit");
  std::vector<bool> seen(n);
  for (std::int64_t k = 0; k < n; ++k) {
    const std::int64_t bit = bits.data()[k];
    require(bit >= 0 && bit < n && !seen[bit], "expected every bit in one unit");
    seen[bit] = true;
  }
  return {count, f, bits.data(), group.data()};
}

inline void require_bits(const std::int8_t* bits, std::size_t size) {
  for (std::size_t k = 0; k < size; ++k) require(bits[k] == 0 || bits[k] == 1, "expected bits 0 and 1");
}

}  // namespace qubolearn
