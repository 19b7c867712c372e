// The extension module qubolearn._kernels: chooses the build for this processor and binds all kernels.
//
// Sparse QUBOs come as a tuple (linear [batch, n], quadratic [batch, m], starts [n + 1], neighbors [2m], places [2m]):
// bit i is coupled to neighbors[starts[i] : starts[i + 1]] by quadratic[:, places] of the same slots. Units of bits come
// as (first [units + 1], bits [n], group [units]).
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <atomic>
#include <cmath>
#include <cstdlib>
#include <vector>

#include "call.hpp"

namespace qubolearn {
namespace {

constexpr int MAX_BITS = 50;  // of exhaustive search: tables of nodes would grow too large, and it would take years

// Builds that this processor runs, the fastest last.
std::vector<const Kernels*> supported() {
#ifdef QUBOLEARN_X86
  __builtin_cpu_init();
  std::vector<const Kernels*> found;
  if (!__builtin_cpu_supports("sse4.2") || !__builtin_cpu_supports("popcnt")) return found;
  found.push_back(&v2::kernels);
  if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma") || !__builtin_cpu_supports("bmi2")) return found;
  found.push_back(&v3::kernels);
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512cd") &&
      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl"))
    found.push_back(&v4::kernels);
  return found;
#else
  return {&portable::kernels};
#endif
}

std::atomic<const Kernels*> chosen{nullptr};

std::vector<std::string> builds() {
  std::vector<std::string> names;
  for (const Kernels* each : supported()) names.emplace_back(each->name);
  return names;
}

void use(const std::string& name) {
  std::string names;
  for (const Kernels* each : supported()) {
    if (each->name == name) return chosen.store(each);
    names += std::string(names.empty() ? "" : ", ") + each->name;
  }
  throw nb::value_error(("this processor runs the builds " + names + ", got " + name).c_str());
}

template <class T>
auto search(In<T, 3> A, Out<T, 3> states, Out<double, 2> energies, std::int64_t held) {
  const std::int64_t batch = A.shape(0), n = A.shape(1), count = energies.shape(1);
  require(1 <= n && n <= MAX_BITS, "expected 1 to 50 bits");
  require(1 <= count && count <= std::int64_t(1) << n, "expected 1 <= count <= 2**n");
  return [=](Control& control) {
    double largest = 0;
    const Search<T> how{batch, count, held, static_cast<int>(n), A.data(), states.data(), energies.data(), &largest};
    if constexpr (sizeof(T) == 4) kernels().search_single(how, control);
    else kernels().search_double(how, control);
    return largest;
  };
}

auto partition(In<double, 3> A, double beta, Out<double, 1> values, Out<double, 3> marginals, std::int64_t held) {
  const std::int64_t batch = A.shape(0), n = A.shape(1);
  require(1 <= n && n <= MAX_BITS, "expected 1 to 50 bits");
  const Partition sums{batch, held, static_cast<int>(n), beta, A.data(), values.data(), marginals.data()};
  return [=](Control& control) { kernels().partition(sums, control); };
}

auto evolve(Out<float, 2> re, Out<float, 2> im, In<float, 2> energies, In<float, 1> tangents, In<float, 1> norms,
            In<float, 1> turns) {
  const std::int64_t batch = re.shape(0), states = re.shape(1), steps = turns.shape(0);
  require(states > 0 && (states & (states - 1)) == 0, "expected a power of two of amplitudes");
  const Evolution how{batch,           states,          steps,        re.data(),   im.data(),
                      energies.data(), tangents.data(), norms.data(), turns.data()};
  return [=](Control& control) { kernels().evolve(how, control); };
}

template <class Given>
auto anneal(Given qubos, In<double, 2> betas, std::int64_t steps, std::int64_t sweeps, In<std::uint32_t, 1> seeds,
            bool given, Out<std::int8_t, 3> states) {
  const std::int64_t batch = states.shape(0), reads = states.shape(1), n = states.shape(2);
  const auto A = qubos_of(qubos, batch, n);
  require(steps >= 1 && sweeps >= 0, "expected steps >= 1 and sweeps >= 0");
  for (std::int64_t k = 0; k < batch; ++k) {
    const double first = betas.data()[2 * k], last = betas.data()[2 * k + 1];
    require(first > 0 && first <= last && std::isfinite(last), "expected 0 < first beta <= last beta");
  }
  if (given) require_bits(states.data(), states.size());
  const Annealing how{batch, reads, n, sweeps, steps, betas.data(), seeds.data(), given, states.data()};
  return [=](Control& control) {
    if constexpr (std::is_same_v<Given, nb::tuple>) kernels().anneal_sparse(A, how, control);
    else kernels().anneal_dense(A, how, control);
  };
}

Refinement refinement(const In<std::int8_t, 3>& reads, const Out<std::int8_t, 3>& states,
                      const Out<double, 1>& success, bool exchanges) {
  const std::int64_t batch = reads.shape(0), r = reads.shape(1), n = reads.shape(2), count = states.shape(1);
  require(count >= 1 && r >= 1, "expected at least one read and one state");
  require_bits(reads.data(), reads.size());
  return {batch, r, n, count, reads.data(), states.data(), success.data(), exchanges};
}

auto refine_dense(In<double, 3> S, In<std::int8_t, 3> reads, Out<std::int8_t, 3> states, Out<double, 1> success,
                  bool exchanges) {
  const Refinement how = refinement(reads, states, success, exchanges);
  const DenseQubos A = qubos_of(S, how.batch, how.n);
  return [=](Control& control) { kernels().refine_dense(A, how, control); };
}

auto refine_sparse(nb::tuple qubos, nb::tuple members, In<std::int8_t, 2> clamps, In<std::int8_t, 3> reads,
                   Out<std::int8_t, 3> states, Out<double, 1> success, bool exchanges) {
  const Refinement how = refinement(reads, states, success, exchanges);
  const SparseQubos A = qubos_of(qubos, how.batch, how.n);
  const Units all = units(members, A.n);
  return [=](Control& control) { kernels().refine_sparse(A, all, clamps.data(), how, control); };
}

// Check what tempering takes: (qubos, units, clamps [batch, n], seeds [batch]) and betas [batch, replicas].
Tempering tempering(const nb::tuple& arrays, const Out<double, 2>& betas, std::int64_t sweeps,
                    const Out<std::int8_t, 3>& states) {
  const std::int64_t batch = states.shape(0), n = states.shape(2), replicas = betas.shape(1);
  const auto clamps = item<In<std::int8_t, 2>>(arrays, 2, "clamps");
  const auto seeds = item<In<std::uint32_t, 1>>(arrays, 3, "seeds");
  require_shape(clamps, {batch, n}, "clamps");
  require_shape(seeds, {batch}, "seeds");
  require(replicas >= 1 && sweeps >= 0, "expected at least one replica and sweeps >= 0");
  for (std::size_t k = 0; k < betas.size(); ++k)
    require(betas.data()[k] >= 0 && std::isfinite(betas.data()[k]), "expected finite betas >= 0");
  const SparseQubos A = qubos_of(item<nb::tuple>(arrays, 0, "qubos"), batch, n);
  return {replicas, sweeps, A, units(item<nb::tuple>(arrays, 1, "units"), n), clamps.data(), seeds.data(), betas.data()};
}

auto temper(nb::tuple problem, Out<double, 2> betas, std::int64_t sweeps, In<double, 1> targets,
            Out<std::int8_t, 3> states, Out<double, 2> rates, Out<std::int64_t, 1> swept) {
  const Tempering how = tempering(problem, betas, sweeps, states);
  const auto count = static_cast<std::int64_t>(states.shape(1));
  require(how.replicas % 16 == 0, "expected a multiple of 16 replicas");
  require(count >= 1, "expected a count >= 1");
  require_shape(rates, {how.A.batch, how.replicas - 1}, "rates");
  const TemperingSearch goal{count, targets.data(), states.data(), rates.data(), swept.data()};
  return [=](Control& control) { kernels().temper(how, goal, control); };
}

auto temper_sample(nb::tuple problem, Out<double, 2> betas, In<double, 1> colds, std::int64_t burn, std::int64_t thin,
                   Out<std::int8_t, 3> states) {
  const Tempering how = tempering(problem, betas, burn, states);
  require(how.replicas % 16 == 0 && thin >= 0, "expected a multiple of 16 replicas and thin >= 0");
  for (std::size_t k = 0; k < colds.size(); ++k) require(colds.data()[k] >= 0, "expected colds >= 0");
  const TemperingSample goal{static_cast<std::int64_t>(states.shape(1)), burn, thin, colds.data(), states.data()};
  return [=](Control& control) { kernels().temper_sample(how, goal, control); };
}

auto move_chains(nb::tuple problem, Out<double, 2> betas, std::int64_t sweeps, Out<std::int8_t, 3> states) {
  const Tempering how = tempering(problem, betas, sweeps, states);
  require_bits(states.data(), states.size());
  return [=](Control& control) { kernels().move_chains(how, states.data(), control); };
}

auto search_population(nb::tuple qubos, In<std::int64_t, 1> widths, std::int64_t sweeps, In<double, 1> targets,
                       In<std::uint32_t, 1> seeds, Out<std::int64_t, 1> first, Out<std::int64_t, 2> swept,
                       Out<std::int8_t, 4> states) {
  const SparseQubos A = qubos_of(qubos, states.shape(0), states.shape(3));
  require(states.shape(2) == 64, "expected 64 reads per island");
  require(A.n < INT32_MAX, "expected fewer than 2**31 bits");
  require(sweeps >= 0, "expected sweeps >= 0");
  const auto islands = static_cast<std::int64_t>(states.shape(1));
  const PopulationSearch how = {islands,      sweeps,       widths.data(), targets.data(),
                                seeds.data(), first.data(), swept.data(),  states.data()};
  return [=](Control& control) { kernels().search_population(A, how, control); };
}

}  // namespace

const Kernels& kernels() { return *chosen.load(); }

Units units(const nb::tuple& arrays, std::int64_t n) {
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

SparseQubos qubos_of(const nb::tuple& arrays, std::int64_t batch, std::int64_t n) {
  const auto linear = item<In<double, 2>>(arrays, 0, "linear"), quadratic = item<In<double, 2>>(arrays, 1, "quadratic");
  const auto starts = item<In<std::int64_t, 1>>(arrays, 2, "starts");
  const auto neighbors = item<In<std::uint32_t, 1>>(arrays, 3, "neighbors");
  const auto places = item<In<std::int64_t, 1>>(arrays, 4, "places");
  const std::int64_t edges = quadratic.shape(1), *s = starts.data();
  require_shape(linear, {batch, n}, "linear");
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

}  // namespace qubolearn

NB_MODULE(_kernels, m) {
  using namespace qubolearn;
  if (supported().empty()) throw nb::import_error("qubolearn requires a processor with SSE4.2 (x86-64-v2)");
  const char* forced = std::getenv("QUBOLEARN_KERNELS");
  use(forced && *forced ? forced : supported().back()->name);
  m.def("builds", &builds, "Return the names of the builds that this processor runs, the fastest last.");
  m.def("build", [] { return kernels().name; }, "Return the name of the build in use.");
  m.def("use", &use, "name"_a, "Use another build from now on; results do not change.");
  const auto bind_search = [&](auto function) {
    define(m, "search", function, "A:bnn states:bcn energies:bc held",
           "Fill states and energies with the lowest states of A, ascending, in about `held` bytes. Return\n"
           "the largest sum of |A_ij|.");
  };
  bind_search(&search<float>);
  bind_search(&search<double>);
  define(m, "partition", &partition, "A:bnn beta values:b marginals:bnn held",
         "Fill values with log Z of A, NaN where its exponents are too large, and marginals with E[x xT].");
  define(m, "evolve", &evolve, "re:bs im:bs energies:bs tangents:k norms:k turns:k",
         "Apply pulses to the states re + i im of 2**n amplitudes, in place: rotate all qubits by atan(tangents[k]),\n"
         "multiply by norms[k] exp(-2πi turns[k] energies).");
  define(m, "anneal_dense", &anneal<In<double, 3>>, "S:bnn betas:b2 steps sweeps seeds:b given states:brn",
         "Anneal states in place, from where they are if given, else from random bits: β grows from betas[:, 0] to\n"
         "betas[:, 1] over `steps` sweeps and stays there.");
  define(m, "anneal_sparse", &anneal<nb::tuple>, "qubos betas:b2 steps sweeps seeds:b given states:brn",
         "Like anneal_dense, of sparse QUBOs.");
  define(m, "refine_dense", &refine_dense, "S:bnn reads:brn states:bcn success:b exchanges",
         "Fill states with the lowest in and around reads, and success with the share of reads at the lowest energy of\n"
         "all reads.");
  define(m, "refine_sparse", &refine_sparse, "qubos units clamps:bn reads:brn states:bcn success:b exchanges",
         "Like refine_dense, of sparse QUBOs with units and clamps (-1: free).");
  define(m, "temper", &temper, "problem betas:bk sweeps targets:b states:bcn rates:bp swept:b",
         "Fill states with the lowest states of a problem (qubos, units, clamps, seeds), lowest first; betas, from hot\n"
         "to cold, if they are 0; rates with the shares of swaps; and swept with the sweeps taken.");
  define(m, "temper_sample", &temper_sample, "problem betas:bk colds:b burn thin states:brn",
         "Fill states with draws at β = colds, `thin` sweeps apart, after `burn` sweeps.");
  define(m, "move_chains", &move_chains, "problem betas:bc sweeps states:bcn",
         "Move states in place by some sweeps, each at its β of betas.");
  define(m, "search_population", &search_population,
         "qubos widths:b sweeps targets:b seeds:b first:b swept:bi states:birn",
         "Fill states, 64 per island, with reads that were annealed generation by generation, swept with their sweeps,\n"
         "and first with the first island that reached targets, else the number of islands. Widths are the bytes of\n"
         "integers that hold all fields, 4 for any numbers.");
  bind_constrained(m);
  bind_elimination(m);
  bind_ranking(m);
  bind_scaling(m);
}
