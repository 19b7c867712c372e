// The table of kernels that are compiled once per processor generation, in namespaces v2, v3, v4 (or portable).
// Such code must not emit inline functions of the standard library: the linker keeps one copy, which might be the one
// for the newest processor. Use Scratch instead of std::vector; tests/kernels/test_build.py checks it.
#pragma once
#include <cstdint>

#include "pool.hpp"

namespace qubolearn {

// Time evolution of `batch` state vectors of `states` amplitudes over `steps` pulses.
struct Evolution {
  std::int64_t batch, states, steps;
  float *re, *im;
  const float *energies, *tangents, *norms, *turns;
};

// Sparse QUBOs on one graph, linear [batch, n] and quadratic [batch, edges]. Bit i has the neighbors
// neighbors[starts[i]] ... neighbors[starts[i + 1] - 1] through the edges `places` of the same slots.
struct SparseQubos {
  std::int64_t batch, n, edges;
  const double *linear, *quadratic;
  const std::int64_t *starts, *places;
  const std::uint32_t* neighbors;
};

// Dense QUBOs S [batch, n, n]: symmetric, with A_ij + A_ji off the diagonal and A_ii on it.
struct DenseQubos {
  std::int64_t batch, n;
  const double* S;
};

// Annealing of states [batch, reads, n] in place, from where they are if `given`, else from random bits.
struct Annealing {
  std::int64_t batch, reads, n, sweeps, steps;
  const double* betas;  // [batch, 2]: β grows from the first to the last over `steps` sweeps and stays there
  const std::uint32_t* seeds;
  bool given;
  std::int8_t* states;
};

// The `count` lowest states [batch, count, n] of A [batch, n, n] and their energies [batch, count], ascending.
template <class T>
struct Search {
  std::int64_t batch, count, held;  // held: bytes of partial results at once, beyond those of one QUBO
  int n;
  const T* A;
  T* states;
  double *energies, *largest;  // Σ|A_ij| of a QUBO: if it is near the largest double, energies have overflowed
};

// log Σ_x exp(-β xᵀAx) [batch], NaN if exponents leave the range of double, and E[x xᵀ] [batch, n, n].
struct Partition {
  std::int64_t batch, held;
  int n;
  double beta;
  const double* A;
  double *values, *marginals;
};

// Units of bits: the bits of unit u are bits[first[u]] ... bits[first[u + 1] - 1]. Of a group exactly one is 1.
struct Units {
  std::int64_t count;
  const std::int64_t *first, *bits;
  const bool* group;
};

// A search of states [batch, count, n], lowest first, in and around reads [batch, reads, n].
struct Refinement {
  std::int64_t batch, reads, n, count;
  const std::int8_t* read;
  std::int8_t* states;
  double* success;  // [batch]: the share of reads at the lowest energy of all reads
  bool exchanges;   // whether up to 512 bits two and three bits are flipped at once
};

// Parallel tempering of QUBOs whose bits are in units. clamps [batch, n] hold 0, 1, and -1 for free bits.
struct Tempering {
  std::int64_t replicas, sweeps;
  SparseQubos A;
  Units units;
  const std::int8_t* clamps;
  const std::uint32_t* seeds;  // [batch]
  double* betas;               // [batch, replicas] from hot to cold: given, or filled if the first one is 0
};

// Search: an instance ends when it finds a state at or below its target.
struct TemperingSearch {
  std::int64_t count;
  const double* targets;  // [batch]
  std::int8_t* states;    // [batch, count, n]: the lowest states, lowest first
  double* rates;          // [batch, replicas - 1]: shares of swaps accepted
  std::int64_t* swept;    // [batch]
};

// Sampling of reads [batch, reads, n] at β = colds [batch], `thin` sweeps apart, after `burn` sweeps.
struct TemperingSample {
  std::int64_t reads, burn, thin;
  const double* colds;
  std::int8_t* states;
};

// Population annealing: `islands` times 64 reads of each QUBO, states [batch, islands, 64, n]. It ends after some sweeps
// or at a state of the target's energy.
struct PopulationSearch {
  std::int64_t islands, sweeps;
  const std::int64_t* widths;  // [batch]: bytes of an integer that holds all fields, 4 for float
  const double* targets;       // [batch]
  const std::uint32_t* seeds;
  std::int64_t *first, *swept;  // [batch]: the first island that reached the target; [batch, islands]
  std::int8_t* states;
};

// Every kernel with its arguments, to which the Control of the call is added.
#define QUBOLEARN_KERNELS(KERNEL) \
  KERNEL(search_single, const Search<float>&) \
  KERNEL(search_double, const Search<double>&) \
  KERNEL(partition, const Partition&) \
  KERNEL(evolve, const Evolution&) \
  KERNEL(anneal_dense, const DenseQubos&, const Annealing&) \
  KERNEL(anneal_sparse, const SparseQubos&, const Annealing&) \
  KERNEL(temper, const Tempering&, const TemperingSearch&) \
  KERNEL(temper_sample, const Tempering&, const TemperingSample&) \
  KERNEL(move_chains, const Tempering&, std::int8_t* states) \
  KERNEL(refine_dense, const DenseQubos&, const Refinement&) \
  KERNEL(refine_sparse, const SparseQubos&, const Units&, const std::int8_t* clamps, const Refinement&) \
  KERNEL(search_population, const SparseQubos&, const PopulationSearch&)

struct Kernels {
  const char* name;
#define POINTER(name, ...) void (*name)(__VA_ARGS__, Control&);
  QUBOLEARN_KERNELS(POINTER)
};

#define FUNCTION(name, ...) void name(__VA_ARGS__, Control&);
#define QUBOLEARN_VARIANT(variant) \
  namespace variant { \
  extern const Kernels kernels; \
  QUBOLEARN_KERNELS(FUNCTION) \
  }
#ifdef QUBOLEARN_X86
QUBOLEARN_VARIANT(v2)
QUBOLEARN_VARIANT(v3)
QUBOLEARN_VARIANT(v4)
#else
QUBOLEARN_VARIANT(portable)
#endif

const Kernels& kernels();  // those for this processor

}  // namespace qubolearn
