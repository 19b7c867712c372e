// Simulated annealing of sparse QUBOs: 16 reads in the lanes of a vector, one bit of 64 reads in 8 bytes.
//
// The field of a bit is summed again at every update: per neighbor one addition, in the lanes of the reads where that
// neighbor is 1. When flips have become rare, reads continue one at a time with fields kept up to date.
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
  bool is_single(std::int64_t reads) const { return reads == 1 && starts[n] > 6 * std::int64_t(n); }

  // Return the flips per sweep of 16 reads below which reads continue singly: none with 3 neighbors per bit (measured).
  std::int64_t flip_threshold() const { return (starts[n] - 3 * std::int64_t(n)) / 200; }

  template <int GROUPS>
  class Packed {
    const Lists& A;
    const Quantiles& quantile = shared<Quantiles>();
    Stream& random;
    const Group* const groups;
    const std::int64_t few;
    Scratch<Mask> bits;            // [n, GROUPS]
    std::int64_t flipped[GROUPS];  // in the last sweep that was measured

   public:
    Packed(const SparseProblem& A, Stream& random, const Group* groups, const std::int8_t* reads)
        : A(A), random(random), groups(groups), few(A.flip_threshold()), bits(std::size_t(A.n) * GROUPS, 0) {
      for (int g = 0; g < GROUPS; ++g)
        for (std::int64_t read = groups[g].first; read < groups[g].last; ++read)
          for (int i = 0; i < A.n; ++i)
            bits[i * GROUPS + g] |= static_cast<Mask>(reads[read * A.n + i] << (read % LANES));
    }

    void write(std::int8_t* reads) const {
      for (int g = 0; g < GROUPS; ++g)
        for (std::int64_t read = groups[g].first; read < groups[g].last; ++read)
          for (int i = 0; i < A.n; ++i) reads[read * A.n + i] = bits[i * GROUPS + g] >> (read % LANES) & 1;
    }

    bool is_cold(int g, Floats) const { return flipped[g] < few; }

    // Update all bits in turn.
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

void anneal_sparse(const SparseQubos& A, const Annealing& how, Control& control) {
  share_reads(how, control, [&](std::int64_t k) { return SparseProblem(A, k); });
}

}  // namespace qubolearn::VARIANT
