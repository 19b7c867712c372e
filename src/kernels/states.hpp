// How the kernels walk over all 2^n states of a QUBO. The bits of a code (Σ_i x_i 2^i) play four roles, from the lowest:
//     low    8 bits        their 256 states are lanes, side by side in vectors
//     inner  3 bits        eliminated in closed form for each lane
//     outer  `outer` bits  walked as a binary tree; a node's row of lane energies is its parent's plus one row
//     part   the others    one part of the work per value; a task takes one part, or several of them if there are many
// Trees do not drift as Gray codes do. 9 and 10 bits leave low bits unused; for fewer there is a table of all energies.
#pragma once
#include <bit>

#include "kernels.hpp"
#include "lanes.hpp"

namespace qubolearn::VARIANT {

constexpr int LOW = 8, ROW = 1 << LOW, INNER = 3, CLOSED = LOW + INNER;
constexpr int FEW = 8;                          // up to this many bits, a table of all energies is faster
constexpr int OUTER = 7;                        // at most, so that a part takes microseconds: kernels stop between parts
constexpr int MAX_BITS = 50;                    // beyond, tables of nodes would be too large
constexpr int TASK_BITS = 12;                   // at most 2^12 tasks per QUBO, each with its own results

// The tasks of a QUBO of n bits: task k has the parts k * parts ... (k + 1) * parts - 1.
struct Tasks {
  const int n, part_bits = maximum(0, n - CLOSED - OUTER), bits = minimum(part_bits, TASK_BITS);
  const Index count = Index(1) << bits, parts = Index(1) << (part_bits - bits);
};

// A walk combines couplings to energies by adding them, or powers of couplings to weights by multiplying them.
struct Adding {
  static constexpr int NOTHING = 0;
  static auto combine(auto a, auto b) { return a + b; }
};
struct Multiplying {
  static constexpr int NOTHING = 1;
  static auto combine(auto a, auto b) { return a * b; }
};

// Lane l is the coupling if bit i of first + l is set, else nothing.
template <class Ops, class Real, class V>
inline V where_set(int i, int first, V coupling) {
  constexpr int W = sizeof(V) / sizeof(Real);
  V chosen;
  for (int l = 0; l < W; ++l) chosen[l] = (first + l) >> i & 1 ? coupling[l] : Real(Ops::NOTHING);
  return chosen;
}

// out[s] = Σ_i s_i couplings[i] for the 2^bits states of the first bits; bits >= 4.
template <class Ops, class Real>
inline void combine_lanes(Real* out, const Real* couplings, int bits) {
  constexpr int W = NATIVE<Real>;
  using V = Vector<Real, W>;
#pragma GCC unroll 8
  for (int first = 0; first < 16; first += W) {
    const auto bit = [&](int i) { return where_set<Ops, Real>(i, first, splat<V>(couplings[i])); };
    store(out + first, Ops::combine(Ops::combine(bit(0), bit(1)), Ops::combine(bit(2), bit(3))));
  }
  for (int i = 4; i < bits; ++i) {
    const V own = splat<V>(couplings[i]);
    for (int s = 0; s < 1 << i; s += W) store(out + (1 << i) + s, Ops::combine(load<V>(out + s), own));
  }
}

// out[s] = energies of the 2^bits states of the first bits, with couplings C[i * stride + j], j <= i, and none from `bits`
// on; bits >= 4. `field` has room for half as many states.
template <class Ops, class Real>
inline void all_energies(Real* out, const Real* C, int stride, int bits, Real* field) {
  constexpr int W = NATIVE<Real>;
  using V = Vector<Real, W>;
#pragma GCC unroll 8
  for (int first = 0; first < 16; first += W) {
    V energy = splat<V>(Real(Ops::NOTHING));
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) {
      V own = splat<V>(C[i * stride + i]);
#pragma GCC unroll 4
      for (int j = 0; j < i; ++j) own = Ops::combine(own, where_set<Ops, Real>(j, first, splat<V>(C[i * stride + j])));
      energy = Ops::combine(energy, where_set<Ops, Real>(i, first, own));
    }
    store(out + first, energy);
  }
  for (int i = 4; i < bits; ++i) {
    combine_lanes<Ops>(field, C + i * stride, i);
    const V own = splat<V>(C[i * stride + i]);
    for (int s = 0; s < 1 << i; s += W)
      store(out + (1 << i) + s, Ops::combine(load<V>(out + s), Ops::combine(load<V>(field + s), own)));
  }
}

// One QUBO of more than FEW bits at a time: its couplings by role, and the energies of the nodes of the tree of outer bits.
template <class Real, class Ops = Adding>
struct Walk {
  const int n;
  const int outer = minimum(maximum(0, n - CLOSED), OUTER), nodes = 1 << outer;
  const int size = maximum(n, CLOSED);                          // bits, the unused low ones included
  const int used = minimum(LOW, n - INNER), lanes = 1 << used;  // low bits that are used
  Scratch<Real> C{std::size_t(size) * size};            // symmetric, A_ij + A_ji; A_ii on the diagonal
  Scratch<Real> rows{std::size_t(size - LOW) * ROW};  // rows[j - LOW][s] = Σ_{i low} s_i C_ij
  Scratch<Real> alone{ROW};                           // energy of each lane with all other bits 0
  Scratch<Real> base{ROW};                            // the same with the part's bits set
  Scratch<Real> field{std::size_t(size)};               // what setting a bit adds, with the part's bits set
  // of every node, the fields of the inner bits a, b, c and the energy without lanes; the last row is working memory
  Scratch<Real> fields_a{std::size_t(nodes)}, fields_b{std::size_t(nodes)}, fields_c{std::size_t(nodes)};
  Scratch<Real> energies{std::size_t(nodes)}, work{std::size_t(nodes)};
  explicit Walk(int n) : n(n) {}
  Real& c(int i, int j) { return C[std::size_t(i) * size + j]; }
  Real* row(int j) { return rows.data() + std::size_t(j - LOW) * ROW; }
  int position(int i) const { return i < used ? i : i + LOW - used; }

  // Take over the couplings of A [n, n] times scale.
  template <class T>
  void load(const T* A, Real scale) {
    if (used < LOW)
      for (Real& each : C) each = Ops::NOTHING;
    for (int i = 0; i < n; ++i) {
      const int p = position(i);
      for (int j = 0; j < i; ++j) {
        const int q = position(j);
        c(p, q) = c(q, p) = scale * Real(A[i * n + j]) + scale * Real(A[j * n + i]);
      }
      c(p, p) = scale * Real(A[i * n + i]);
    }
  }

  // Fill `rows` and `alone`. With a known number of bits the loops are faster.
  void load_lanes() { used == LOW ? fill_lanes<LOW>() : used == 7 ? fill_lanes<7>() : fill_lanes<6>(); }
  template <int USED>
  void fill_lanes() {
    for (int j = LOW; j < size; ++j) combine_lanes<Ops>(row(j), &c(j, 0), USED);
    all_energies<Ops>(alone.data(), C.data(), size, USED, base.data());
  }

  // Set the part's bits.
  void enter(Index part) {
    for (int s = 0; s < lanes; ++s) base[s] = alone[s];
    Real energy = Ops::NOTHING;
    for (int i = LOW; i < size; ++i) field[i] = c(i, i);
    for (int j = CLOSED + outer; j < size; ++j)
      if (part >> (j - CLOSED - outer) & 1) {
        energy = Ops::combine(energy, field[j]);
        for (int i = LOW; i < size; ++i) field[i] = Ops::combine(field[i], c(i, j));
        const Real* added = row(j);
        for (int s = 0; s < lanes; ++s) base[s] = Ops::combine(base[s], added[s]);
      }
    fill_nodes(energy);
  }

  // The energies of all nodes, from `field` and the energy of the root, by doubling.
  void fill_nodes(Real energy) {
    fields_a[0] = field[LOW], fields_b[0] = field[LOW + 1], fields_c[0] = field[LOW + 2], energies[0] = energy;
    for (int i = 0; i < outer; ++i) {
      const int j = CLOSED + i, half = 1 << i;
      work[0] = field[j];
      for (int k = 0; k < i; ++k) {
        const Real coupling = c(j, CLOSED + k);
        for (int g = 0; g < 1 << k; ++g) work[(1 << k) + g] = Ops::combine(work[g], coupling);
      }
      const Real a = c(j, LOW), b = c(j, LOW + 1), d = c(j, LOW + 2);
      for (int g = 0; g < half; ++g) {
        fields_a[half + g] = Ops::combine(fields_a[g], a);
        fields_b[half + g] = Ops::combine(fields_b[g], b);
        fields_c[half + g] = Ops::combine(fields_c[g], d);
        energies[half + g] = Ops::combine(energies[g], work[g]);
      }
    }
  }
};

// E[s] of all 2^n states of A, n <= FEW, in double precision; E has room for at least 16 states.
template <class T>
inline void few_energies(const T* A, int n, double* E) {
  double C[FEW * FEW] = {}, field[1 << (FEW - 1)];
  for (int i = 0; i < n; ++i) {
    for (int j = 0; j < i; ++j) C[i * FEW + j] = double(A[i * n + j]) + double(A[j * n + i]);
    C[i * FEW + i] = A[i * n + i];
  }
  all_energies<Adding>(E, C, FEW, maximum(n, 4), field);
}

}  // namespace qubolearn::VARIANT
