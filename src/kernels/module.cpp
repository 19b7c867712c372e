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
constexpr std::int64_t HELD = 1 << 26;

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
double search(In<T, 3> A, Out<T, 3> states, Out<double, 2> energies, std::int64_t held, int threads,
              nb::object progress) {
  const std::int64_t batch = A.shape(0), n = A.shape(1), count = energies.shape(1);
  require(1 <= n && n <= MAX_BITS, "expected 1 to 50 bits");
  require(1 <= count && count <= std::int64_t(1) << n, "expected 1 <= count <= 2**n");
  require_shape(A, {batch, n, n}, "A");
  require_shape(energies, {batch, count}, "energies");
  require_shape(states, {batch, count, n}, "states");
  double largest = 0;
  const Search<T> search{batch, count, held, static_cast<int>(n), A.data(), states.data(), energies.data(), &largest};
  call(threads, progress, [&](Control& control) {
    if constexpr (sizeof(T) == 4) kernels().search_single(search, control);
    else kernels().search_double(search, control);
  });
  return largest;
}

template <class T>
void partition(In<T, 3> A, double beta, Out<double, 1> values, Out<double, 3> marginals, std::int64_t held, int threads,
               nb::object progress) {
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
void bind_exhaustive(nb::module_& m) {
  define(m, "search", &search<T>,
         "Fill states [batch, count, n] and energies [batch, count] with the lowest states of A [batch, n, n],\n"
         "ascending. Return the largest sum of |A_ij|.",
         "A", "states", "energies", "held"_a = HELD);
  define(m, "partition", &partition<T>,
         "Fill values [batch] with log Z of A [batch, n, n], NaN where its exponents are too large, and\n"
         "marginals [batch, n, n] with E[x xT].",
         "A", "beta"_a, "values", "marginals", "held"_a = HELD);
}

void evolve(Out<float, 2> re, Out<float, 2> im, In<float, 2> energies, In<float, 1> tangents, In<float, 1> norms,
            In<float, 1> turns, int threads, nb::object progress) {
  const std::int64_t batch = re.shape(0), states = re.shape(1), steps = turns.shape(0);
  require(states > 0 && (states & (states - 1)) == 0, "expected a power of two of amplitudes");
  require_shape(im, {batch, states}, "im");
  require_shape(energies, {batch, states}, "energies");
  require_shape(tangents, {steps}, "tangents");
  require_shape(norms, {steps}, "norms");
  const Evolution evolution{batch,           states,          steps,        re.data(),   im.data(),
                            energies.data(), tangents.data(), norms.data(), turns.data()};
  call(threads, progress, [&](Control& control) { kernels().evolve(evolution, control); });
}

DenseQubos qubos_of(const In<double, 3>& S) {
  const std::int64_t batch = S.shape(0), n = S.shape(1);
  require_shape(S, {batch, n, n}, "S");
  return {batch, n, S.data()};
}
SparseQubos qubos_of(const nb::tuple& arrays) { return sparse_qubos(arrays); }

template <class Given>
void anneal(Given qubos, In<double, 2> betas, std::int64_t steps, std::int64_t sweeps, In<std::uint32_t, 1> seeds,
            bool given, Out<std::int8_t, 3> states, int threads, nb::object progress) {
  const auto A = qubos_of(qubos);
  const std::int64_t reads = states.shape(1);
  require_shape(betas, {A.batch, 2}, "betas");
  require_shape(seeds, {A.batch}, "seeds");
  require_shape(states, {A.batch, reads, A.n}, "states");
  require(steps >= 1 && sweeps >= 0, "expected steps >= 1 and sweeps >= 0");
  for (std::int64_t k = 0; k < A.batch; ++k) {
    const double first = betas.data()[2 * k], last = betas.data()[2 * k + 1];
    require(first > 0 && first <= last && std::isfinite(last), "expected 0 < first beta <= last beta");
  }
  if (given) require_bits(states.data(), states.size());
  const Annealing how{A.batch, reads, A.n, sweeps, steps, betas.data(), seeds.data(), given, states.data()};
  call(threads, progress, [&](Control& control) {
    if constexpr (std::is_same_v<Given, nb::tuple>) kernels().anneal_sparse(A, how, control);
    else kernels().anneal_dense(A, how, control);
  });
}

Refinement refinement(const In<std::int8_t, 3>& reads, const Out<std::int8_t, 3>& states,
                      const Out<double, 1>& success, bool exchanges, std::int64_t batch, std::int64_t n) {
  const std::int64_t count = states.shape(1), r = reads.shape(1);
  require_shape(reads, {batch, r, n}, "reads");
  require_shape(states, {batch, count, n}, "states");
  require_shape(success, {batch}, "success");
  require(count >= 1 && r >= 1, "expected at least one read and one state");
  require_bits(reads.data(), reads.size());
  return {batch, r, n, count, reads.data(), states.data(), success.data(), exchanges};
}

void refine_dense(In<double, 3> S, In<std::int8_t, 3> reads, Out<std::int8_t, 3> states, Out<double, 1> success,
                  bool exchanges, int threads, nb::object progress) {
  const DenseQubos A = qubos_of(S);
  const Refinement how = refinement(reads, states, success, exchanges, A.batch, A.n);
  call(threads, progress, [&](Control& control) { kernels().refine_dense(A, how, control); });
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

// What tempering takes: (qubos, units, clamps [batch, n], seeds [batch]) and betas [batch, replicas].
struct Problem {
  const SparseQubos A;
  const Units all;
  Tempering how{0, 0, A, all, nullptr, nullptr, nullptr};

  Problem(const nb::tuple& arrays, const Out<double, 2>& betas, std::int64_t sweeps)
      : A(sparse_qubos(item<nb::tuple>(arrays, 0, "qubos"))), all(units(item<nb::tuple>(arrays, 1, "units"), A.n)) {
    const auto clamps = item<In<std::int8_t, 2>>(arrays, 2, "clamps");
    const auto seeds = item<In<std::uint32_t, 1>>(arrays, 3, "seeds");
    require_shape(clamps, {A.batch, A.n}, "clamps");
    require_shape(seeds, {A.batch}, "seeds");
    how.clamps = clamps.data(), how.seeds = seeds.data();
    how.replicas = betas.shape(1), how.sweeps = sweeps, how.betas = betas.data();
    require_shape(betas, {A.batch, how.replicas}, "betas");
    require(how.replicas >= 1 && sweeps >= 0, "expected at least one replica and sweeps >= 0");
    for (std::size_t k = 0; k < betas.size(); ++k)
      require(betas.data()[k] >= 0 && std::isfinite(betas.data()[k]), "expected finite betas >= 0");
  }
  Problem(const Problem&) = delete;  // `how` refers to it
};

void temper(nb::tuple arrays, Out<double, 2> betas, std::int64_t sweeps, In<double, 1> targets,
            Out<std::int8_t, 3> states, Out<double, 2> rates, Out<std::int64_t, 1> swept, int threads,
            nb::object progress) {
  const Problem problem(arrays, betas, sweeps);
  const std::int64_t batch = problem.A.batch, count = states.shape(1), replicas = problem.how.replicas;
  require(replicas % 16 == 0, "expected a multiple of 16 replicas");
  require(count >= 1, "expected a count >= 1");
  require_shape(targets, {batch}, "targets");
  require_shape(states, {batch, count, problem.A.n}, "states");
  require_shape(rates, {batch, replicas - 1}, "rates");
  require_shape(swept, {batch}, "swept");
  const TemperingSearch goal{count, targets.data(), states.data(), rates.data(), swept.data()};
  call(threads, progress, [&](Control& control) { kernels().temper(problem.how, goal, control); });
}

void temper_sample(nb::tuple arrays, Out<double, 2> betas, In<double, 1> colds, std::int64_t burn, std::int64_t thin,
                   Out<std::int8_t, 3> states, int threads, nb::object progress) {
  const Problem problem(arrays, betas, burn);
  const std::int64_t reads = states.shape(1);
  require(problem.how.replicas % 16 == 0 && thin >= 0, "expected a multiple of 16 replicas and thin >= 0");
  require_shape(colds, {problem.A.batch}, "colds");
  require_shape(states, {problem.A.batch, reads, problem.A.n}, "states");
  for (std::size_t k = 0; k < colds.size(); ++k) require(colds.data()[k] >= 0, "expected colds >= 0");
  const TemperingSample goal{reads, burn, thin, colds.data(), states.data()};
  call(threads, progress, [&](Control& control) { kernels().temper_sample(problem.how, goal, control); });
}

void move_chains(nb::tuple arrays, Out<double, 2> betas, std::int64_t sweeps, Out<std::int8_t, 3> states, int threads,
                 nb::object progress) {
  const Problem problem(arrays, betas, sweeps);
  require_shape(states, {problem.A.batch, problem.how.replicas, problem.A.n}, "states");
  require_bits(states.data(), states.size());
  call(threads, progress, [&](Control& control) { kernels().move_chains(problem.how, states.data(), control); });
}

void search_population(nb::tuple qubos, In<std::int64_t, 1> widths, std::int64_t sweeps, In<double, 1> targets,
                       In<std::uint32_t, 1> seeds, Out<std::int64_t, 1> first, Out<std::int64_t, 2> swept,
                       Out<std::int8_t, 4> states, int threads, nb::object progress) {
  const SparseQubos A = sparse_qubos(qubos);
  const auto islands = static_cast<std::int64_t>(states.shape(1));
  require_shape(widths, {A.batch}, "widths");
  require_shape(targets, {A.batch}, "targets");
  require_shape(seeds, {A.batch}, "seeds");
  require_shape(first, {A.batch}, "first");
  require_shape(swept, {A.batch, islands}, "swept");
  require_shape(states, {A.batch, islands, 64, A.n}, "states");
  require(A.n < INT32_MAX, "expected fewer than 2**31 bits");
  require(sweeps >= 0, "expected sweeps >= 0");
  const PopulationSearch how = {islands,      sweeps,       widths.data(), targets.data(),
                                seeds.data(), first.data(), swept.data(),  states.data()};
  call(threads, progress, [&](Control& control) { kernels().search_population(A, how, control); });
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

SparseQubos sparse_qubos(const nb::tuple& arrays) {
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

}  // namespace qubolearn

NB_MODULE(_kernels, m) {
  using namespace qubolearn;
  if (supported().empty()) throw nb::import_error("qubolearn requires a processor with SSE4.2 (x86-64-v2)");
  const char* forced = std::getenv("QUBOLEARN_KERNELS");
  use(forced && *forced ? forced : supported().back()->name);
  m.def("builds", &builds, "Return the names of the builds that this processor runs, the fastest last.");
  m.def("build", [] { return kernels().name; }, "Return the name of the build in use.");
  m.def("use", &use, "name"_a, "Use another build from now on; results do not change.");
  bind_exhaustive<float>(m);
  bind_exhaustive<double>(m);
  bind_constrained(m);
  bind_elimination(m);
  bind_ranking(m);
  bind_scaling(m);
  define(m, "evolve", &evolve,
         "Apply pulses to the states re + i im [batch, 2**n], in place: rotate all qubits by atan(tangents[k]), multiply\n"
         "by norms[k] exp(-2πi turns[k] energies).",
         "re", "im", "energies", "tangents", "norms", "turns");
  define(m, "anneal_dense", &anneal<In<double, 3>>,
         "Anneal states [batch, reads, n] in place, from where they are if given, else from random bits: β grows from\n"
         "betas[:, 0] to betas[:, 1] over `steps` sweeps and stays there.",
         "S", "betas", "steps"_a, "sweeps"_a, "seeds", "given"_a, "states");
  define(m, "anneal_sparse", &anneal<nb::tuple>, "Like anneal_dense, of sparse QUBOs.",
         "qubos", "betas", "steps"_a, "sweeps"_a, "seeds", "given"_a, "states");
  define(m, "refine_dense", &refine_dense,
         "Fill states [batch, count, n] with the lowest in and around reads [batch, r, n], and success [batch] with the\n"
         "share of reads at the lowest energy of all reads.",
         "S", "reads", "states", "success", "exchanges"_a);
  define(m, "refine_sparse", &refine_sparse,
         "Like refine_dense, of sparse QUBOs with units and clamps [batch, n] (-1: free).",
         "qubos", "units", "clamps", "reads", "states", "success", "exchanges"_a);
  define(m, "temper", &temper,
         "Fill states [batch, count, n] with the lowest states of a problem (qubos, units, clamps, seeds), lowest first;\n"
         "betas [batch, replicas], from hot to cold, if they are 0; the shares of swaps; and the sweeps taken.",
         "problem", "betas", "sweeps"_a, "targets", "states", "rates", "swept");
  define(m, "temper_sample", &temper_sample,
         "Fill states [batch, reads, n] with draws at β = colds [batch], `thin` sweeps apart, after `burn` sweeps.",
         "problem", "betas", "colds", "burn"_a, "thin"_a, "states");
  define(m, "move_chains", &move_chains,
         "Move states [batch, chains, n] in place by some sweeps, each at its β of betas [batch, chains].",
         "problem", "betas", "sweeps"_a, "states");
  define(m, "search_population", &search_population,
         "Fill states [batch, islands, 64, n] with reads that were annealed generation by generation, swept [batch,\n"
         "islands] with their sweeps, and first [batch] with the first island that reached targets [batch], else the\n"
         "number of islands. Widths [batch] are the bytes of integers that hold all fields, 4 for any numbers.",
         "qubos", "widths", "sweeps"_a, "targets", "seeds", "first", "swept", "states");
}
