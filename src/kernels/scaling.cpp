// The scaling of dense QUBOs, and neal's range of temperatures.
#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "call.hpp"
#include "portable.hpp"

namespace qubolearn {
namespace {

constexpr double NEGLIGIBLE = 1e-12;  // share of the largest field below which coefficients are rounding errors

// The strongest field and the weakest coefficients of the Ising form, spin by spin.
class Range {
  double largest_ = 0, smallest_ = std::numeric_limits<double>::infinity();
  std::int64_t spins_ = 0;

 public:
  void strongest(double field) { largest_ = std::max(largest_, field); }
  double at_least(double strength) const {
    return strength > NEGLIGIBLE * largest_ ? strength : std::numeric_limits<double>::infinity();
  }
  // Count a spin whose weakest coefficient is this one.
  void weakest(double strength) {
    if (strength < smallest_ * (1 - 1e-9))
      smallest_ = strength, spins_ = 1;
    else if (strength <= smallest_ * (1 + 1e-9))
      ++spins_;
  }
  // At the first β even the largest ΔE is accepted every second time; at the last one the weakest spins flip away with
  // probability 0.01 in all. Any range works if all energies are equal.
  void write(double* betas) const {
    betas[0] = largest_ > 0 ? portable_log(2) / (2 * largest_) : 0.1;
    betas[1] = largest_ > 0 ? portable_log(spins_ / 0.01) / (2 * smallest_) : 1.0;
  }
};

template <class Real>
void scale_one(const Real* A, std::int64_t n, double* S, double& scale, double* betas, double* biases) {
  double largest = 0;
  for (std::int64_t i = 0; i < n * n; ++i) largest = std::max(largest, std::abs(static_cast<double>(A[i])));
  scale = largest > 0 ? largest : 1;
  for (std::int64_t i = 0; i < n; ++i) {
    for (std::int64_t j = 0; j < i; ++j) S[i * n + j] = S[j * n + i] = A[i * n + j] / scale + A[j * n + i] / scale;
    S[i * n + i] = A[i * n + i] / scale;
  }
  Range range;
  for (std::int64_t i = 0; i < n; ++i) {
    double total = 0, couplings = 0;
    for (std::int64_t j = 0; j < n; ++j) total += S[i * n + j], couplings += std::abs(S[i * n + j]);
    biases[i] = std::abs(S[i * n + i] + total) / 4;
    range.strongest(biases[i] + (couplings - std::abs(S[i * n + i])) / 4);
  }
  for (std::int64_t i = 0; i < n; ++i) {
    double least = range.at_least(biases[i]);
    for (std::int64_t j = 0; j < n; ++j)
      if (j != i) least = std::min(least, range.at_least(std::abs(S[i * n + j]) / 4));
    range.weakest(least);
  }
  range.write(betas);
}

template <class Real>
void scale_dense(In<Real, 3> A, Out<double, 3> S, Out<double, 1> scale, Out<double, 2> betas, int threads,
                 nb::object progress) {
  const std::int64_t batch = A.shape(0), n = A.shape(1);
  require_shape(A, {batch, n, n}, "A");
  require_shape(S, {batch, n, n}, "S");
  require_shape(scale, {batch}, "scale");
  require_shape(betas, {batch, 2}, "betas");
  call(threads, progress, [&](Control& control) {
    control.share(batch, 1 + batch / (8 * threads), [&](std::int64_t first, std::int64_t last) {
      std::vector<double> biases(n);
      for (std::int64_t k = first; k < last && !control.stopped(); ++k)
        scale_one(A.data() + k * n * n, n, S.data() + k * n * n, scale.data()[k], betas.data() + 2 * k, biases.data());
    });
  });
}

void sparse_beta_ranges(nb::tuple qubos, Out<double, 2> betas, int threads, nb::object progress) {
  const SparseQubos A = sparse_qubos(qubos);
  require_shape(betas, {A.batch, 2}, "betas");
  call(threads, progress, [&](Control& control) {
    std::vector<double> biases(A.n);
    for (std::int64_t k = 0; k < A.batch && !control.stopped(); ++k) {
      const auto coupling = [&](std::int64_t slot) { return A.quadratic[k * A.edges + A.places[slot]] / 4; };
      Range range;
      for (std::int64_t i = 0; i < A.n; ++i) {
        double bias = A.linear[k * A.n + i] / 2, couplings = 0;
        for (auto slot = A.starts[i]; slot < A.starts[i + 1]; ++slot)
          bias += coupling(slot), couplings += std::abs(coupling(slot));
        biases[i] = std::abs(bias);
        range.strongest(biases[i] + couplings);
      }
      for (std::int64_t i = 0; i < A.n; ++i) {
        double least = range.at_least(biases[i]);
        for (auto slot = A.starts[i]; slot < A.starts[i + 1]; ++slot)
          least = std::min(least, range.at_least(std::abs(coupling(slot))));
        range.weakest(least);
      }
      range.write(betas.data() + 2 * k);
    }
  });
}

}  // namespace

void bind_scaling(nb::module_& m) {
  const auto scale = [&](auto function) {
    define(m, "scale_dense", function,
           "Fill S [batch, n, n] with A + Aᵀ, A_ii on its diagonal, divided by A's largest entry; scale [batch] with\n"
           "that entry, or 1; and betas [batch, 2] with neal's first and last β for S.",
           "A", "S", "scale", "betas");
  };
  scale(&scale_dense<float>);
  scale(&scale_dense<double>);
  define(m, "sparse_beta_ranges", &sparse_beta_ranges,
         "Fill betas [batch, 2] with neal's first and last β of sparse QUBOs.", "qubos", "betas");
}

}  // namespace qubolearn
