// Simulated annealing of sparse QUBOs: 16 reads in the lanes of a vector, one bit of 64 reads in 8 bytes.
//
// The field of a bit is summed again at every update: per neighbor one addition, in the lanes of the reads where that
// neighbor is 1. When flips have become rare, reads continue one at a time with fields kept up to date.
#include "annealing.hpp"

namespace qubolearn::VARIANT {
namespace {

constexpr int SWEEPS_PER_CHECK = 8;  // between two looks at how many bits flip

// Return the flips per sweep of 16 reads below which reads continue singly: none with 3 neighbors per bit (measured).
std::int64_t few_flips(const Lists& A) { return (A.starts[A.n] - 3 * std::int64_t(A.n)) / 200; }

// Return true if one read is annealed singly from the beginning (measured).
bool is_single(const Lists& A, std::int64_t reads) { return reads == 1 && A.starts[A.n] > 6 * std::int64_t(A.n); }

// GROUPS times 16 reads of one QUBO.
template <int GROUPS>
class Packed {
  const Lists& A;
  const Quantiles& quantile = quantiles();
  Stream& random;
  const int place;     // of the thresholds of the first group
  Scratch<Mask> bits;  // [n, GROUPS]

 public:
  std::int64_t flips[GROUPS];  // in the last sweep that was measured

  Packed(const Lists& A, Stream& random, int place, const std::int8_t* reads, std::int64_t count)
      : A(A), random(random), place(place), bits(std::size_t(A.n) * GROUPS) {
    Scratch<Mask> column(A.n);
    for (int g = 0; g < GROUPS; ++g) {
      for (int i = 0; i < A.n; ++i) column[i] = 0;
      for (std::int64_t read = g * LANES; read < count && read < (g + 1) * LANES; ++read)
        for (int i = 0; i < A.n; ++i) column[i] |= static_cast<Mask>(reads[read * A.n + i] << (read % LANES));
      for (int i = 0; i < A.n; ++i) bits[i * GROUPS + g] = column[i];
    }
  }

  void write(std::int8_t* reads, std::int64_t count) const {
    Scratch<Mask> column(A.n);
    for (int g = 0; g < GROUPS; ++g) {
      for (int i = 0; i < A.n; ++i) column[i] = bits[i * GROUPS + g];
      for (std::int64_t read = g * LANES; read < count && read < (g + 1) * LANES; ++read)
        for (int i = 0; i < A.n; ++i) reads[read * A.n + i] = column[i] >> (read % LANES) & 1;
    }
  }

  // Update all bits in turn.
  template <bool MEASURE>
  void sweep(Floats temperature) {
    if (MEASURE)
      for (int g = 0; g < GROUPS; ++g) flips[g] = 0;
    for (int i = 0; i < A.n; ++i) {
      Floats fields[GROUPS];
      for (int g = 0; g < GROUPS; ++g) fields[g] = splat(A.linear[i]);
      for (auto k = A.starts[i]; k < A.starts[i + 1]; ++k) {
        const Floats coupling = splat(A.couplings[k]);
        const Mask* ones = &bits[std::size_t(A.neighbors[k]) * GROUPS];
        for (int g = 0; g < GROUPS; ++g) fields[g] = add_where(fields[g], ones[g], coupling);
      }
      if (i % 4 == 0) random.next();
      const float* thresholds = quantile.at(random.state, i % 4) + place;
      Mask* own = &bits[std::size_t(i) * GROUPS];
      for (int g = 0; g < GROUPS; ++g) {
        const Mask flipped = below(negate_where(fields[g], own[g]), load(thresholds + g * LANES) * temperature);
        own[g] ^= flipped;
        if (MEASURE) flips[g] += __builtin_popcount(flipped);
      }
    }
  }
};

class SparseAnnealer {
  const Lists lists;

 public:
  SparseAnnealer(const SparseQubos& A, std::int64_t k) : lists(A, k) {}

  // Anneal the reads first ... last - 1; `first` is a multiple of 16.
  void anneal(Schedule schedule, std::uint64_t seed, std::int64_t first, std::int64_t last, std::int8_t* reads,
              Control& control) const {
    while (first < last) {
      const Stream random = group_stream(seed, first);
      const std::int64_t block = last - first > 2 * LANES ? 4 * LANES : LANES;
      const std::int64_t end = last - first < block ? last : first + block;
      if (is_single(lists, end - first))
        SingleReads<Lists>::anneal(lists, schedule, seed, first, end, reads, control);
      else if (block > LANES)
        anneal_packed<4>(schedule, 0, seed, random, first, end, reads, control);
      else
        anneal_packed<1>(schedule, 0, seed, random, first, end, reads, control);
      first = end;
    }
  }

 private:
  // The outcome of each 16 reads depends on (seed, their number) alone, not on the groups that they are swept with.
  template <int GROUPS>
  void anneal_packed(Schedule schedule, std::int64_t sweep, std::uint64_t seed, Stream random, std::int64_t first,
                     std::int64_t end, std::int8_t* reads, Control& control) const {
    const std::int64_t few = few_flips(lists);
    bool cold = false;
    Packed<GROUPS> state(lists, random, group_place(first), reads + first * lists.n, end - first);
    for (; schedule.sweeps > 0 && !cold; ++sweep) {
      const Floats temperature = schedule.temperature();
      schedule.advance();
      if (sweep % SWEEPS_PER_CHECK) {
        state.template sweep<false>(temperature);
        continue;
      }
      if (control.stopped()) break;
      state.template sweep<true>(temperature);
      for (int g = 0; g < GROUPS; ++g) cold = cold || state.flips[g] < few;
    }
    state.write(reads + first * lists.n, end - first);
    if (!cold || schedule.sweeps == 0) return;
    for (int g = 0; first < end; ++g, first += LANES) {
      const std::int64_t last = end - first < LANES ? end : first + LANES;
      if (GROUPS == 1 || state.flips[g] < few)
        SingleReads<Lists>::anneal(lists, schedule, seed, first, last, reads, control);
      else
        anneal_packed<1>(schedule, sweep, seed, random, first, last, reads, control);
    }
  }
};

}  // namespace

void anneal_sparse(const SparseQubos& A, const Annealing& how, Control& control) {
  share_reads(how, control, [&](std::int64_t k) { return SparseAnnealer(A, k); });
}

}  // namespace qubolearn::VARIANT
