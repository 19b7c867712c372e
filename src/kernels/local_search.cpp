// The local search around reads, and exchanges of two and three bits.
#include <bit>

#include "local_search.hpp"

namespace qubolearn::VARIANT {
namespace {

// Reads that are improved if the best state was not the lowest of its exchanges, and those in a row that may be in vain.
constexpr int STARTS = 64, PATIENCE = 6;

class Exchanges {
  const Model& A;     // with rows
  Scratch<double> S;  // [n + 1, n + 1]: zeros stand for the bit that a move lacks
  int size = 0;
  Scratch<Move> moves;
  Scratch<std::int32_t> units;  // of the moves
  Scratch<double> costs, after, least, turned;
 public:
  const double tolerance;

  explicit Exchanges(const Model& A)
      : A(A), S((A.n + 1) * (A.n + 1), 0.0), moves(A.n), units(A.n), costs(padded(A.n)), after(padded(A.n)), least(A.n),
        turned(A.n * padded(A.n)), tolerance(1e-13 * A.size()) {
    for (int i = 0; i < A.n; ++i) std::memcpy(&S[i * (A.n + 1)], A.row(i), A.n * sizeof(double));
  }

  // Make two or three moves at once if that lowers the energy, in one pass over all; return true if any did.
  bool pass(State& state, Control& control) {
    bool lower = false;
    fill(state);
    for (int i = 0; i < size && !control.stopped(); ++i) {
      double lowest = move_first(i);
      for (int j = next_pair(i, i + 1, lowest); j < size; j = next_pair(i, j + 1, lowest)) {
        const double pair = costs[i] + after[j];
        double gain = 0;
        const int best = find_lowest((j + 1) / WIDE * WIDE, size, gain, [&](int k, Longs index) {
          return index > j ? load<Doubles>(after.data() + k) + load<Doubles>(row(j) + k) : splat<Doubles>(INFINITE);
        });
        if (pair + gain >= -tolerance) continue;
        const Move made[3] = {moves[i], moves[j], best >= 0 ? moves[best] : Move{-1, -1}};
        for (int k = 0; k < (best >= 0 ? 3 : 2); ++k) A.apply(state, made[k]);
        lower = true;
        fill(state);
        if (i >= size) break;
        lowest = move_first(i);
      }
    }
    return lower;
  }
 private:
  double* row(int i) { return turned.data() + i * padded(A.n); }
  int place(int bit) const { return bit >= 0 ? bit : A.n; }
  const double* coupling(int bit) const { return S.data() + place(bit) * (A.n + 1); }

  // Return the first move from j on that may gain with move i and a third one: few can.
  int next_pair(int i, int j, double lowest) const {
    const double own = costs[i], *then = after.data(), *third = least.data();
    for (; j < size; ++j) {
      const double both = own + then[j], more = lowest + third[j];
      if (both + (more < 0 ? more : 0) < -tolerance) break;
    }
    return j;
  }

  // Fill what each move costs alone, what two add to that if both are made, and the least of that for each.
  void fill(const State& state) {
    size = 0;
    for (int unit = 0; unit < A.units; ++unit)
      A.for_moves(state, unit, [&](Move move) { moves[size] = move, units[size++] = unit; });
    for (std::size_t k = size; k < padded(size); ++k) costs[k] = INFINITE;
    for (int i = 0; i < size; ++i) {
      double* to = row(i);
      const double *on = coupling(moves[i].on), *off = coupling(moves[i].off);
      if (size == A.n) {  // no groups: move k flips bit k
        const double *own = coupling(i), sign = 1 - 2 * state.x[i];
        for (int k = 0; k < size; ++k) to[k] = sign * (1 - 2 * state.x[k]) * own[k];
        to[i] = INFINITE;
      } else {
        for (int k = 0; k < size; ++k) {
          const int set = place(moves[k].on), cleared = place(moves[k].off);
          to[k] = units[k] == units[i] ? INFINITE : (on[set] - on[cleared]) - (off[set] - off[cleared]);
        }
      }
      for (std::size_t k = size; k < padded(size); ++k) to[k] = 0;
      costs[i] = state.cost(moves[i]), least[i] = 0;
      find_least(least[i], [&](int k) { return load<Doubles>(to + k); });
    }
  }

  // Fill what moves cost once move i is made; return the least.
  double move_first(int i) {
    double lowest = INFINITE;
    find_least(lowest, [&](int k) {
      const auto sum = load<Doubles>(costs.data() + k) + load<Doubles>(row(i) + k);
      store(after.data() + k, sum);
      return sum;
    });
    return lowest;
  }

  // Lower `least` to the least of values(k), which returns those of k ... k + 7.
  template <class Values>
  INLINE void find_least(double& least, Values values) {
    Doubles low = splat<Doubles>(least);
    for (int k = 0; k < size; k += WIDE) low = minimum(low, values(k));
    for (int lane = 0; lane < WIDE; ++lane) least = low[lane] < least ? low[lane] : least;
  }
};

// Make each move in turn and descend with its unit held; keep what is lower.
void chain(const Model& A, State& state, State& room, double tolerance) {
  for (int unit = 0; unit < A.units;) {
    bool lower = false;
    A.for_moves(state, unit, [&](Move move) {
      if (lower) return;  // the moves of the unit have changed
      room.copy(state);
      A.settle(room, move, unit);
      lower = room.energy < state.energy - tolerance;
    });
    if (lower) state.copy(room);
    else ++unit;
  }
}

// Lower a state by chains and exchanges in turn until neither does.
void improve(const Model& A, Exchanges& exchanges, State& state, State& room, Control& control) {
  for (int round = 0; round < ROUNDS && !control.stopped(); ++round) {
    const double before = state.energy;
    chain(A, state, room, exchanges.tolerance);
    exchanges.pass(state, control);
    room.copy(state);
    A.load(state, room.x.data());  // again: sums of moves are rounded
    if (!(state.energy < before - exchanges.tolerance)) break;
  }
}

// The keys of reads that were met.
struct Seen {
  Scratch<std::uint64_t> slots;  // a power of two; mixed, so 0 is a free one

  // Return true if the key is new.
  bool add(std::uint64_t key) {
    const std::uint64_t mixed = mix(key), last = slots.size() - 1;
    std::size_t slot = mixed >> 1 & last;
    while (slots[slot] != 0 && slots[slot] != mixed) slot = (slot + 1) & last;
    if (slots[slot] == mixed) return false;
    slots[slot] = mixed;
    return true;
  }
};

// Search in and around the reads of QUBOs, of which model(k) is one.
template <class Make>
void refine(Control& control, Make model, In<std::int8_t, 3> reads, Out<std::int8_t, 3> states, Out<double, 1> success,
            bool exchanges) {
  const Index count = reads.shape[1], n = reads.shape[2];
  require(count >= 1 && states.shape[1] >= 1, "expected at least one read and one state");
  require_bits(reads);
  control.share_each(reads.shape[0], [&](Index k) {
    Model A = model(k);
    Pool pool(static_cast<int>(states.shape[1]), A.n);
    State state(A.n);
    Seen seen{Scratch<std::uint64_t>(std::bit_ceil(std::size_t(2 * count)), 0)};
    Scratch<double> energies(count, INFINITE);
    double lowest = INFINITE, low = 0;
    for (Index read = 0; read < count && !control.stopped(); ++read) {
      A.load_bits(state, reads.at(k) + read * n);
      energies[read] = state.energy, lowest = minimum(lowest, state.energy);
      if (!seen.add(state.key)) continue;
      pool.offer(state);
      A.descend(state);
      pool.offer(state);
    }
    const double tie = lowest + 1e-12 * A.size();
    for (double energy : energies) low += energy <= tie;
    success.data[k] = low / static_cast<double>(count);
    offer_held_descents(A, state, pool, control);
    offer_neighbors(A, state, pool, control);
    if (exchanges) exchange(A, reads.at(k), count, pool, control);
    for (int rank = 0; rank < pool.count; ++rank) A.write(pool.state(rank), states.at(k) + rank * n);
  });
}

}  // namespace

void exchange(Model& A, const std::int8_t* reads, Index count, Pool& pool, Control& control) {
  if (A.n > MAX_EXCHANGE_BITS) return;
  const bool lists = !A.rows;
  Scratch<double> S(lists ? std::size_t(A.n) * A.n : 0, 0.0);
  for (int b = 0; b < A.n && lists; ++b)
    for (auto slot = A.starts[b]; slot < A.starts[b + 1]; ++slot) S[std::size_t(b) * A.n + A.to[slot]] = A.value[slot];
  if (lists) A.rows = S.data();  // for as long as this takes
  Exchanges exchanges(A);
  State state(A.n), room(A.n);
  A.load(state, pool.state(0));
  bool lower = exchanges.pass(state, control);
  int vain = 0;
  for (Index start = 0; lower && start <= (count < STARTS ? count : STARTS) && vain < PATIENCE; ++start) {
    if (control.stopped()) break;
    const double best = pool.energy(0);
    if (start == 0) A.load(state, pool.state(0));
    else A.load_bits(state, reads + (start - 1) * A.all);
    A.descend(state);
    improve(A, exchanges, state, room, control);
    pool.offer(state);
    vain = pool.energy(0) < best - exchanges.tolerance ? 0 : vain + 1;
  }
  if (lower) offer_neighbors(A, state, pool, control);
  if (lists) A.rows = nullptr;
}

void refine_dense(Control& control, In<double, 3> S, In<std::int8_t, 3> reads, Out<std::int8_t, 3> states,
                  Out<double, 1> success, bool exchanges) {
  const auto model = [&](Index k) { return Model(S.at(k), static_cast<int>(S.shape[1])); };
  refine(control, model, reads, states, success, exchanges);
}

void refine_sparse(Control& control, SparseQubos A, Units units, In<std::int8_t, 2> clamps, In<std::int8_t, 3> reads,
                   Out<std::int8_t, 3> states, Out<double, 1> success, bool exchanges) {
  const auto model = [&](Index k) { return Model(A, k, units, clamps.at(k)); };
  refine(control, model, reads, states, success, exchanges);
}

}  // namespace qubolearn::VARIANT
