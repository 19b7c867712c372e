// Simulated annealing of dense QUBOs: 16 reads in the lanes of a vector, sequential Metropolis sweeps.
//
// Reads are kept as chunks of 4 bits, one vector of 16 reads per chunk. The field of bit i is a sum over chunks,
// A_ii + Σ_j (A_ij + A_ji) x_j, and each chunk's part has 16 values: a table that one instruction looks up for all
// reads. No field is stored or updated, so a sweep costs the same whatever flips. When flips have become rare, reads
// continue one at a time with fields kept up to date, which costs something only if a bit flips.
#include "annealing.hpp"

namespace qubolearn::VARIANT {
namespace {

constexpr int SINGLE_BITS = 64;       // below, tables are faster at all temperatures
constexpr int MAX_TABLE_BITS = 2048;  // tables take 16 n² bytes; beyond, reads are annealed singly
constexpr int MAX_GROUPS = 4;         // of 16 reads, swept together so that they share the tables in the cache
constexpr int SWEEPS_PER_CHECK = 16;  // between two looks at how many bits flip
constexpr int TABLE = 64;             // floats that couple two chunks: 4 bits, 16 values each

// Return true if a group of this many reads is annealed read by read from the beginning (measured).
bool is_single(int n, std::int64_t reads) { return n > MAX_TABLE_BITS || reads <= (n < 512 ? n / SINGLE_BITS : 8); }

// Return the flips per sweep of 16 reads below which reads continue singly (measured).
int few_flips(int n) {
  if (n < SINGLE_BITS) return 0;
  const std::int64_t few = std::int64_t(n) * n * n >> 18, most = 16 * n / 3;
  return static_cast<int>(few < most ? few : most);
}

// The fields on the bits of a chunk as functions of the bits of the chunks that it is coupled to. The first such chunk
// is itself, and holds the linear terms.
class Tables {
  const int n;

 public:
  const int chunks;
  Scratch<std::int32_t> starts, partners;  // chunk c is coupled to partners[starts[c]] ... partners[starts[c + 1] - 1]
  Scratch<float> tables;                   // [TABLE b + 16 k + v]: field on bit k if partner b has the bits v

  // S [n, n] is symmetric, with A_ij + A_ji off its diagonal and A_ii on it.
  Tables(const double* S, int n)
      : n(n), chunks((n + 3) / 4), starts(chunks + 1), partners(fill_partners(S)), tables(TABLE * partners.size(), 0) {
    for (int c = 0; c < chunks; ++c)
      for (int b = starts[c]; b < starts[c + 1]; ++b)
        for (int i = 4 * c; i < 4 * c + 4; ++i) fill_table(S, i, 4 * partners[b], &tables[TABLE * b + 16 * (i % 4)]);
  }

  const float* at(int block) const { return &tables[TABLE * std::size_t(block)]; }

 private:
  Scratch<std::int32_t> fill_partners(const double* S) {
    Scratch<std::uint8_t> coupled(std::size_t(chunks) * chunks, 0);
    for (int i = 0; i < n; ++i)
      for (int j = 0; j < n; ++j)
        if (S[std::size_t(i) * n + j] != 0) coupled[std::size_t(i / 4) * chunks + j / 4] = 1;
    int size = 0;
    for (int c = 0; c < chunks; ++c) {
      starts[c] = size++;
      for (int d = 0; d < chunks; ++d) size += d != c && coupled[std::size_t(c) * chunks + d];
    }
    starts[chunks] = size;
    Scratch<std::int32_t> found(size);
    for (int c = 0; c < chunks; ++c) {
      int b = starts[c];
      found[b++] = c;
      for (int d = 0; d < chunks; ++d)
        if (d != c && coupled[std::size_t(c) * chunks + d]) found[b++] = d;
    }
    return found;
  }

  void fill_table(const double* S, int i, int first, float* table) const {
    const bool own = first == i / 4 * 4;
    if (i >= n) {  // bits that pad the last chunk become 0 and stay there
      for (int v = 0; v < 16; ++v) table[v] = own ? __builtin_inff() : 0.0f;
      return;
    }
    const double* row = S + std::size_t(i) * n;
    table[0] = own ? static_cast<float>(row[i]) : 0.0f;
    for (int b = 0; b < 4; ++b) {
      const int j = first + b;
      const float value = j < n && j != i ? static_cast<float>(row[j]) : 0.0f;
      for (int v = 0; v < 1 << b; ++v) table[v + (1 << b)] = table[v] + value;
    }
  }
};

// Up to 64 reads of one QUBO. The outcome of each group of 16 depends on (seed, its number) alone.
class Groups {
  const Tables& A;
  const Quantiles& quantile = quantiles();
  const int n;
  const std::int64_t first, last;
  const int columns;
  Scratch<Ints> bits;  // [chunks, columns]
  Stream random;

  struct Group {
    int column;
    int place;      // of its thresholds
    Ints flips;     // in the last sweep that was measured, read by read
    Floats lowest;  // cost of a flip in it
  } active[MAX_GROUPS];

 public:
  Groups(const Tables& A, int n, std::int64_t first, std::int64_t last, const std::int8_t* reads, std::uint64_t seed)
      : A(A),
        n(n),
        first(first),
        last(last),
        columns(static_cast<int>((last - first + LANES - 1) / LANES)),
        bits(std::size_t(A.chunks) * columns, Ints{}),
        random(group_stream(seed, first)) {
    for (std::int64_t read = first; read < last; ++read)
      for (int i = 0; i < n; ++i)
        bits[i / 4 * columns + (read - first) / LANES][(read - first) % LANES] |= reads[read * n + i] << (i % 4);
    for (int g = 0; g < columns; ++g) {
      active[g].column = g;
      active[g].place = group_place(first + g * LANES);
    }
  }

  // Anneal, and pass groups on to `finish(first read, end, what is left of the schedule)` when bits rarely flip.
  template <class Finish>
  void anneal(Schedule schedule, std::int8_t* reads, Control& control, Finish finish) {
    int left = columns;
    for (std::int64_t sweep = 0; schedule.sweeps > 0 && left > 0; ++sweep) {
      const Floats temperature = schedule.temperature();
      schedule.advance();
      if (sweep % SWEEPS_PER_CHECK) {
        sweep_all<false>(left, temperature);
        continue;
      }
      if (control.stopped()) break;
      sweep_all<true>(left, temperature);
      int kept = 0;
      for (int k = 0; k < left; ++k) {
        const Group& group = active[k];
        const bool frozen = !below(group.lowest, MAX_QUANTILE * temperature);  // for good, since β only grows
        if (!frozen && sum(group.flips) >= few_flips(n)) {
          active[kept++] = group;
          continue;
        }
        unpack(group.column, reads);
        if (n >= SINGLE_BITS) finish(begin_of(group.column), end_of(group.column), schedule);
      }
      left = kept;
    }
    for (int k = 0; k < left; ++k) unpack(active[k].column, reads);
  }

 private:
  template <bool MEASURE>
  void sweep_all(int left, Floats temperature) {
    if (MEASURE)
      for (int k = 0; k < left; ++k) active[k].flips = Ints{}, active[k].lowest = splat(__builtin_inff());
    for (int chunk = 0; chunk < A.chunks; ++chunk) {
      const std::uint64_t number = random.next();
      const float* thresholds[4];
      for (int k = 0; k < 4; ++k) thresholds[k] = quantile.at(number, k);
      int k = 0;
      for (; k + 3 < left; k += 4) update<4, MEASURE>(chunk, active + k, thresholds, temperature);
      for (; k + 1 < left; k += 2) update<2, MEASURE>(chunk, active + k, thresholds, temperature);
      if (k < left) update<1, MEASURE>(chunk, active + k, thresholds, temperature);
    }
  }

  // Update the 4 bits of a chunk in turn, in some groups at once: they share each load of a table.
  template <int GROUPS, bool MEASURE>
  INLINE void update(int chunk, Group* groups, const float* const* thresholds, Floats temperature) {
    Floats fields[GROUPS][4] = {};
    const int own = A.starts[chunk], end = A.starts[chunk + 1];
    for (int block = own + 1; block < end; ++block) {
      const Ints* partner = &bits[std::size_t(A.partners[block]) * columns];
      const float* table = A.at(block);
      for (int k = 0; k < 4; ++k) {
        const Floats part = load(table + 16 * k);
        for (int g = 0; g < GROUPS; ++g) fields[g][k] += lookup(part, partner[groups[g].column]);
      }
    }
    Ints* here = &bits[std::size_t(chunk) * columns];
    Ints x[GROUPS];
    for (int g = 0; g < GROUPS; ++g) x[g] = here[groups[g].column];
    for (int k = 0; k < 4; ++k) {
      const Floats part = load(A.at(own) + 16 * k);
      for (int g = 0; g < GROUPS; ++g) {
        const Floats field = fields[g][k] + lookup(part, x[g]);
        const Floats cost = (Floats)((Ints)field ^ ((x[g] << (31 - k)) & INT32_MIN));  // (1 - 2x) field
        const Ints accepted = cost < load(thresholds[k] + groups[g].place) * temperature;
        x[g] ^= accepted & (1 << k);
        if (MEASURE) {
          groups[g].flips -= accepted;
          groups[g].lowest = cost < groups[g].lowest ? cost : groups[g].lowest;
        }
      }
    }
    for (int g = 0; g < GROUPS; ++g) here[groups[g].column] = x[g];
  }

  std::int64_t begin_of(int column) const { return first + column * LANES; }
  std::int64_t end_of(int column) const {
    return last - begin_of(column) < LANES ? last : begin_of(column) + LANES;
  }

  void unpack(int column, std::int8_t* reads) const {
    for (std::int64_t read = begin_of(column); read < end_of(column); ++read)
      for (int i = 0; i < n; ++i)
        reads[read * n + i] = (bits[i / 4 * columns + column][(read - first) % LANES] >> (i % 4)) & 1;
  }
};

class DenseAnnealer {
  const int n;
  const bool grouped;  // whether groups of 16 reads begin with tables
  const Rows rows;
  const Tables tables;

 public:
  DenseAnnealer(const double* S, int n, std::int64_t reads)
      : n(n), grouped(!is_single(n, reads < LANES ? reads : LANES)), rows(S, n < SINGLE_BITS ? 0 : n),
        tables(S, grouped ? n : 0) {}

  // Anneal the reads first ... last - 1; `first` is a multiple of 16.
  void anneal(Schedule schedule, std::uint64_t seed, std::int64_t first, std::int64_t last, std::int8_t* reads,
              Control& control) const {
    const auto singly = [&](std::int64_t begin, std::int64_t end, Schedule left) {
      SingleReads<Rows>::anneal(rows, left, seed, begin, end, reads, control);
    };
    for (std::int64_t begin = first; begin < last; begin += MAX_GROUPS * LANES) {
      const std::int64_t end = last - begin < MAX_GROUPS * LANES ? last : begin + MAX_GROUPS * LANES;
      const std::int64_t rest = (end - begin) % LANES;
      const std::int64_t split = !grouped ? begin : is_single(n, rest) ? end - rest : end;
      if (begin < split) Groups(tables, n, begin, split, reads, seed).anneal(schedule, reads, control, singly);
      if (split < end) singly(split, end, schedule);
    }
  }
};

}  // namespace

void anneal_dense(const DenseQubos& A, const Annealing& how, Control& control) {
  share_reads(how, control, [&](std::int64_t k) {
    return DenseAnnealer(A.S + k * A.n * A.n, static_cast<int>(A.n), how.reads);
  });
}

}  // namespace qubolearn::VARIANT
