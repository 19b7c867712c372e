// What both annealers share: the schedule, single reads with fields kept up to date, and the change to these from groups.
#pragma once
#include "kernels.hpp"
#include "random.hpp"

namespace qubolearn::VARIANT {

constexpr int SWEEPS_PER_STOP = 8;  // sweeps between two looks at the stop flag,
constexpr int MANY_BITS = 2048;     // unless there are more bits than this

// What is left of an annealing run: β of the next sweep, its growth per sweep (at least 1) and its bound.
struct Schedule {
  double beta, growth, last;
  Index sweeps;

  void advance() {
    beta = beta * growth < last ? beta * growth : last;
    --sweeps;
  }
  // A flip that costs ΔE is accepted if βΔE < -log(u); so thresholds of -log(u) are divided by β once.
  Floats temperature() const { return splat(static_cast<float>(1 / beta)); }
};

// Sixteen reads, or the last ones, and the place of their thresholds.
struct Group {
  Index first, last;
  int place;
};

// Fill reads [count, n], numbered from `first` on, with random bits.
inline void randomize(std::int8_t* reads, Index count, int n, std::uint64_t seed, std::uint64_t first) {
  for (Index read = 0; read < count; ++read) {
    Stream random(seed, ~(first + read));
    for (int i = 0; i < n; i += 64) {
      const std::uint64_t word = random.next();
      std::int8_t bits[64];
      for (int j = 0; j < 64; ++j) bits[j] = word >> j & 1;
      std::memcpy(reads + read * n + i, bits, n - i < 64 ? n - i : 64);
    }
  }
}

// The couplings of a sparse QUBO: bit i has those with neighbors[k], k = starts[i] ... starts[i + 1] - 1.
struct Lists {
  static constexpr int TOGETHER = 1;
  int n, width;
  const Index* starts;
  const std::uint32_t* neighbors;
  Scratch<float> linear, couplings;
  Scratch<std::uint8_t> near;  // whether a bit has a neighbor after it within the same 16 bits

  Lists(const SparseQubos& A, Index k)
      : n(static_cast<int>(A.n)), width((n + LANES - 1) / LANES * LANES), starts(A.starts), neighbors(A.neighbors),
        linear(n), couplings(starts[n]), near(n, 0) {
    for (int i = 0; i < n; ++i) {
      linear[i] = static_cast<float>(A.linear[k * n + i]);
      for (auto slot = starts[i]; slot < starts[i + 1]; ++slot) {
        const int j = static_cast<int>(neighbors[slot]);
        couplings[slot] = static_cast<float>(A.quadratic[k * A.edges + A.places[slot]]);
        if (j > i && j / LANES == i / LANES) near[i] = 1;
      }
    }
  }

  INLINE void add_to(float* fields, int i, float sign) const {
    for (auto k = starts[i]; k < starts[i + 1]; ++k) fields[neighbors[k]] += sign * couplings[k];
  }

  INLINE Mask flip(unsigned flips, Floats limits, Floats, Floats sign, float* fields, const float* signs,
                   int block) const {
    unsigned flipped = 0;
    while (flips) {
      const int lane = __builtin_ctz(flips), i = block + lane;
      flipped |= 1u << lane;
      flips &= flips - 1;
      add_to(fields, i, signs[i]);
      if (near[i]) flips = below(load(fields + block) * sign, limits) & (0xFFFEu << lane);
    }
    return static_cast<Mask>(flipped);
  }
};

// Anneal a few reads, each by itself: compare what 16 neighboring bits would cost to flip with 16 thresholds at once,
// flip the first that may flip, update the fields and compare the bits after it again. Fast if flips are rare.
template <class Couplings>
class SingleReads {
  static constexpr int REFRESH = 64;  // sweeps after which fields are summed again, since float32 rounds
  const Couplings& A;
  const Maxima& thresholds = shared<Maxima>();
  const int count;
  Scratch<float> fields, signs;  // signs are 1 - 2x
  Scratch<Words> random;
  Stream streams[Couplings::TOGETHER];
  Index changed[Couplings::TOGETHER];  // sweeps left when a flip was last possible
 public:
  // Anneal the reads first ... last - 1 in place; read k draws from a stream of (seed, k) alone.
  static void anneal(const Couplings& A, Schedule schedule, std::uint64_t seed, Index first, Index last,
                     std::int8_t* reads, Control& control) {
    for (Index begin = first; begin < last; begin += Couplings::TOGETHER) {
      const auto some = last - begin < Couplings::TOGETHER ? last - begin : Couplings::TOGETHER;
      SingleReads(A, static_cast<int>(some), seed, begin).run(schedule, reads + begin * A.n, control);
    }
  }
 private:
  SingleReads(const Couplings& A, int count, std::uint64_t seed, std::uint64_t first)
      : A(A), count(count), fields(std::size_t(count) * A.width), signs(fields.size(), 1.0f), random(count) {
    for (int read = 0; read < count; ++read) {
      streams[read] = Stream(seed, first + read);
      random[read] = lane_seeds(streams[read]);
    }
  }

  void run(Schedule schedule, std::int8_t* reads, Control& control) {
    for (int read = 0; read < count; ++read) {
      for (int i = 0; i < A.n; ++i) signs[read * A.width + i] = 1 - 2 * reads[Index(read) * A.n + i];
      changed[read] = schedule.sweeps;
    }
    bool alive = true;
    for (Index sweep = 0; alive && schedule.sweeps > 0; ++sweep, schedule.advance()) {
      if ((sweep % SWEEPS_PER_STOP == 0 || A.n > MANY_BITS) && control.stopped()) break;
      if (sweep % REFRESH == 0)
        for (int read = 0; read < count; ++read) sum_fields(read);
      alive = false;
      const Floats temperature = schedule.temperature();
      for (int block = 0; block < A.width; block += LANES)
        for (int read = 0; read < count; ++read) {
          if (changed[read] > schedule.sweeps + 1) continue;  // no flip for a whole sweep: β only grows
          if (update(read, block, temperature)) changed[read] = schedule.sweeps, alive = true;
        }
    }
    for (int read = 0; read < count; ++read)
      for (int i = 0; i < A.n; ++i) reads[Index(read) * A.n + i] = signs[read * A.width + i] < 0;
  }

  // Update 16 bits in turn; return false if none can flip.
  INLINE bool update(int read, int block, Floats temperature) {
    float *field = &fields[std::size_t(read) * A.width], *sign = &signs[std::size_t(read) * A.width];
    const Floats f = load(field + block), s = load(sign + block), cost = f * s;
    if (!below(cost, Maxima::LARGEST * temperature)) return false;
    const std::uint64_t number = streams[read].next();
    if (!below(cost, thresholds.maximum(number) * temperature)) return true;
    const Floats limits = thresholds.all(number, random[read]) * temperature;
    const Mask flips = below(cost, limits);
    if (flips) store(sign + block, negate_where(s, A.flip(flips, limits, f, s, field, sign, block)));
    return true;
  }

  void sum_fields(int read) {
    float *field = &fields[std::size_t(read) * A.width], *sign = &signs[std::size_t(read) * A.width];
    for (int i = 0; i < A.width; ++i) field[i] = i < A.n ? A.linear[i] : __builtin_inff();  // nothing flips beyond n
    for (int i = 0; i < A.n; ++i)
      if (sign[i] < 0) A.add_to(field, i, 1.0f);
  }
};

// Anneals reads [all, n] of one QUBO: groups of 16 in the lanes of vectors while many bits flip, then one read at a time.
// Problem::Packed<GROUPS> sweeps over some groups at once, each of which depends on (seed, its number) alone.
template <class Problem>
struct Annealer {
  static constexpr int MOST = 4;  // groups that are swept at once
  const Problem& A;
  const std::uint64_t seed;
  std::int8_t* const reads;
  Control& control;

  // Anneal the reads first ... last - 1; `first` is a multiple of 16, `last` too unless it is the number of reads.
  void anneal(Schedule schedule, Index first, Index last) const {
    const Index rest = (last - first) % LANES;
    const Index packed = A.is_single(LANES) ? first : A.is_single(rest) ? last - rest : last;
    while (first < packed) {
      const Stream random(seed, (std::uint64_t(1) << 40) + first / (SHARING * LANES));  // of all groups that share it
      Group groups[MOST];
      int count = 0;
      for (; count < MOST && first < packed; first += LANES)
        groups[count++] = {first, minimum(last, first + LANES), static_cast<int>(first % (SHARING * LANES))};
      anneal_groups(schedule, 0, random, groups, count);
    }
    anneal_singly(schedule, first, last);
  }

  void anneal_groups(Schedule schedule, Index sweep, Stream random, const Group* groups, int count) const {
    if (count == 4) anneal_packed<4>(schedule, sweep, random, groups);
    if (count == 3) anneal_packed<3>(schedule, sweep, random, groups);
    if (count == 2) anneal_packed<2>(schedule, sweep, random, groups);
    if (count == 1) anneal_packed<1>(schedule, sweep, random, groups);
  }

  template <int GROUPS>
  void anneal_packed(Schedule schedule, Index sweep, Stream random, const Group* groups) const {
    typename Problem::template Packed<GROUPS> state(A, random, groups, reads);
    bool cold[GROUPS] = {}, any_cold = false;
    for (; schedule.sweeps > 0 && !any_cold; ++sweep) {
      const Floats temperature = schedule.temperature();
      schedule.advance();
      if (sweep % Problem::SWEEPS_PER_CHECK) {
        state.template sweep<false>(temperature);
        continue;
      }
      if (control.stopped()) break;
      state.template sweep<true>(temperature);
      for (int g = 0; g < GROUPS; ++g) any_cold |= cold[g] = state.is_cold(g, temperature);
    }
    state.write(reads);
    Group left[GROUPS];
    int count = 0;
    for (int g = 0; g < GROUPS && any_cold; ++g) {
      if (cold[g]) anneal_singly(schedule, groups[g].first, groups[g].last);
      else left[count++] = groups[g];
    }
    if (count && schedule.sweeps > 0) anneal_groups(schedule, sweep, random, left, count);
  }

  void anneal_singly(Schedule schedule, Index first, Index end) const {
    if (schedule.sweeps > 0 && A.has_singles())
      SingleReads<typename Problem::Couplings>::anneal(A.singles(), schedule, seed, first, end, reads, control);
  }
};

// Anneal all reads: threads take whole QUBOs if there are many, else some reads of one. `make(k)` returns QUBO k.
template <class Make>
void share_reads(Control& control, In<double, 2> betas, Index steps, Index sweeps,
                 In<std::uint32_t, 1> seeds, bool given, Out<std::int8_t, 3> states, Make make) {
  const Index batch = states.shape[0], count = states.shape[1], n = states.shape[2];
  require(steps >= 1 && sweeps >= 0, "expected steps >= 1 and sweeps >= 0");
  for (Index k = 0; k < batch; ++k)
    require(betas.at(k)[0] > 0 && betas.at(k)[0] <= betas.at(k)[1] && betas.at(k)[1] < __builtin_inf(),
            "expected 0 < first beta <= last beta");
  if (given) require_bits(states);
  const auto anneal = [&]<class Problem>(const Problem& A, Index k, Index first, Index last) {
    if (!given) randomize(states.at(k) + first * n, last - first, static_cast<int>(n), seeds.data[k], first);
    const double hot = betas.at(k)[0], cold = betas.at(k)[1];
    const double growth = portable_exp((portable_log(cold) - portable_log(hot)) / steps);
    Annealer<Problem>{A, seeds.data[k], states.at(k), control}.anneal({hot, growth, cold, sweeps}, first, last);
    control.advance(last - first);
  };
  const int threads = control.threads();
  control.expect(batch * count);
  if (threads == 1 || batch >= 2 * threads)
    return control.share_each(batch, [&](Index k) { anneal(make(k), k, 0, count); });
  const Index unit = count >= 4 * LANES * threads ? 4 * LANES : LANES;
  for (Index k = 0; k < batch && !control.stopped(); ++k) {
    const auto A = make(k);
    control.share((count + unit - 1) / unit, 1, [&](Index begin, Index end) {
      anneal(A, k, begin * unit, minimum(end * unit, count));
    });
  }
}

}  // namespace qubolearn::VARIANT
