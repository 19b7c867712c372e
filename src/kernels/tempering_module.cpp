// Python's side of parallel tempering.
#include <cmath>

#include "arrays.hpp"

namespace qubolearn {
namespace {

// What all functions take: QUBOs and units as in refine_sparse, clamps [batch, n] and seeds [batch].
struct Problem {
  SparseQubos A;
  Units all;
  const std::int8_t* clamps;
  const std::uint32_t* seeds;

  explicit Problem(const nb::tuple& arrays) : A(sparse_qubos(item<nb::tuple>(arrays, 0, "qubos"))),
                                              all(units(item<nb::tuple>(arrays, 1, "units"), A.n)) {
    const auto clamp = item<In<std::int8_t, 2>>(arrays, 2, "clamps");
    const auto seed = item<In<std::uint32_t, 1>>(arrays, 3, "seeds");
    require_shape(clamp, {A.batch, A.n}, "clamps");
    require_shape(seed, {A.batch}, "seeds");
    clamps = clamp.data(), seeds = seed.data();
  }

  Tempering tempering(const Out<double, 2>& betas, std::int64_t sweeps) const {
    const std::int64_t replicas = betas.shape(1);
    require_shape(betas, {A.batch, replicas}, "betas");
    require(replicas >= 1 && sweeps >= 0, "expected at least one replica and sweeps >= 0");
    for (std::size_t k = 0; k < betas.size(); ++k)
      require(betas.data()[k] >= 0 && std::isfinite(betas.data()[k]), "expected finite betas >= 0");
    return {replicas, sweeps, A, all, clamps, seeds, betas.data()};
  }
};

void temper(nb::tuple problem, Out<double, 2> betas, std::int64_t sweeps, In<double, 1> targets, std::int64_t ladders,
            Out<std::int8_t, 3> states, Out<double, 2> rates, Out<std::int64_t, 1> swept, Out<std::int64_t, 1> ends,
            int threads, nb::object progress) {
  const Problem given(problem);
  const Tempering how = given.tempering(betas, sweeps);
  const std::int64_t batch = given.A.batch, count = states.shape(1);
  require(how.replicas % 16 == 0, "expected a multiple of 16 replicas");
  require(count >= 1 && ladders >= 1 && batch % ladders == 0, "expected a count >= 1 and whole sets of ladders");
  require_shape(targets, {batch}, "targets");
  require_shape(states, {batch, count, given.A.n}, "states");
  require_shape(rates, {batch, how.replicas - 1}, "rates");
  require_shape(swept, {batch}, "swept");
  require_shape(ends, {batch / ladders}, "ends");
  const TemperingSearch goal{count, ladders, targets.data(), states.data(), rates.data(), swept.data(), ends.data()};
  call(threads, progress, [&](Control& control) { kernels().temper(how, goal, control); });
}

void temper_sample(nb::tuple problem, Out<double, 2> betas, In<double, 1> colds, std::int64_t burn, std::int64_t thin,
                   Out<std::int8_t, 3> states, int threads, nb::object progress) {
  const Problem given(problem);
  const Tempering how = given.tempering(betas, burn);
  const std::int64_t reads = states.shape(1);
  require(how.replicas % 16 == 0 && thin >= 0, "expected a multiple of 16 replicas and thin >= 0");
  require_shape(colds, {given.A.batch}, "colds");
  require_shape(states, {given.A.batch, reads, given.A.n}, "states");
  for (std::size_t k = 0; k < colds.size(); ++k) require(colds.data()[k] >= 0, "expected colds >= 0");
  const TemperingSample goal{reads, burn, thin, colds.data(), states.data()};
  call(threads, progress, [&](Control& control) { kernels().temper_sample(how, goal, control); });
}

void move_chains(nb::tuple problem, Out<double, 2> betas, std::int64_t sweeps, Out<std::int8_t, 3> states, int threads,
                 nb::object progress) {
  const Problem given(problem);
  const Tempering how = given.tempering(betas, sweeps);
  require_shape(states, {given.A.batch, how.replicas, given.A.n}, "states");
  require_bits(states.data(), states.size());
  call(threads, progress, [&](Control& control) { kernels().move_chains(how, states.data(), control); });
}

void rule_out(nb::tuple problem, In<double, 1> targets, Out<std::int8_t, 2> ruled, int threads, nb::object progress) {
  const Problem given(problem);
  require_shape(targets, {given.A.batch}, "targets");
  require_shape(ruled, {given.A.batch, given.A.n}, "ruled");
  const Tempering how{16, 0, given.A, given.all, given.clamps, given.seeds, nullptr};
  call(threads, progress,
       [&](Control& control) { kernels().rule_out(how, targets.data(), ruled.data(), control); });
}

}  // namespace

void bind_tempering(nb::module_& m) {
  m.def("temper", &temper, nb::arg("problem"), nb::arg("betas").noconvert(), nb::arg("sweeps"),
        nb::arg("targets").noconvert(), nb::arg("ladders"), nb::arg("states").noconvert(), nb::arg("rates").noconvert(),
        nb::arg("swept").noconvert(), nb::arg("ends").noconvert(), nb::arg("threads") = 1,
        nb::arg("progress").none() = nb::none(),
        "Fill states [batch, count, n] with the lowest states of a problem (qubos, units, clamps, seeds), lowest first;\n"
        "betas [batch, replicas], from hot to cold, if they are 0; the shares of swaps; and the sweeps taken.");
  m.def("temper_sample", &temper_sample, nb::arg("problem"), nb::arg("betas").noconvert(), nb::arg("colds").noconvert(),
        nb::arg("burn"), nb::arg("thin"), nb::arg("states").noconvert(), nb::arg("threads") = 1,
        nb::arg("progress").none() = nb::none(),
        "Fill states [batch, reads, n] with draws at β = colds [batch], `thin` sweeps apart, after `burn` sweeps.");
  m.def("move_chains", &move_chains, nb::arg("problem"), nb::arg("betas").noconvert(), nb::arg("sweeps"),
        nb::arg("states").noconvert(), nb::arg("threads") = 1, nb::arg("progress").none() = nb::none(),
        "Move states [batch, chains, n] in place by some sweeps, each at its β of betas [batch, chains].");
  m.def("rule_out", &rule_out, nb::arg("problem"), nb::arg("targets").noconvert(), nb::arg("ruled").noconvert(),
        nb::arg("threads") = 1, nb::arg("progress").none() = nb::none(),
        "Fill ruled [batch, n] with the clamps and every bit that has one value in all states of at most the target.");
}

}  // namespace qubolearn
