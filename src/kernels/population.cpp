// Population annealing of sparse QUBOs: 64 reads in the lanes of a vector, improved generation by generation.
//
// A generation reheats every read, anneals it back and crosses the result with the read it came from (partition
// crossover, Tinós, Whitley and Chicano, FOGA 2015): the bits where the two differ fall into connected components,
// which do not interact, and each one is accepted if it does not raise the energy. So improvements in different places are
// accepted separately, and no read ever gets worse.
#include "annealing.hpp"
#include "lanes.hpp"

namespace qubolearn::VARIANT {
namespace {

constexpr int READS = 64;
using Bytes = std::int8_t __attribute__((vector_size(READS)));

// Turn one bit per read into one lane per read, 0 or -1, and back.
INLINE Bytes expand(std::uint64_t bits) {
  std::uint64_t words[8];
  for (int k = 0; k < 8; ++k) words[k] = ((bits >> (8 * k)) & 0xFF) * 0x0101010101010101u & 0x8040201008040201u;
  Bytes lanes;
  std::memcpy(&lanes, words, sizeof lanes);
  return lanes != 0;
}

INLINE std::uint64_t collapse(Bytes lanes) {
  std::uint64_t words[8], bits = 0;
  std::memcpy(words, &lanes, sizeof words);
  for (int k = 0; k < 8; ++k) bits |= (((words[k] & 0x0101010101010101u) * 0x0102040810204080u) >> 56) << (8 * k);
  return bits;
}

// The couplings and the bits of 64 reads in numbers of type T: small integers if all fields are, which makes an update
// cheaper, else float.
template <class T>
class Lanes {
  static constexpr int PARTS = sizeof(T), WIDTH = READS / PARTS;  // vectors of 64 bytes
  using V = Vector<T, WIDTH>;
  using M = decltype(V{} < V{});  // integers as wide as T
  static constexpr bool EXACT = sizeof(T) < 4;
  static constexpr float LARGEST = sizeof(T) == 1 ? 127.0f : 32767.0f;  // threshold of an integer

  const Lists& A;
  Scratch<T> linear, couplings, thresholds;
  Scratch<M> x;  // [n, PARTS], 0 or -1

 public:
  Index uphill = 0;  // accepted moves that raised the energy in the last sweep that was measured

  explicit Lanes(const Lists& A)
      : A(A), linear(A.n), couplings(A.starts[A.n]), thresholds(QUANTILES + READS),
        x(std::size_t(A.n) * PARTS) {
    for (int i = 0; i < A.n; ++i) linear[i] = static_cast<T>(A.linear[i]);
    for (Index k = 0; k < A.starts[A.n]; ++k) couplings[k] = static_cast<T>(A.couplings[k]);
  }

  void read(const std::uint64_t* bits) {
    for (int i = 0; i < A.n; ++i) {
      const Bytes all = expand(bits[i]);
      for (int part = 0; part < PARTS; ++part) {
        Vector<std::int8_t, WIDTH> some;
        std::memcpy(&some, reinterpret_cast<const char*>(&all) + part * WIDTH, WIDTH);
        x[i * PARTS + part] = __builtin_convertvector(some, M);
      }
    }
  }

  std::uint64_t bits(int i) const { return pack(&x[std::size_t(i) * PARTS]); }

  // Update all bits in turn at a temperature.
  template <bool MEASURE = false>
  void sweep(double temperature, Stream& random) {
    set_thresholds(static_cast<float>(temperature));
    uphill = 0;
    for (int i = 0; i < A.n; ++i) {
      V fields[PARTS];
      M raised[PARTS];
      for (V& field : fields) field = linear[i] - V{};
      for (auto k = A.starts[i]; k < A.starts[i + 1]; ++k) {
        const M coupling = (M)(couplings[k] - V{});
        const M* neighbor = &x[std::size_t(A.neighbors[k]) * PARTS];
        for (int part = 0; part < PARTS; ++part) fields[part] += (V)(neighbor[part] & coupling);
      }
      if (i % 4 == 0) random.next();
      const T* limits = &thresholds[(random.state >> (8 + 14 * (i % 4))) & (QUANTILES - 1)];
      M* own = &x[std::size_t(i) * PARTS];
      for (int part = 0; part < PARTS; ++part) {
        const V cost = negate(fields[part], own[part]);
        const M flips = cost < load<V>(limits + part * WIDTH);
        own[part] ^= flips;
        if (MEASURE) raised[part] = flips & (cost > 0);
      }
      if (MEASURE) uphill += __builtin_popcountll(pack(raised));
    }
  }

 private:
  INLINE static std::uint64_t pack(const M* lanes) {
    Bytes all;
    for (int part = 0; part < PARTS; ++part) {
      const auto some = __builtin_convertvector(lanes[part], Vector<std::int8_t, WIDTH>);
      std::memcpy(reinterpret_cast<char*>(&all) + part * WIDTH, &some, WIDTH);
    }
    return collapse(all);
  }

  INLINE V negate(V field, M where) const {
    if constexpr (EXACT) return (field ^ where) - where;
    else return (V)((M)field ^ (where & INT32_MIN));
  }

  // A flip that costs ΔE is accepted if ΔE < -T log(u). Of integers only the integer above that matters.
  void set_thresholds(float temperature) {
    const float* quantile = shared<Quantiles>().at(0, 0);
    for (int k = 0; k < QUANTILES; ++k) {
      const float limit = quantile[k] * temperature;
      if constexpr (EXACT) {
        const float bounded = limit < LARGEST ? limit : LARGEST;
        const auto whole = static_cast<std::int32_t>(bounded);
        thresholds[k] = static_cast<T>(whole + (bounded > whole));
      } else {
        thresholds[k] = limit;
      }
    }
    for (int k = 0; k < READS; ++k) thresholds[QUANTILES + k] = thresholds[k];
  }
};

// 64 reads of one QUBO.
template <class T>
class Island {
  // Measured on Gset graphs. The share of updates that raise the energy is `HOT` where the anneal begins and `COLD`
  // where it ends; a generation reheats to somewhere between the shares of that range, and lasts some sweeps.
  static constexpr double HOT = 0.08, COLD = 0.0005, COOLING = 0.93, MIN_REHEAT = 0.2, MAX_REHEAT = 0.6;
  static constexpr double FIRST = 0.3;    // share of the budget that the first anneal takes
  static constexpr double MATING = 0.02;  // share of reads that are crossed with their neighbor on the ring
  static constexpr int GENERATION = 30, DESCENT = 3;  // sweeps
  // A population settles in one valley, and its first anneal does so the more surely, the slower it is. So some of a
  // long search goes to short ones, which find the best states of many dense graphs; planar ones need the long one.
  static constexpr double SCOUTING = 0.15;
  static constexpr Index SCOUT = 4000, MAX_SCOUTS = 16, MAX_SCOUTED = 1500;  // sweeps, scouts, bits
  static constexpr double TIE = 1e-9;

 public:
  static constexpr Index PARTS_OF_WORK = 1000;  // of which progress is reported

 private:
  const Lists& A;
  Lanes<T> lanes;
  Stream random;
  Control& control;
  const Index sweeps;
  double hot, cold;
  bool symmetric;  // whether flipping all bits changes nothing
  Scratch<std::uint64_t> parents, differences, kept;
  Scratch<std::int32_t> seen, component;
  Scratch<double> energies;  // of the parents
  std::int32_t stamp = 0;
  Index reported = 0;

 public:
  Index spent = 0;  // sweeps

  Island(const Lists& A, Stream random, Index sweeps, Control& control)
      : A(A), lanes(A), random(random), control(control), sweeps(sweeps), symmetric(is_symmetric()), parents(A.n),
        differences(A.n), kept(A.n, 0), seen(A.n, 0), component(A.n), energies(READS, 0.0) {
    for (auto& word : parents) word = this->random.next();
  }

  // Search until the sweeps are spent, a read reaches the target, or `ended()`; return whether the target was reached.
  template <class Ended>
  bool run(double target, Ended ended) {
    lanes.read(parents.data());
    find_temperatures();
    const double scouting = A.n > MAX_SCOUTED ? 0 : SCOUTING * static_cast<double>(sweeps - spent);
    Index scouts = static_cast<Index>(scouting) / SCOUT;
    scouts = scouts < MAX_SCOUTS ? scouts : MAX_SCOUTS;
    for (Index scout = 0; scout <= scouts; ++scout) {
      const bool last = scout == scouts;
      const auto length = last ? sweeps - spent : static_cast<Index>(scouting) / scouts;
      const Index until = spent + length;
      if (scout > 0) {
        for (auto& word : parents) word = random.next();
        lanes.read(parents.data());
      }
      anneal(hot, static_cast<Index>(FIRST * static_cast<double>(length)));
      for (int i = 0; i < A.n; ++i) parents[i] = lanes.bits(i);
      for (int read = 0; read < READS; ++read) energies[read] = energy(read);
      if (improve(target, until, ended)) return true;
      if (!last) keep(static_cast<int>(scout));
    }
    for (int scout = 0; scout < scouts; ++scout) bring_back(scout);
    return false;
  }

  bool bit(int i, int read) const { return parents[i] >> read & 1; }

 private:
  // Let generations pass until this many sweeps are spent; return true if a read reaches the target.
  template <class Ended>
  bool improve(double target, Index until, Ended ended) {
    while (lowest() > target) {
      const Index left = until - spent;
      if (left <= 0 || stopped() || ended()) return false;
      lanes.read(parents.data());
      const double reheat = MIN_REHEAT + (MAX_REHEAT - MIN_REHEAT) * uniform();
      anneal(cold + reheat * (hot - cold), GENERATION < left ? GENERATION : left);
      for (int i = 0; i < A.n; ++i) differences[i] = parents[i] ^ lanes.bits(i);
      for (int read = 0; read < READS; ++read) cross(read, true);
      for (int read = 0; read < READS; ++read) {
        if (uniform() >= MATING) continue;
        const int other = (read + 1) % READS;
        for (int i = 0; i < A.n; ++i) differences[i] = ((parents[i] >> read ^ parents[i] >> other) & 1) << read;
        cross(read, false);
      }
    }
    return true;
  }

  int extreme(double sign) const {
    int found = 0;
    for (int read = 1; read < READS; ++read)
      if (sign * energies[read] < sign * energies[found]) found = read;
    return found;
  }
  double lowest() const { return energies[extreme(1)]; }

  // Store the lowest read of a scout, and put it in the place of the highest of the last population.
  void keep(int scout) {
    const int least = extreme(1);
    for (int i = 0; i < A.n; ++i) kept[i] |= std::uint64_t(bit(i, least)) << scout;
  }
  void bring_back(int scout) {
    const int most = extreme(-1);
    const std::uint64_t one = std::uint64_t(1) << most;
    for (int i = 0; i < A.n; ++i) parents[i] = kept[i] >> scout & 1 ? parents[i] | one : parents[i] & ~one;
    energies[most] = energy(most);
  }

  double uniform() { return static_cast<double>(random.next() >> 11) * 0x1p-53; }

  bool is_symmetric() const {
    for (int i = 0; i < A.n; ++i) {
      double sum = A.linear[i], size = __builtin_fabs(sum);
      for (auto k = A.starts[i]; k < A.starts[i + 1]; ++k) {
        sum += A.couplings[k] / 2;
        size += __builtin_fabs(A.couplings[k]);
      }
      if (__builtin_fabs(sum) > 1e-6 * size) return false;
    }
    return true;
  }

  double energy(int read) const {
    double sum = 0;
    for (int i = 0; i < A.n; ++i) {
      if (!bit(i, read)) continue;
      sum += A.linear[i];
      for (auto k = A.starts[i]; k < A.starts[i + 1]; ++k)
        if (bit(static_cast<int>(A.neighbors[k]), read)) sum += A.couplings[k] / 2;
    }
    return sum;
  }

  // Cool down quickly and note at which temperatures the anneals should begin and end.
  void find_temperatures() {
    double temperature = 0;
    for (int i = 0; i < A.n; ++i) {
      double field = __builtin_fabs(A.linear[i]);
      for (auto k = A.starts[i]; k < A.starts[i + 1]; ++k) field += __builtin_fabs(A.couplings[k]);
      temperature = field > temperature ? field : temperature;
    }
    hot = cold = temperature;
    for (bool found = false; temperature > 1e-9 * hot && !control.stopped(); temperature *= COOLING) {
      lanes.sweep(temperature, random);
      lanes.template sweep<true>(temperature, random);
      spent += 2;
      const double share = static_cast<double>(lanes.uphill) / (static_cast<double>(A.n) * READS);
      cold = temperature;
      if (!found && share < HOT) hot = temperature, found = true;
      if (share < COLD) return;
    }
  }

  // Cool from a temperature, linearly, and descend.
  void anneal(double from, Index count) {
    for (Index k = 0; k < count; ++k) {
      if (k % SWEEPS_PER_STOP == 0 && stopped()) return;
      lanes.sweep(from + (cold - from) * static_cast<double>(k) / static_cast<double>(count), random);
      ++spent;
    }
    for (int k = 0; k < DESCENT; ++k) lanes.sweep(1e-6 * cold, random);
    spent += DESCENT;
  }

  // Report progress; return true if the search should end.
  bool stopped() {
    const Index now = PARTS_OF_WORK * (spent < sweeps ? spent : sweeps) / (sweeps > 0 ? sweeps : 1);
    if (now > reported) control.advance(now - reported), reported = now;
    return control.stopped();
  }

  // Flip in a parent every component of the bits in `differences` that lowers its energy or, with `ties`, keeps it.
  void cross(int read, bool ties) {
    Index count = 0;
    for (int i = 0; i < A.n; ++i) count += differences[i] >> read & 1;
    const std::uint64_t flip = symmetric && 2 * count > A.n;  // take the mirror image, which has the same energy
    ++stamp;
    for (int i = 0; i < A.n; ++i)
      if (((differences[i] >> read & 1) ^ flip) && seen[i] != stamp) {
        Index size = 0;
        const double cost = collect(i, read, flip, size);
        if (cost > (ties ? TIE : -TIE)) continue;
        for (Index k = 0; k < size; ++k) parents[component[k]] ^= std::uint64_t(1) << read;
        energies[read] += cost;
      }
  }

  // Collect the component of a bit and return what it costs to flip it. Two bits that flip together contribute half
  // of their coupling to each, with the sign of the bit's own flip.
  double collect(int first, int read, std::uint64_t flip, Index& size) {
    double cost = 0;
    component[size++] = first;
    seen[first] = stamp;
    for (Index k = 0; k < size; ++k) {
      const int i = component[k];
      double field = A.linear[i];
      for (auto slot = A.starts[i]; slot < A.starts[i + 1]; ++slot) {
        const auto j = A.neighbors[slot];
        if ((differences[j] >> read & 1) ^ flip) {
          field += A.couplings[slot] / 2;
          if (seen[j] != stamp) seen[j] = stamp, component[size++] = static_cast<std::int32_t>(j);
        } else if (parents[j] >> read & 1) {
          field += A.couplings[slot];
        }
      }
      cost += bit(i, read) ? -field : field;
    }
    return cost;
  }
};

}  // namespace

void search_population(Control& control, SparseQubos A, In<Index, 1> widths, Index sweeps,
                       In<double, 1> targets, In<std::uint32_t, 1> seeds, Out<Index, 1> first,
                       Out<Index, 2> swept, Out<std::int8_t, 4> states) {
  require(states.shape[2] == READS, "expected 64 reads per island");
  require(A.n < INT32_MAX && sweeps >= 0, "expected fewer than 2**31 bits and sweeps >= 0");
  const Index islands = states.shape[1], tasks = A.batch * islands;
  for (Index k = 0; k < A.batch; ++k) first.data[k] = islands;
  control.expect(tasks * Island<float>::PARTS_OF_WORK);
  control.share(tasks, 1, [&](Index begin, Index end) {
    for (Index task = begin; task < end && !control.stopped(); ++task) {
      const Index k = task / islands, number = task % islands;
      // Only islands before the first one that reached the target count: threads must not change the result.
      const auto ended = [&] { return __atomic_load_n(&first.data[k], __ATOMIC_RELAXED) < number; };
      const Lists lists(A, k);
      const auto run = [&]<class T>(T) {
        Island<T> island(lists, Stream(seeds.data[k], number), sweeps, control);
        if (island.run(targets.data[k], ended)) {
          Index before = __atomic_load_n(&first.data[k], __ATOMIC_RELAXED);
          while (number < before && !__atomic_compare_exchange_n(&first.data[k], &before, number, false,
                                                                 __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
          }
        }
        swept.data[task] = island.spent;
        std::int8_t* reads = states.data + task * READS * A.n;
        for (int read = 0; read < READS; ++read)
          for (int i = 0; i < A.n; ++i) reads[read * A.n + i] = island.bit(i, read);
      };
      if (widths.data[k] == 1) run(std::int8_t());
      else if (widths.data[k] == 2) run(std::int16_t());
      else run(float());
    }
  });
}

}  // namespace qubolearn::VARIANT
