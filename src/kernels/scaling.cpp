// The scaling of dense QUBOs, and neal's range of temperatures.
#include <algorithm>
#include <cmath>

#include "call.hpp"

namespace qubolearn {
namespace {

constexpr Index TILE = 8;
constexpr double NEGLIGIBLE = 1e-12;  // share of the largest field below which coefficients are rounding errors

// Write neal's β: at the first the largest ΔE is accepted every second time, at the last the weakest spins flip away with
// probability 0.01 in all. ising(i, visit) visits the couplings of spin i and returns its field.
template <class Ising>
void write_betas(Index n, Ising ising, double* betas) {
  constexpr double INFINITE = __builtin_inf();
  double largest = 0, smallest = INFINITE;
  Index spins = 0;  // whose weakest coefficient is the smallest of all
  for (Index i = 0; i < n; ++i) {
    double strength = 0;
    const double field = ising(i, [&](double coupling) { strength += std::abs(coupling); });
    largest = std::max(largest, std::abs(field) + strength);
  }
  const auto relevant = [&](double x) { return std::abs(x) > NEGLIGIBLE * largest ? std::abs(x) : INFINITE; };
  for (Index i = 0; i < n; ++i) {
    double least = INFINITE;
    const double field = ising(i, [&](double coupling) { least = std::min(least, relevant(coupling)); });
    least = std::min(least, relevant(field));
    if (least < smallest * (1 - 1e-9))
      smallest = least, spins = 1;
    else if (least <= smallest * (1 + 1e-9))
      ++spins;
  }
  betas[0] = largest > 0 ? portable_log(2) / (2 * largest) : 0.1;  // any range works if all energies are equal
  betas[1] = largest > 0 ? portable_log(spins / 0.01) / (2 * smallest) : 1.0;
}

template <class Real>
void scale_dense(Control& control, In<Real, 3> qubos, Out<double, 3> out, Out<double, 1> scales, Out<double, 2> betas) {
  const Index n = qubos.shape[1];
  control.share_each(qubos.shape[0], [&](Index k) {
    const Real* A = qubos.at(k);
    double *S = out.at(k), largest = 0;
    for (Index i = 0; i < n * n; ++i) largest = std::max(largest, std::abs(static_cast<double>(A[i])));
    const double scale = scales.data[k] = largest > 0 ? largest : 1;
    for (Index row = 0; row < n; row += TILE)  // in tiles: columns of a large matrix miss the cache
      for (Index column = 0; column <= row; column += TILE)
        for (Index i = row; i < std::min(row + TILE, n); ++i)
          for (Index j = column; j < std::min(column + TILE, i); ++j)
            S[i * n + j] = S[j * n + i] = A[i * n + j] / scale + A[j * n + i] / scale;
    for (Index i = 0; i < n; ++i) S[i * n + i] = A[i * n + i] / scale;
    const auto ising = [&](Index i, auto visit) {
      double field = S[i * n + i] / 2;
      for (Index j = 0; j < n; ++j)
        if (j != i) field += S[i * n + j] / 4, visit(S[i * n + j] / 4);
      return field;
    };
    write_betas(n, ising, betas.at(k));
  });
}

void sparse_beta_ranges(Control& control, SparseQubos A, Out<double, 2> betas) {
  control.share_each(A.batch, [&](Index k) {
    const auto ising = [&](Index i, auto visit) {
      double field = A.linear[k * A.n + i] / 2;
      for (auto slot = A.starts[i]; slot < A.starts[i + 1]; ++slot) {
        const double coupling = A.quadratic[k * A.edges + A.places[slot]] / 4;
        field += coupling, visit(coupling);
      }
      return field;
    };
    write_betas(A.n, ising, betas.at(k));
  });
}

}  // namespace

void bind_scaling(nb::module_& m) {
  const auto bind = [&](auto function) {
    define(m, "scale_dense", function, "A:bnn S:bnn scale:b betas:b2",
           "Fill S with A + Aᵀ, A_ii on its diagonal, divided by A's largest entry; scale with that entry, or 1; and\n"
           "betas with neal's first and last β for S.");
  };
  bind(&scale_dense<float>);
  bind(&scale_dense<double>);
  define(m, "sparse_beta_ranges", &sparse_beta_ranges, "qubos:bn betas:b2",
         "Fill betas with neal's first and last β of sparse QUBOs.");
}

}  // namespace qubolearn
