// What both annealers share: the schedule, and annealing of one read at a time with fields kept up to date.
#pragma once
#include "kernels.hpp"
#include "random.hpp"

namespace qubolearn::VARIANT {

constexpr int SWEEPS_PER_STOP = 8;  // sweeps between two looks at the stop flag

// What is left of an annealing run: β of the next sweep, its growth per sweep (at least 1) and its bound.
struct Schedule {
  double beta, growth, last;
  std::int64_t sweeps;

  Schedule(double first, double last, std::int64_t steps, std::int64_t sweeps)
      : beta(first), growth(portable_exp((portable_log(last) - portable_log(first)) / steps)), last(last), sweeps(sweeps) {}

  void advance() {
    beta = beta * growth < last ? beta * growth : last;
    --sweeps;
  }
  // A flip that costs ΔE is accepted if βΔE < -log(u); so thresholds of -log(u) are divided by β once.
  Floats temperature() const { return splat(static_cast<float>(1 / beta)); }
};

// Fill reads [count, n], numbered from `first` on, with random bits.
inline void randomize(std::int8_t* reads, std::int64_t count, int n, std::uint64_t seed, std::uint64_t first) {
  for (std::int64_t read = 0; read < count; ++read) {
    Stream random(seed, ~(first + read));
    for (int i = 0; i < n; i += 64) {
      const std::uint64_t word = random.next();
      std::int8_t bits[64];
      for (int j = 0; j < 64; ++j) bits[j] = word >> j & 1;
      std::memcpy(reads + read * n + i, bits, n - i < 64 ? n - i : 64);
    }
  }
}

// The couplings of a dense QUBO, row by row: 0 on the diagonal and beyond n.
struct Rows {
  static constexpr int TOGETHER = 8;  // reads that take turns, so that a row brought into the cache serves all
  int n, width;
  Scratch<float> linear, rows;

  Rows(const double* S, int n) : n(n), width((n + LANES - 1) / LANES * LANES), linear(n), rows(std::size_t(n) * width) {
    for (int i = 0; i < n; ++i) {
      float* to = &rows[std::size_t(i) * width];
      for (int j = 0; j < width; ++j) to[j] = j < n && j != i ? static_cast<float>(S[std::size_t(i) * n + j]) : 0.0f;
      linear[i] = static_cast<float>(S[std::size_t(i) * n + i]);
    }
  }

  const float* row(int i) const { return &rows[std::size_t(i) * width]; }

  INLINE void add_to(float* fields, int i, float sign) const {
    const float* from = row(i);
    if (sign > 0)
      for (int j = 0; j < width; j += LANES) store(fields + j, load(fields + j) + load(from + j));
    else
      for (int j = 0; j < width; j += LANES) store(fields + j, load(fields + j) - load(from + j));
  }

  // Flip the bits of one vector that pass their thresholds, in turn, and update all fields; return those flipped.
  INLINE Mask flip(unsigned flips, Floats limits, Floats field, Floats sign, float* fields, const float* signs,
                   int block) const {
    unsigned flipped = 0;
    while (flips) {
      const int lane = __builtin_ctz(flips);
      flipped |= 1u << lane;
      // Only the 16 couplings within the vector matter at once; the rest follows for all flips together.
      field += signs[block + lane] * load(row(block + lane) + block);
      flips = below(field * sign, limits) & (0xFFFEu << lane);
    }
    for (unsigned left = flipped; left;) {
      const int i = block + __builtin_ctz(left);
      left &= left - 1;
      if (!left) {
        add_to(fields, i, signs[i]);
        break;
      }
      const int k = block + __builtin_ctz(left);
      left &= left - 1;
      const float *first = row(i), *second = row(k), a = signs[i], b = signs[k];
      for (int j = 0; j < width; j += LANES)
        store(fields + j, (load(fields + j) + a * load(first + j)) + b * load(second + j));
    }
    return static_cast<Mask>(flipped);
  }
};

// The couplings of a sparse QUBO: bit i has those with neighbors[k], k = starts[i] ... starts[i + 1] - 1.
struct Lists {
  static constexpr int TOGETHER = 1;
  int n, width;
  const std::int64_t* starts;
  const std::uint32_t* neighbors;
  Scratch<float> linear, couplings;
  Scratch<std::uint8_t> near;  // whether a bit has a neighbor after it within the same 16 bits

  Lists(const SparseQubos& A, std::int64_t k)
      : n(static_cast<int>(A.n)),
        width((n + LANES - 1) / LANES * LANES),
        starts(A.starts),
        neighbors(A.neighbors),
        linear(n),
        couplings(starts[n]),
        near(n, 0) {
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
// flip the first that may flip, update the fields and compare the bits after it again. Cold reads cost a few
// instructions per 16 bits, a flip as much as the bit has couplings; so this serves few reads, and reads that rarely
// flip.
template <class Couplings>
class SingleReads {
  static constexpr int REFRESH = 64;  // sweeps after which fields are summed again, since float32 rounds

  const Couplings& A;
  const Maxima& thresholds = maxima();
  const int count;
  Scratch<float> fields, signs;  // signs are 1 - 2x
  Scratch<Words> random;
  Stream streams[Couplings::TOGETHER];
  std::int64_t changed[Couplings::TOGETHER];  // sweeps left when a flip was last possible

 public:
  // Anneal the reads first ... last - 1 in place; read k draws from a stream of (seed, k) alone.
  static void anneal(const Couplings& A, Schedule schedule, std::uint64_t seed, std::int64_t first, std::int64_t last,
                     std::int8_t* reads, Control& control) {
    for (std::int64_t begin = first; begin < last; begin += Couplings::TOGETHER) {
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
      for (int i = 0; i < A.n; ++i) signs[read * A.width + i] = 1 - 2 * reads[std::int64_t(read) * A.n + i];
      changed[read] = schedule.sweeps;
    }
    bool alive = true;
    for (std::int64_t sweep = 0; alive && schedule.sweeps > 0; ++sweep, schedule.advance()) {
      if (sweep % SWEEPS_PER_STOP == 0 && control.stopped()) break;
      if (sweep % REFRESH == 0)
        for (int read = 0; read < count; ++read) sum_fields(read);
      alive = false;
      const Floats temperature = schedule.temperature();
      for (int block = 0; block < A.width; block += LANES)
        for (int read = 0; read < count; ++read) {
          // If no flip was possible in a whole sweep, none ever is again: β only grows.
          if (changed[read] > schedule.sweeps + 1) continue;
          if (update(read, block, temperature)) changed[read] = schedule.sweeps, alive = true;
        }
    }
    for (int read = 0; read < count; ++read)
      for (int i = 0; i < A.n; ++i) reads[std::int64_t(read) * A.n + i] = signs[read * A.width + i] < 0;
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

// Anneal all reads: threads take whole QUBOs if there are many, else some reads of one. `make(k)` returns the annealer
// of QUBO k.
template <class Make>
void share_reads(const Annealing& how, Control& control, Make make) {
  const auto anneal = [&](const auto& annealer, std::int64_t k, std::int64_t first, std::int64_t last) {
    const Schedule schedule(how.betas[2 * k], how.betas[2 * k + 1], how.steps, how.sweeps);
    std::int8_t* reads = how.states + k * how.reads * how.n;
    const int n = static_cast<int>(how.n);
    if (!how.given) randomize(reads + first * n, last - first, n, how.seeds[k], first);
    annealer.anneal(schedule, how.seeds[k], first, last, reads, control);
    control.advance(last - first);
  };
  const int threads = control.threads();
  control.expect(how.batch * how.reads);
  if (threads == 1 || how.batch >= 2 * threads) {
    const std::int64_t piece = threads == 1 ? how.batch : 1 + how.batch / (16 * threads);
    return control.share(how.batch, piece, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t k = begin; k < end && !control.stopped(); ++k) anneal(make(k), k, 0, how.reads);
    });
  }
  const std::int64_t unit = how.reads >= 4 * LANES * threads ? 4 * LANES : LANES;
  for (std::int64_t k = 0; k < how.batch && !control.stopped(); ++k) {
    const auto annealer = make(k);
    control.share((how.reads + unit - 1) / unit, 1, [&](std::int64_t begin, std::int64_t end) {
      anneal(annealer, k, begin * unit, end * unit < how.reads ? end * unit : how.reads);
    });
  }
}

}  // namespace qubolearn::VARIANT
