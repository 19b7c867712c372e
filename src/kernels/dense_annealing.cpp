// Simulated annealing of dense QUBOs: 16 reads in the lanes of a vector, sequential Metropolis sweeps.
// A vector holds a chunk of 4 bits of 16 reads. The field of bit i, A_ii + Σ_j (A_ij + A_ji) x_j, is a sum over chunks of
// parts with 16 values each: a table that one instruction looks up for all reads, and nothing to update after flips. When
// flips have become rare, reads continue one at a time with fields kept up to date.
#include "annealing.hpp"

namespace qubolearn::VARIANT {
namespace {

constexpr int SINGLE_BITS = 64;       // below, tables are faster at all temperatures
constexpr int MAX_TABLE_BITS = 2048;  // tables take 16 n² bytes; beyond, reads are annealed singly
constexpr int TABLE = 64;             // floats that couple two chunks: 4 bits, 16 values each

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
    for (int j = 0; j < width; j += LANES) store(fields + j, load(fields + j) + sign * load(from + j));
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
    for (unsigned left = flipped; left; left &= left - 1) {
      const int i = block + __builtin_ctz(left);
      add_to(fields, i, signs[i]);
    }
    return static_cast<Mask>(flipped);
  }
};

// The fields on the bits of a chunk given the chunks it is coupled to, the first of which is itself, with linear terms.
struct Tables {
  const int chunks;
  Scratch<std::int32_t> starts, partners;  // chunk c is coupled to partners[starts[c]] ... partners[starts[c + 1] - 1]
  Scratch<float> tables;                   // [TABLE b + 16 k + v]: field on bit k if partner b has the bits v

  Tables(const double* S, int n)
      : chunks((n + 3) / 4), starts(chunks + 1), partners(std::size_t(chunks) * chunks),
        tables(TABLE * partners.size()) {
    int b = starts[0] = 0;
    for (int c = 0; c < chunks; ++c) {
      add(S, n, c, c, b++);
      for (int d = 0; d < chunks; ++d)
        if (d != c && coupled(S, n, c, d)) add(S, n, c, d, b++);
      starts[c + 1] = b;
    }
  }

  const float* at(int block) const { return &tables[TABLE * std::size_t(block)]; }
 private:
  static bool coupled(const double* S, int n, int c, int d) {
    for (int i = 4 * c; i < 4 * c + 4 && i < n; ++i)
      for (int j = 4 * d; j < 4 * d + 4 && j < n; ++j)
        if (S[std::size_t(i) * n + j] != 0) return true;
    return false;
  }

  void add(const double* S, int n, int c, int d, int block) {
    partners[block] = d;
    for (int i = 4 * c; i < 4 * c + 4; ++i) {
      float* table = &tables[TABLE * std::size_t(block) + 16 * (i % 4)];
      // bits that pad the last chunk become 0 and stay there
      table[0] = c != d ? 0.0f : i < n ? static_cast<float>(S[std::size_t(i) * n + i]) : __builtin_inff();
      for (int b = 0; b < 4; ++b) {
        const int j = 4 * d + b;
        const float value = i < n && j < n && j != i ? static_cast<float>(S[std::size_t(i) * n + j]) : 0.0f;
        for (int v = 0; v < 1 << b; ++v) table[v + (1 << b)] = table[v] + value;
      }
      for (int v = 0; v < 16 && c == d; ++v)
        if (v >> (i % 4) & 1) table[v] = -table[v];
    }
  }
};

// Return true if a group of this many reads of n bits is annealed read by read from the beginning (measured).
bool is_single_group(int n, Index reads) {
  return n > MAX_TABLE_BITS || reads <= (n < 512 ? n / SINGLE_BITS : 8);
}

// Return the flips per sweep of 16 reads below which reads continue singly (measured).
int flip_threshold(int n) {
  const Index few = Index(n) * n * n >> 18, most = 16 * n / 3;
  return n < SINGLE_BITS ? 0 : static_cast<int>(few < most ? few : most);
}

class DenseProblem {
  const Rows rows;
  const Tables tables;
 public:
  using Couplings = Rows;
  static constexpr int SWEEPS_PER_CHECK = 16;  // between two looks at how many bits flip
  const int n;

  DenseProblem(const double* S, int n, Index reads)
      : rows(S, n < SINGLE_BITS ? 0 : n), tables(S, is_single_group(n, reads < LANES ? reads : LANES) ? 0 : n), n(n) {}

  bool is_single(Index reads) const { return is_single_group(n, reads); }
  bool has_singles() const { return n >= SINGLE_BITS; }
  const Rows& singles() const { return rows; }

  template <int GROUPS>
  class Packed {
    const Tables& A;
    const Quantiles& quantile = shared<Quantiles>();
    Stream& random;
    const Group* const groups;
    const int n, few;
    Scratch<Ints> bits;     // [chunks, GROUPS]
    Ints flipped[GROUPS];   // in the last sweep that was measured, read by read
    Floats lowest[GROUPS];  // cost of a flip in it

   public:
    Packed(const DenseProblem& problem, Stream& random, const Group* groups, const std::int8_t* reads)
        : A(problem.tables), random(random), groups(groups), n(problem.n), few(flip_threshold(n)),
          bits(std::size_t(A.chunks) * GROUPS, Ints{}) {
      for (int g = 0; g < GROUPS; ++g)
        for (Index read = groups[g].first; read < groups[g].last; ++read)
          for (int i = 0; i < n; ++i) bits[i / 4 * GROUPS + g][read % LANES] |= reads[read * n + i] << (i % 4);
    }

    void write(std::int8_t* reads) const {
      for (int g = 0; g < GROUPS; ++g)
        for (Index read = groups[g].first; read < groups[g].last; ++read)
          for (int i = 0; i < n; ++i) reads[read * n + i] = (bits[i / 4 * GROUPS + g][read % LANES] >> (i % 4)) & 1;
    }

    // Return true if few bits flip, or none ever will again, since β only grows.
    bool is_cold(int g, Floats temperature) const {
      int flips = 0;
      for (int lane = 0; lane < LANES; ++lane) flips += flipped[g][lane];
      return flips < few || !below(lowest[g], MAX_QUANTILE * temperature);
    }

    template <bool MEASURE>
    void sweep(Floats temperature) {
      if (MEASURE)
        for (int g = 0; g < GROUPS; ++g) flipped[g] = Ints{}, lowest[g] = splat(__builtin_inff());
      for (int chunk = 0; chunk < A.chunks; ++chunk) update<MEASURE>(chunk, random.next(), temperature);
    }

   private:
    // Update the 4 bits of a chunk in turn, in all groups at once: they share each load of a table.
    template <bool MEASURE>
    INLINE void update(int chunk, std::uint64_t number, Floats temperature) {
      Floats fields[GROUPS][4] = {};
      const int own = A.starts[chunk], end = A.starts[chunk + 1];
      for (int block = own + 1; block < end; ++block) {
        const Ints* partner = &bits[std::size_t(A.partners[block]) * GROUPS];
        const float* table = A.at(block);
        for (int k = 0; k < 4; ++k) {
          const Floats part = load(table + 16 * k);
          for (int g = 0; g < GROUPS; ++g) fields[g][k] += lookup(part, partner[g]);
        }
      }
      Ints* here = &bits[std::size_t(chunk) * GROUPS];
      Ints x[GROUPS];
      for (int g = 0; g < GROUPS; ++g) x[g] = here[g];
      for (int k = 0; k < 4; ++k)  // to (1 - 2x) field: no bit changes before its turn
        for (int g = 0; g < GROUPS; ++g)
          fields[g][k] = (Floats)((Ints)fields[g][k] ^ ((x[g] << (31 - k)) & INT32_MIN));
      for (int k = 0; k < 4; ++k) {
        const Floats part = load(A.at(own) + 16 * k);
        const float* thresholds = quantile.at(number, k);
        for (int g = 0; g < GROUPS; ++g) {
          const Floats cost = fields[g][k] + lookup(part, x[g]);
          const Ints accepted = cost < load(thresholds + groups[g].place) * temperature;
          x[g] ^= accepted & (1 << k);
          if (MEASURE) flipped[g] -= accepted, lowest[g] = minimum(cost, lowest[g]);
        }
      }
      for (int g = 0; g < GROUPS; ++g) here[g] = x[g];
    }
  };
};

}  // namespace

void anneal_dense(Control& control, In<double, 3> S, In<double, 2> betas, Index steps, Index sweeps,
                  In<std::uint32_t, 1> seeds, bool given, Out<std::int8_t, 3> states) {
  share_reads(control, betas, steps, sweeps, seeds, given, states, [&](Index k) {
    return DenseProblem(S.at(k), static_cast<int>(S.shape[1]), states.shape[1]);
  });
}

}  // namespace qubolearn::VARIANT
