// Python's side of exhaustive search and partition sums.
#include "call.hpp"

namespace qubolearn {
namespace {

constexpr int MAX_BITS = 50;  // codes and tables of nodes would grow too large; a search would take years
constexpr std::int64_t HELD = 1 << 26;

template <class T>
double search(In<T, 3> A, Out<T, 3> states, Out<double, 2> energies, int threads, nb::object progress,
              std::int64_t held) {
  const std::int64_t batch = A.shape(0), n = A.shape(1), count = energies.shape(1);
  require(1 <= n && n <= MAX_BITS, "expected 1 to 50 bits");
  require(1 <= count && count <= std::int64_t(1) << n, "expected 1 <= count <= 2**n");
  require_shape(A, {batch, n, n}, "A");
  require_shape(energies, {batch, count}, "energies");
  require_shape(states, {batch, count, n}, "states");
  const Search<T> search{batch, count, held, static_cast<int>(n), A.data(), states.data(), energies.data()};
  double largest = 0;
  call(threads, progress, [&](Control& control) {
    if constexpr (sizeof(T) == 4) largest = kernels().search_single(search, control);
    else largest = kernels().search_double(search, control);
  });
  return largest;
}

template <class T>
void partition(In<T, 3> A, double beta, Out<double, 1> values, Out<double, 3> marginals, int threads,
               nb::object progress, std::int64_t held) {
  const std::int64_t batch = A.shape(0), n = A.shape(1);
  require(1 <= n && n <= MAX_BITS, "expected 1 to 50 bits");
  require_shape(A, {batch, n, n}, "A");
  require_shape(values, {batch}, "values");
  require_shape(marginals, {batch, n, n}, "marginals");
  const Partition<T> sums{batch, held, static_cast<int>(n), beta, A.data(), values.data(), marginals.data()};
  call(threads, progress, [&](Control& control) {
    if constexpr (sizeof(T) == 4) kernels().partition_single(sums, control);
    else kernels().partition_double(sums, control);
  });
}

template <class T>
void bind(nb::module_& m) {
  m.def("search", &search<T>, nb::arg("A").noconvert(), nb::arg("states").noconvert(), nb::arg("energies").noconvert(),
        nb::arg("threads") = 1, nb::arg("progress").none() = nb::none(), nb::arg("held") = HELD,
        "Fill states [batch, count, n] and energies [batch, count] with the lowest states of A [batch, n, n],\n"
        "ascending. Return the largest sum of |A_ij|.");
  m.def("partition", &partition<T>, nb::arg("A").noconvert(), nb::arg("beta"), nb::arg("values").noconvert(),
        nb::arg("marginals").noconvert(), nb::arg("threads") = 1, nb::arg("progress").none() = nb::none(), nb::arg("held") = HELD,
        "Fill values [batch] with log Z of A [batch, n, n], NaN where its exponents are too large, and\n"
        "marginals [batch, n, n] with E[x xT].");
}

}  // namespace

void bind_exhaustive(nb::module_& m) {
  bind<float>(m);
  bind<double>(m);
}

}  // namespace qubolearn
