// Simulated annealing of sparse QUBOs: 16 reads in the lanes of a vector, one bit of 64 reads in 8 bytes. Until flips are
// rare, an update sums the field again, one addition for each neighbor in the lanes that have it set.
#include "annealing.hpp"

namespace qubolearn::VARIANT {
namespace {

struct SparseProblem : Lists {
  using Couplings = Lists;
  static constexpr int SWEEPS_PER_CHECK = 8;  // between two looks at how many bits flip

  using Lists::Lists;
  bool has_singles() const { return true; }
  const Lists& singles() const { return *this; }

  // Return true if so few reads are annealed singly from the beginning (measured).
  bool is_single(Index reads) const { return reads == 1 && starts[n] > 6 * Index(n); }

  // Return the flips per sweep of 16 reads below which reads continue singly: none with 3 neighbors per bit (measured).
  Index flip_threshold() const { return (starts[n] - 3 * Index(n)) / 200; }

  template <int GROUPS>
  class Packed {
    const Lists& A;
    const Quantiles& quantile = shared<Quantiles>();
    Stream& random;
    const Group* const groups;
    const Index few;
    Scratch<Mask> bits;            // [n, GROUPS]
    Index flipped[GROUPS];  // in the last sweep that was measured

   public:
    Packed(const SparseProblem& A, Stream& random, const Group* groups, const std::int8_t* reads)
        : A(A), random(random), groups(groups), few(A.flip_threshold()), bits(std::size_t(A.n) * GROUPS, 0) {
      for (int g = 0; g < GROUPS; ++g)
        for (Index read = groups[g].first; read < groups[g].last; ++read)
          for (int i = 0; i < A.n; ++i)
            bits[i * GROUPS + g] |= static_cast<Mask>(reads[read * A.n + i] << (read % LANES));
    }

    void write(std::int8_t* reads) const {
      for (int g = 0; g < GROUPS; ++g)
        for (Index read = groups[g].first; read < groups[g].last; ++read)
          for (int i = 0; i < A.n; ++i) reads[read * A.n + i] = bits[i * GROUPS + g] >> (read % LANES) & 1;
    }

    bool is_cold(int g, Floats) const { return flipped[g] < few; }

    template <bool MEASURE>
    void sweep(Floats temperature) {
      if (MEASURE)
        for (int g = 0; g < GROUPS; ++g) flipped[g] = 0;
      for (int i = 0; i < A.n; ++i) {
        Floats fields[GROUPS];
        for (int g = 0; g < GROUPS; ++g) fields[g] = splat(A.linear[i]);
        for (auto k = A.starts[i]; k < A.starts[i + 1]; ++k) {
          const Floats coupling = splat(A.couplings[k]);
          const Mask* ones = &bits[std::size_t(A.neighbors[k]) * GROUPS];
          for (int g = 0; g < GROUPS; ++g) fields[g] = add_where(fields[g], ones[g], coupling);
        }
        if (i % 4 == 0) random.next();
        const float* thresholds = quantile.at(random.state, i % 4);
        Mask* own = &bits[std::size_t(i) * GROUPS];
        for (int g = 0; g < GROUPS; ++g) {
          const Mask flips = below(negate_where(fields[g], own[g]), load(thresholds + groups[g].place) * temperature);
          own[g] ^= flips;
          if (MEASURE) flipped[g] += __builtin_popcount(flips);
        }
      }
    }
  };
};

}  // namespace

void anneal_sparse(Control& control, SparseQubos A, In<double, 2> betas, Index steps, Index sweeps,
                   In<std::uint32_t, 1> seeds, bool given, Out<std::int8_t, 3> states) {
  share_reads(control, betas, steps, sweeps, seeds, given, states, [&](Index k) { return SparseProblem(A, k); });
}

}  // namespace qubolearn::VARIANT
