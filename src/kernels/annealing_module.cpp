// Python's side of annealing: the scaling of QUBOs, neal's range of temperatures, the annealers and the local search.
#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "arrays.hpp"
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

void sparse_beta_ranges(nb::tuple qubos, Out<double, 2> betas) {
  const SparseQubos A = sparse_qubos(qubos);
  require_shape(betas, {A.batch, 2}, "betas");
  call(1, nb::none(), [&](Control& control) {
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

Annealing annealing(const In<double, 2>& betas, std::int64_t steps, std::int64_t sweeps,
                    const In<std::uint32_t, 1>& seeds, bool given, const Out<std::int8_t, 3>& states, std::int64_t batch,
                    std::int64_t n) {
  require_shape(betas, {batch, 2}, "betas");
  require_shape(seeds, {batch}, "seeds");
  require_shape(states, {batch, static_cast<std::int64_t>(states.shape(1)), n}, "states");
  require(steps >= 1 && sweeps >= 0, "expected steps >= 1 and sweeps >= 0");
  for (std::int64_t k = 0; k < batch; ++k)
    require(betas.data()[2 * k] > 0 && betas.data()[2 * k] <= betas.data()[2 * k + 1] && std::isfinite(betas.data()[2 * k + 1]),
            "expected 0 < first beta <= last beta");
  if (given) require_bits(states.data(), states.size());
  return {batch,        static_cast<std::int64_t>(states.shape(1)), n, sweeps, steps, betas.data(), seeds.data(), given,
          states.data()};
}

void anneal_dense(In<double, 3> S, In<double, 2> betas, std::int64_t steps, std::int64_t sweeps,
                  In<std::uint32_t, 1> seeds, bool given, Out<std::int8_t, 3> states, int threads,
                  nb::object progress) {
  const std::int64_t batch = S.shape(0), n = S.shape(1);
  require_shape(S, {batch, n, n}, "S");
  const Annealing how = annealing(betas, steps, sweeps, seeds, given, states, batch, n);
  call(threads, progress, [&](Control& control) { kernels().anneal_dense(S.data(), how, control); });
}

void anneal_sparse(nb::tuple qubos, In<double, 2> betas, std::int64_t steps, std::int64_t sweeps,
                   In<std::uint32_t, 1> seeds, bool given, Out<std::int8_t, 3> states, int threads,
                   nb::object progress) {
  const SparseQubos A = sparse_qubos(qubos);
  const Annealing how = annealing(betas, steps, sweeps, seeds, given, states, A.batch, A.n);
  call(threads, progress, [&](Control& control) { kernels().anneal_sparse(A, how, control); });
}

Refinement refinement(const In<std::int8_t, 3>& reads, const Out<std::int8_t, 3>& states,
                      const Out<double, 1>& success, bool exchanges, std::int64_t batch, std::int64_t n) {
  const std::int64_t count = states.shape(1);
  require_shape(reads, {batch, static_cast<std::int64_t>(reads.shape(1)), n}, "reads");
  require_shape(states, {batch, count, n}, "states");
  require_shape(success, {batch}, "success");
  require(count >= 1 && reads.shape(1) >= 1, "expected at least one read and one state");
  require_bits(reads.data(), reads.size());
  return {batch,         static_cast<std::int64_t>(reads.shape(1)), n, count, reads.data(), states.data(),
          success.data(), exchanges};
}

void refine_dense(In<double, 3> S, In<std::int8_t, 3> reads, Out<std::int8_t, 3> states, Out<double, 1> success,
                  bool exchanges, int threads, nb::object progress) {
  const std::int64_t batch = S.shape(0), n = S.shape(1);
  require_shape(S, {batch, n, n}, "S");
  const Refinement how = refinement(reads, states, success, exchanges, batch, n);
  call(threads, progress, [&](Control& control) { kernels().refine_dense(S.data(), how, control); });
}

void refine_sparse(nb::tuple qubos, nb::tuple members, In<std::int8_t, 2> clamps, In<std::int8_t, 3> reads,
                   Out<std::int8_t, 3> states, Out<double, 1> success, bool exchanges, int threads,
                   nb::object progress) {
  const SparseQubos A = sparse_qubos(qubos);
  const Units all = units(members, A.n);
  require_shape(clamps, {A.batch, A.n}, "clamps");
  const Refinement how = refinement(reads, states, success, exchanges, A.batch, A.n);
  call(threads, progress, [&](Control& control) { kernels().refine_sparse(A, all, clamps.data(), how, control); });
}

}  // namespace

void bind_annealing(nb::module_& m) {
  const auto scale = [&](auto function) {
    m.def("scale_dense", function, nb::arg("A").noconvert(), nb::arg("S").noconvert(), nb::arg("scale").noconvert(),
          nb::arg("betas").noconvert(), nb::arg("threads") = 1, nb::arg("progress").none() = nb::none(),
          "Fill S [batch, n, n] with A + Aᵀ, A_ii on its diagonal, divided by A's largest entry; scale [batch] with\n"
          "that entry, or 1; and betas [batch, 2] with neal's first and last β for S.");
  };
  scale(&scale_dense<float>);
  scale(&scale_dense<double>);
  m.def("sparse_beta_ranges", &sparse_beta_ranges, nb::arg("qubos"), nb::arg("betas").noconvert(),
        "Fill betas [batch, 2] with neal's first and last β of sparse QUBOs: (linear [batch, n], quadratic [batch, m],\n"
        "starts [n + 1], neighbors [2m], places [2m]), where bit i is coupled to neighbors[starts[i] : starts[i + 1]] by\n"
        "quadratic[:, places] of the same slots.");
  m.def("anneal_dense", &anneal_dense, nb::arg("S").noconvert(), nb::arg("betas").noconvert(), nb::arg("steps"),
        nb::arg("sweeps"), nb::arg("seeds").noconvert(), nb::arg("given"), nb::arg("states").noconvert(),
        nb::arg("threads") = 1, nb::arg("progress").none() = nb::none(),
        "Anneal states [batch, reads, n] in place, from where they are if given, else from random bits: β grows from\n"
        "betas[:, 0] to betas[:, 1] over `steps` sweeps and stays there.");
  m.def("anneal_sparse", &anneal_sparse, nb::arg("qubos"), nb::arg("betas").noconvert(), nb::arg("steps"),
        nb::arg("sweeps"), nb::arg("seeds").noconvert(), nb::arg("given"), nb::arg("states").noconvert(),
        nb::arg("threads") = 1, nb::arg("progress").none() = nb::none(), "Like anneal_dense, of sparse QUBOs.");
  m.def("refine_dense", &refine_dense, nb::arg("S").noconvert(), nb::arg("reads").noconvert(),
        nb::arg("states").noconvert(), nb::arg("success").noconvert(), nb::arg("exchanges"), nb::arg("threads") = 1,
        nb::arg("progress").none() = nb::none(),
        "Fill states [batch, count, n] with the lowest in and around reads [batch, r, n], and success [batch] with the\n"
        "share of reads at the lowest energy of all reads.");
  m.def("refine_sparse", &refine_sparse, nb::arg("qubos"), nb::arg("units"), nb::arg("clamps").noconvert(),
        nb::arg("reads").noconvert(), nb::arg("states").noconvert(), nb::arg("success").noconvert(),
        nb::arg("exchanges"), nb::arg("threads") = 1, nb::arg("progress").none() = nb::none(),
        "Like refine_dense, of sparse QUBOs with clamps [batch, n] (-1: free) and units (first, bits, group).");
}

}  // namespace qubolearn
