// The scaling of dense QUBOs, and neal's range of temperatures.
#include <algorithm>
#include <cmath>
#include <limits>

#include "call.hpp"
#include "portable.hpp"

namespace qubolearn {
namespace {

constexpr std::int64_t TILE = 8;
constexpr double NEGLIGIBLE = 1e-12;  // share of the largest field below which coefficients are rounding errors

// Write neal's range of β. At the first one even the largest ΔE is accepted every second time; at the last one the weakest
// spins flip away with probability 0.01 in all. ising(i, visit) visits the couplings of spin i and returns its field.
template <class Ising>
void write_betas(std::int64_t n, Ising ising, double* betas) {
  constexpr double INFINITE = std::numeric_limits<double>::infinity();
  double largest = 0, smallest = INFINITE;
  std::int64_t spins = 0;  // whose weakest coefficient is the smallest of all
  for (std::int64_t i = 0; i < n; ++i) {
    double strength = 0;
    const double field = ising(i, [&](double coupling) { strength += std::abs(coupling); });
    largest = std::max(largest, std::abs(field) + strength);
  }
  const auto relevant = [&](double x) { return std::abs(x) > NEGLIGIBLE * largest ? std::abs(x) : INFINITE; };
  for (std::int64_t i = 0; i < n; ++i) {
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
void scale_one(const Real* A, std::int64_t n, double* S, double& scale, double* betas) {
  double largest = 0;
  for (std::int64_t i = 0; i < n * n; ++i) largest = std::max(largest, std::abs(static_cast<double>(A[i])));
  scale = largest > 0 ? largest : 1;
  for (std::int64_t row = 0; row < n; row += TILE)  // in tiles: columns of a large matrix miss the cache
    for (std::int64_t column = 0; column <= row; column += TILE)
      for (std::int64_t i = row; i < std::min(row + TILE, n); ++i)
        for (std::int64_t j = column; j < std::min(column + TILE, i); ++j)
          S[i * n + j] = S[j * n + i] = A[i * n + j] / scale + A[j * n + i] / scale;
  for (std::int64_t i = 0; i < n; ++i) S[i * n + i] = A[i * n + i] / scale;
  const auto ising = [&](std::int64_t i, auto visit) {
    double field = S[i * n + i] / 2;
    for (std::int64_t j = 0; j < n; ++j)
      if (j != i) field += S[i * n + j] / 4, visit(S[i * n + j] / 4);
    return field;
  };
  write_betas(n, ising, betas);
}

template <class Real>
auto scale_dense(In<Real, 3> A, Out<double, 3> S, Out<double, 1> scale, Out<double, 2> betas) {
  const std::int64_t batch = A.shape(0), n = A.shape(1);
  return [=](Control& control) {
    control.share_each(batch, [&](std::int64_t k) {
      scale_one(A.data() + k * n * n, n, S.data() + k * n * n, scale.data()[k], betas.data() + 2 * k);
    });
  };
}

auto sparse_beta_ranges(nb::tuple qubos, Out<double, 2> betas) {
  const auto linear = item<In<double, 2>>(qubos, 0, "linear");
  const SparseQubos A = qubos_of(qubos, betas.shape(0), linear.shape(1));
  return [=](Control& control) {
    control.share_each(A.batch, [&](std::int64_t k) {
      const auto ising = [&](std::int64_t i, auto visit) {
        double field = A.linear[k * A.n + i] / 2;
        for (auto slot = A.starts[i]; slot < A.starts[i + 1]; ++slot) {
          const double coupling = A.quadratic[k * A.edges + A.places[slot]] / 4;
          field += coupling, visit(coupling);
        }
        return field;
      };
      write_betas(A.n, ising, betas.data() + 2 * k);
    });
  };
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
  define(m, "sparse_beta_ranges", &sparse_beta_ranges, "qubos betas:b2",
         "Fill betas with neal's first and last β of sparse QUBOs.");
}

}  // namespace qubolearn
