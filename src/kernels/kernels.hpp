// The table of kernels that are compiled once per processor generation, in namespaces v2, v3, v4 (or portable).
// They must not emit inline functions of the standard library, of which the linker keeps one copy, for any processor:
// use Scratch instead of std::vector; tests/kernels/native/test_build.py checks it.
#pragma once
#include "pool.hpp"
#include "portable.hpp"

namespace qubolearn {

// An array in C order.
template <class T, int DIMENSIONS>
struct View {
  T* data;
  Index shape[DIMENSIONS];

  // Return where entry k of the first axis begins.
  INLINE T* at(Index k) const {
    for (int axis = 1; axis < DIMENSIONS; ++axis) k *= shape[axis];
    return data + k;
  }
};
template <class T, int DIMENSIONS>
using In = View<const T, DIMENSIONS>;
template <class T, int DIMENSIONS>
using Out = View<T, DIMENSIONS>;

[[noreturn]] void refuse(const char* message);  // raises ValueError
INLINE void require(bool condition, const char* message) {
  if (!condition) refuse(message);
}
template <class T>
INLINE void require_bits(View<T, 3> bits) {
  for (const auto* bit = bits.data; bit < bits.at(bits.shape[0]); ++bit)
    require(*bit == 0 || *bit == 1, "expected bits 0 and 1");
}

// Return xᵀAx, summed row by row in every kernel; bit(i) is bit i of x, and `ones` has room for n positions and one more.
template <class Real, class Bit>
INLINE double energy_of(const Real* A, Index n, Index* ones, Bit bit) {
  Index size = 0;
  for (Index i = 0; i < n; ++i) {
    ones[size] = i;
    size += bit(i);
  }
  double total = 0;
  for (Index a = 0; a < size; ++a) {
    double row = 0;
    for (Index b = 0; b < size; ++b) row += double(A[ones[a] * n + ones[b]]);
    total += row;
  }
  return total;
}

// Sparse QUBOs on one graph: linear [batch, n], quadratic [batch, edges], neighbors and places of edges from starts[i] on.
struct SparseQubos {
  Index batch, n, edges;
  const double *linear, *quadratic;
  const Index *starts, *places;
  const std::uint32_t* neighbors;
};

// Units of bits: the bits of unit u are bits[first[u]] ... bits[first[u + 1] - 1]. Of a group exactly one is 1.
struct Units {
  Index count, n;
  const Index *first, *bits;
  const bool* group;
};

// QUBOs whose bits are in units; clamps [batch, n] hold 0, 1, and -1 for free bits.
struct Tempering {
  SparseQubos A;
  Units units;
  In<std::int8_t, 2> clamps;
  In<std::uint32_t, 1> seeds;
};

// Every kernel with its result and its arguments, after the Control of the call; module.cpp describes them.
#define QUBOLEARN_KERNELS(KERNEL) \
  KERNEL(double, search_single, In<float, 3> A, Out<float, 3> states, Out<double, 2> energies, Index held) \
  KERNEL(double, search_double, In<double, 3> A, Out<double, 3> states, Out<double, 2> energies, Index held) \
  KERNEL(void, partition, In<double, 3> A, double beta, Out<double, 1> values, Out<double, 3> marginals, \
         Index held) \
  KERNEL(void, evolve, Out<float, 2> re, Out<float, 2> im, In<float, 2> energies, In<float, 1> tangents, \
         In<float, 1> norms, In<float, 1> turns) \
  KERNEL(void, anneal_dense, In<double, 3> S, In<double, 2> betas, Index steps, Index sweeps, \
         In<std::uint32_t, 1> seeds, bool given, Out<std::int8_t, 3> states) \
  KERNEL(void, anneal_sparse, SparseQubos A, In<double, 2> betas, Index steps, Index sweeps, \
         In<std::uint32_t, 1> seeds, bool given, Out<std::int8_t, 3> states) \
  KERNEL(void, refine_dense, In<double, 3> S, In<std::int8_t, 3> reads, Out<std::int8_t, 3> states, \
         Out<double, 1> success, bool exchanges) \
  KERNEL(void, refine_sparse, SparseQubos A, Units units, In<std::int8_t, 2> clamps, \
         In<std::int8_t, 3> reads, Out<std::int8_t, 3> states, Out<double, 1> success, bool exchanges) \
  KERNEL(void, temper, Tempering problem, Out<double, 2> betas, Index sweeps, In<double, 1> targets, \
         Out<std::int8_t, 3> states, Out<double, 2> rates, Out<Index, 1> swept) \
  KERNEL(void, temper_sample, Tempering problem, Out<double, 2> betas, In<double, 1> colds, Index burn, \
         Index thin, Out<std::int8_t, 3> states) \
  KERNEL(void, move_chains, Tempering problem, In<double, 2> betas, Index sweeps, Out<std::int8_t, 3> states) \
  KERNEL(void, search_population, SparseQubos A, In<Index, 1> widths, Index sweeps, \
         In<double, 1> targets, In<std::uint32_t, 1> seeds, Out<Index, 1> first, Out<Index, 2> swept, \
         Out<std::int8_t, 4> states)

struct Kernels {
  const char* name;
#define POINTER(result, name, ...) result (*name)(Control&, __VA_ARGS__);
  QUBOLEARN_KERNELS(POINTER)
};

#define FUNCTION(result, name, ...) result name(Control&, __VA_ARGS__);
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
