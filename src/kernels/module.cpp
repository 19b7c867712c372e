// The extension module qubolearn._kernels: chooses the build for this processor and binds all kernels.
// Sparse QUBOs come as a tuple (linear [batch, n], quadratic [batch, m], starts [n + 1], neighbors [2m], places [2m]): bit
// i is coupled to neighbors[starts[i] : starts[i + 1]] by quadratic[:, places]. Units come as (first, bits, group).
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "call.hpp"

namespace qubolearn {
namespace {

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

}  // namespace

const Kernels& kernels() { return *chosen.load(); }
void refuse(const char* message) { throw nb::value_error(message); }

void read(const nb::tuple& given, Units& units) {
  const auto [first, bits, group] = items<In<Index, 1>, In<Index, 1>, In<bool, 1>>(given, "first:f bits:n group:u");
  const Index n = bits.shape[0], count = group.shape[0], *f = first.data;
  require(first.shape[0] == count + 1 && f[0] == 0 && f[count] == n, "expected units from 0 to n");
  for (Index u = 0; u < count; ++u)
    require(f[u] < f[u + 1] && (group.data[u] || f[u] + 1 == f[u + 1]), "expected groups, and units of one bit");
  std::vector<bool> seen(n);
  for (Index k = 0; k < n; ++k) {
    const Index bit = bits.data[k];
    require(bit >= 0 && bit < n && !seen[bit], "expected every bit in one unit");
    seen[bit] = true;
  }
  units = {count, n, f, bits.data, group.data};
}

void read(const nb::tuple& given, SparseQubos& A) {
  const auto [linear, quadratic, starts, neighbors, places] =
      items<In<double, 2>, In<double, 2>, In<Index, 1>, In<std::uint32_t, 1>, In<Index, 1>>(
          given, "linear:bn quadratic:be starts:s neighbors:d places:d");
  const Index batch = linear.shape[0], n = linear.shape[1], edges = quadratic.shape[1], *s = starts.data;
  require(neighbors.shape[0] == 2 * edges, "expected two neighbors per edge");
  require(starts.shape[0] == n + 1 && s[0] == 0 && s[n] == 2 * edges, "expected starts from 0 to twice the edges");
  for (Index i = 0; i < n; ++i) require(s[i] <= s[i + 1], "expected starts in ascending order");
  for (Index k = 0; k < 2 * edges; ++k)
    require(neighbors.data[k] < n && places.data[k] >= 0 && places.data[k] < edges,
            "expected neighbors below n and places below the number of edges");
  A = {batch, n, edges, linear.data, quadratic.data, s, places.data, neighbors.data};
}

void read(const nb::tuple& given, Tempering& problem) {
  std::tie(problem.A, problem.units, problem.clamps, problem.seeds) =
      items<SparseQubos, Units, In<std::int8_t, 2>, In<std::uint32_t, 1>>(given, "qubos:bn units:n clamps:bn seeds:b");
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
  const char* signature = "A:bnn states:bcn energies:bc held";
  const char* description =
      "Fill states and energies with the lowest states of A, ascending, in about `held` bytes. Return\n"
      "the largest sum of |A_ij|.";
  define(m, "search", &Kernels::search_single, signature, description);
  define(m, "search", &Kernels::search_double, signature, description);
  define(m, "partition", &Kernels::partition, "A:bnn beta values:b marginals:bnn held",
         "Fill values with log Z of A, NaN where its exponents are too large, and marginals with E[x xT].");
  define(m, "evolve", &Kernels::evolve, "re:bs im:bs energies:bs tangents:k norms:k turns:k",
         "Apply pulses to the states re + i im of 2**n amplitudes, in place: rotate all qubits by atan(tangents[k]),\n"
         "multiply by norms[k] exp(-2πi turns[k] energies).");
  define(m, "anneal_dense", &Kernels::anneal_dense, "S:bnn betas:b2 steps sweeps seeds:b given states:brn",
         "Anneal states in place, from where they are if given, else from random bits: β grows from betas[:, 0] to\n"
         "betas[:, 1] over `steps` sweeps and stays there.");
  define(m, "anneal_sparse", &Kernels::anneal_sparse, "qubos:bn betas:b2 steps sweeps seeds:b given states:brn",
         "Like anneal_dense, of sparse QUBOs.");
  define(m, "refine_dense", &Kernels::refine_dense, "S:bnn reads:brn states:bcn success:b exchanges",
         "Fill states with the lowest in and around reads, and success with the share of reads at the lowest energy of\n"
         "all reads.");
  define(m, "refine_sparse", &Kernels::refine_sparse, "qubos:bn units:n clamps:bn reads:brn states:bcn success:b exchanges",
         "Like refine_dense, of sparse QUBOs with units and clamps (-1: free).");
  define(m, "temper", &Kernels::temper, "problem:bn betas:bk sweeps targets:b states:bcn rates:bp swept:b",
         "Fill states with the lowest states of a problem (qubos, units, clamps, seeds), lowest first; betas, from hot\n"
         "to cold, if they are 0; rates with the shares of swaps; and swept with the sweeps taken.");
  define(m, "temper_sample", &Kernels::temper_sample, "problem:bn betas:bk colds:b burn thin states:brn",
         "Fill states with draws at β = colds, `thin` sweeps apart, after `burn` sweeps.");
  define(m, "move_chains", &Kernels::move_chains, "problem:bn betas:bc sweeps states:bcn",
         "Move states in place by some sweeps, each at its β of betas.");
  define(m, "search_population", &Kernels::search_population,
         "qubos:bn widths:b sweeps targets:b seeds:b first:b swept:bi states:birn",
         "Fill states, 64 per island, with reads that were annealed generation by generation, swept with their sweeps,\n"
         "and first with the first island that reached targets, else the number of islands. Widths are the bytes of\n"
         "integers that hold all fields, 4 for any numbers.");
  bind_constrained(m);
  bind_elimination(m);
  bind_ranking(m);
  bind_scaling(m);
}
