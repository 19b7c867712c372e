// From the states of an annealer to the lowest distinct ones around them, for dense, sparse and one-hot grouped QUBOs.
// Without ties the k-th lowest state is a local minimum or a neighbor of a lower one, so a pool is offered the local minima
// that are met and the neighbors of its lowest states. Other minima are sought by changing each bit of the best state and
// descending with that bit held. Ties differ by roundings, so no loop may depend on energies alone: each has a bound.
#pragma once
#include "kernels.hpp"
#include "random.hpp"

namespace qubolearn::VARIANT {

constexpr int ROUNDS = 64;
constexpr int DESCENT = 8;      // flips of a descent, as a multiple of n; most take a small share of n
constexpr int WIDE = 8;
using Doubles = Vector<double, WIDE>;
using Longs = Vector<std::int64_t, WIDE>;
inline std::size_t padded(std::size_t n) { return (n + WIDE - 1) / WIDE * WIDE; }
inline double absolute(double x) { return x < 0 ? -x : x; }

// Return the first k from `start` to `end` with the lowest change, and set `lowest` to it; -1 if all are at least that.
// changes(k, index) returns those of the lanes of index, k ... k + 7.
template <class Changes>
INLINE int find_lowest(int start, int end, double& lowest, Changes changes) {
  Doubles low = splat<Doubles>(lowest);
  Longs index = Longs{0, 1, 2, 3, 4, 5, 6, 7} + start, where = splat<Longs>(-1);
  for (int k = start; k < end; k += WIDE, index += WIDE) {
    const Doubles change = changes(k, index);
    const Longs lower = change < low;
    low = lower ? change : low;
    where = lower ? index : where;
  }
  int best = -1;
  for (int lane = 0; lane < WIDE; ++lane) {
    const int k = static_cast<int>(where[lane]);
    if (k >= 0 && (low[lane] < lowest || (low[lane] == lowest && k < best))) lowest = low[lane], best = k;
  }
  return best;
}

// Return the part of a state's key that bit i of n adds; the key is the state itself up to 64 bits, else a hash.
inline std::uint64_t bit_key(int i, int n) { return n <= 64 ? std::uint64_t(1) << i : mix(i); }

// One bit becomes 0 and another 1; -1 stands for none.
struct Move {
  int off, on;
};

struct State {
  const int n;
  Scratch<std::int8_t> x;
  Scratch<double> fields;  // what setting a bit to 1 adds to the energy; infinite beyond n
  double energy = 0;
  std::uint64_t key = 0;

  explicit State(int n) : n(n), x(padded(n), 0), fields(padded(n), INFINITE) {}
  void copy(const State& other) {
    std::memcpy(x.data(), other.x.data(), x.size());
    std::memcpy(fields.data(), other.fields.data(), fields.size() * sizeof(double));
    energy = other.energy, key = other.key;
  }
  std::uint64_t key_after(Move move) const {
    std::uint64_t after = key;
    if (move.off >= 0) after ^= bit_key(move.off, n);
    if (move.on >= 0) after ^= bit_key(move.on, n);
    return after;
  }
  double cost(Move move) const { return (move.on >= 0 ? fields[move.on] : 0) - (move.off >= 0 ? fields[move.off] : 0); }
};

// The lowest distinct states offered so far, lowest first.
class Pool {
  Scratch<std::int8_t> states_;
  Scratch<double> energies_;  // infinite if nothing is stored yet
  Scratch<std::uint64_t> keys_;
  Scratch<std::uint8_t> expanded_;  // whether the neighbors of a state were offered
 public:
  const int count, n;

  Pool(int count, int n)
      : states_(std::size_t(count) * n, 0), energies_(count, INFINITE), keys_(count, 0), expanded_(count, 0), count(count),
        n(n) {}
  double energy(int rank) const { return energies_[rank]; }
  double highest() const { return energies_[count - 1]; }
  const std::int8_t* state(int rank) const { return states_.data() + std::size_t(rank) * n; }

  bool holds(std::uint64_t key) const {
    for (int rank = 0; rank < count && energies_[rank] < INFINITE; ++rank)
      if (keys_[rank] == key) return true;
    return false;
  }

  // Store x after a move, if it is low enough and new; the energy and the key are those after the move.
  void offer(const std::int8_t* x, double energy, std::uint64_t key, Move move = {-1, -1}) {
    if (energy >= highest() || holds(key)) return;
    int rank = count - 1;
    for (; rank > 0 && energies_[rank - 1] > energy; --rank) {
      std::memcpy(at(rank), at(rank - 1), n);
      energies_[rank] = energies_[rank - 1], keys_[rank] = keys_[rank - 1], expanded_[rank] = expanded_[rank - 1];
    }
    std::memcpy(at(rank), x, n);
    if (move.off >= 0) at(rank)[move.off] = 0;
    if (move.on >= 0) at(rank)[move.on] = 1;
    energies_[rank] = energy, keys_[rank] = key, expanded_[rank] = 0;
  }
  void offer(const State& state) { offer(state.x.data(), state.energy, state.key); }

  // Return the rank of the lowest state whose neighbors were not offered, or -1. The last of several need not be expanded.
  int next_to_expand() {
    for (int rank = 0; rank < (count > 1 ? count - 1 : 1) && energies_[rank] < INFINITE; ++rank)
      if (!expanded_[rank]) {
        expanded_[rank] = 1;
        return rank;
      }
    return -1;
  }
 private:
  std::int8_t* at(int rank) { return states_.data() + std::size_t(rank) * n; }
};

// A QUBO without its clamped bits, in units: one-hot groups, whose inner couplings are left out, and single bits.
class Model {
  const std::int8_t* const clamp;
  Scratch<std::int32_t> unit_of_;
  // units to look at, and the moves made since
  mutable Scratch<std::int32_t> waiting;
  mutable Scratch<std::uint8_t> queued;
  mutable Scratch<Move> moves;
  mutable int queue_size = 0;
 public:
  const int all;                 // bits of the QUBO, the clamped ones included
  bool grouped = false;          // whether there are groups
  int n = 0, units = 0;          // free bits, and units with free bits
  Scratch<std::int32_t> bit;     // [n]: their places in the QUBO
  Scratch<std::int32_t> first;   // [units + 1]: the bits of unit u are first[u] ... first[u + 1] - 1
  Scratch<std::uint8_t> group;   // [units]
  Scratch<double> h;             // [n]: what a bit adds to the energy, couplings with clamped bits included
  Scratch<Index> starts;  // [n + 1]: of the couplings of each bit
  Scratch<std::int32_t> to;
  Scratch<double> value;
  const double* rows = nullptr;  // [n, n]: the couplings again, symmetric; the diagonal is ignored
  double constant = 0;           // energy of the clamped bits

  // A dense QUBO S [n, n], symmetric with A_ij + A_ji off its diagonal and A_ii on it. Every bit is its own unit.
  Model(const double* S, int n) : Model(n, n, 0, nullptr) {
    rows = S;
    for (int i = 0; i < n; ++i) {
      add_bit(i), close_unit(false);
      h[i] = S[std::size_t(i) * n + i];
    }
  }

  // A sparse QUBO; clamp [n] holds 0, 1, and -1 for free bits.
  Model(const SparseQubos& A, Index k, const Units& members, const std::int8_t* clamp)
      : Model(A.n, members.count, A.starts[A.n], clamp) {
    Scratch<std::int32_t> place(A.n, -1);
    for (Index member = 0; member < members.count; ++member) {
      for (auto slot = members.first[member]; slot < members.first[member + 1]; ++slot) {
        const auto i = members.bits[slot];
        if (clamp[i] < 0) place[i] = n, add_bit(static_cast<int>(i));
      }
      if (n > first[units]) close_unit(members.group[member]);
    }
    const double *linear = A.linear + k * A.n, *quadratic = A.quadratic + k * A.edges;
    Index edges = 0;
    starts[0] = 0;
    for (int b = 0; b < n; ++b) {
      const int i = bit[b];
      h[b] = linear[i];
      for (auto slot = A.starts[i]; slot < A.starts[i + 1]; ++slot) {
        const auto j = A.neighbors[slot];
        const double coupling = quadratic[A.places[slot]];
        if (clamp[j] == 1) h[b] += coupling;
        if (place[j] >= 0 && coupling != 0 && unit_of_[place[j]] != unit_of_[b])
          to[edges] = place[j], value[edges++] = coupling;
      }
      starts[b + 1] = edges;
    }
    for (Index i = 0; i < A.n; ++i) {
      if (clamp[i] != 1) continue;
      constant += linear[i];
      for (auto slot = A.starts[i]; slot < A.starts[i + 1]; ++slot)
        if (clamp[A.neighbors[slot]] == 1) constant += 0.5 * quadratic[A.places[slot]];
    }
  }

  const double* row(int b) const { return rows + std::size_t(b) * n; }

  // Return the sum of all coefficients' sizes.
  double size() const {
    double total = 0;
    for (int b = 0; b < n; ++b) total += absolute(h[b]);
    if (rows)
      for (int b = 0; b < n; ++b)
        for (int c = 0; c < n; ++c) total += b == c ? 0 : absolute(row(b)[c]);
    else
      for (auto slot = starts[0]; slot < starts[n]; ++slot) total += absolute(value[slot]);
    return total;
  }

  template <class Visit>
  void for_moves(const State& state, int unit, Visit visit) const {
    if (!group[unit]) return visit(state.x[first[unit]] ? Move{first[unit], -1} : Move{-1, first[unit]});
    int own = first[unit];
    while (own < first[unit + 1] - 1 && !state.x[own]) ++own;
    for (int b = first[unit]; b < first[unit + 1]; ++b)
      if (b != own) visit(Move{own, b});
  }

  // Read the free bits of the QUBO's `bits`; in a group the best bit of those that are 1, or of all if none is.
  void load_bits(State& state, const std::int8_t* bits) const {
    if (!clamp) return load(state, bits);
    for (int unit = 0; unit < units; ++unit) {
      if (!group[unit]) {
        state.x[first[unit]] = bits[bit[first[unit]]];
        continue;
      }
      int best = first[unit];
      for (int b = best; b < first[unit + 1]; ++b) {
        state.x[b] = 0;
        const int more = (bits[bit[b]] == 1) - (bits[bit[best]] == 1);
        if (more > 0 || (more == 0 && h[b] < h[best])) best = b;
      }
      state.x[best] = 1;
    }
    sum(state);
  }

  void load(State& state, const std::int8_t* x) const {
    std::memcpy(state.x.data(), x, n);
    sum(state);
  }

  // Sum the energy, the fields and the key of the state again.
  void sum(State& state) const {
    state.energy = 0, state.key = 0;
    std::memcpy(state.fields.data(), h.data(), n * sizeof(double));
    for (int b = 0; b < n; ++b) {
      if (!grouped && !rows)  // half of the bits are 1: no branch could foresee which
        for (auto slot = starts[b]; slot < starts[b + 1]; ++slot) state.fields[b] += state.x[to[slot]] * value[slot];
      else if (state.x[b])
        add(state, b, 1);
    }
    for (int b = 0; b < n; ++b) {
      state.energy += state.x[b] * 0.5 * (h[b] + state.fields[b]);
      state.key ^= bit_key(b, n) & -std::uint64_t(state.x[b]);
    }
  }

  void apply(State& state, Move move) const {
    state.energy += state.cost(move), state.key = state.key_after(move);
    shift(state, move);
  }

  // Take moves that lower the energy until none does.
  void descend(State& state) const {
    if (steep()) return flip_steepest(state, -1);
    for (int unit = 0; unit < units; ++unit) push(unit);
    follow(state, -1);
  }

  // Make a move and descend with its unit held; return the moves that took, if it can be undone.
  int settle(State& state, Move move, int unit) const {
    apply(state, move);
    if (steep()) return flip_steepest(state, unit), 0;
    push_around(move);
    return follow(state, unit);
  }

  // Offer what a move settles to, and leave the state as it was.
  void try_move(State& state, State& room, Move move, int unit, Pool& pool) const {
    if (steep()) {
      room.copy(state);
      settle(room, move, unit);
      return pool.offer(room);
    }
    const double energy = state.energy;
    const std::uint64_t key = state.key;
    const int flips = settle(state, move, unit);  // undone below: a copy would take longer
    pool.offer(state);
    for (int k = flips - 1; k >= 0; --k) shift(state, {moves[k].on, moves[k].off});
    shift(state, {move.on, move.off});
    state.energy = energy, state.key = key;
  }

  // Write all bits of the QUBO in a state x [n].
  void write(const std::int8_t* x, std::int8_t* bits) const {
    for (int i = 0; i < all; ++i) bits[i] = clamp && clamp[i] == 1;
    for (int b = 0; b < n; ++b)
      if (x[b]) bits[bit[b]] = 1;
  }
 private:
  Model(Index bits, Index units, Index slots, const std::int8_t* clamp)
      : clamp(clamp), unit_of_(bits), waiting(units), queued(units, 0), moves(DESCENT * bits + ROUNDS),
        all(static_cast<int>(bits)), bit(bits), first(units + 1), group(units), h(bits), starts(bits + 1), to(slots),
        value(slots) {
    first[0] = 0;
  }
  void add_bit(int i) { bit[n] = i, unit_of_[n++] = units; }
  void close_unit(bool is_group) {
    grouped = grouped || is_group;
    group[units++] = is_group, first[units] = n;
  }

  // Make a move, but leave the energy and the key.
  void shift(State& state, Move move) const {
    if (move.off >= 0) state.x[move.off] = 0, add(state, move.off, -1);
    if (move.on >= 0) state.x[move.on] = 1, add(state, move.on, 1);
  }

  void add(State& state, int b, double step) const {
    double* fields = state.fields.data();
    if (!rows) {
      for (auto slot = starts[b]; slot < starts[b + 1]; ++slot) fields[to[slot]] += step * value[slot];
      return;
    }
    const double own = fields[b], *couplings = row(b);
    for (int c = 0; c < n; ++c) fields[c] += step * couplings[c];
    fields[b] = own;
  }

  // With rows all flips are compared at once; with lists, or groups, only the neighbors of the last move.
  bool steep() const { return rows && !grouped; }

  // Flip the bit that lowers the energy most until none does.
  void flip_steepest(State& state, int held) const {
    for (int round = 0; round < DESCENT * n + ROUNDS; ++round) {
      double lowest = -1e-13 * absolute(state.energy);
      const int best = find_lowest(0, n, lowest, [&](int i, Longs index) {
        Index bits;  // one in each byte, which shifts bring to the places of signs
        std::memcpy(&bits, state.x.data() + i, WIDE);
        const Longs signs = splat<Longs>(bits) << Longs{63, 55, 47, 39, 31, 23, 15, 7} & INT64_MIN;
        const auto fields = VARIANT::load<Longs>(state.fields.data() + i);
        return index == held ? splat<Doubles>(INFINITE) : (Doubles)(fields ^ signs);
      });
      if (best < 0) return;
      apply(state, state.x[best] ? Move{best, -1} : Move{-1, best});
    }
  }

  void push(int unit) const {
    if (!queued[unit]) queued[unit] = 1, waiting[queue_size++] = unit;
  }
  void push_around(Move move) const {
    for (int b : {move.off, move.on})
      if (b >= 0)
        for (auto slot = starts[b]; slot < starts[b + 1]; ++slot) push(unit_of_[to[slot]]);
  }

  // Take the best move of each waiting unit if it lowers the energy, and look at the neighbors then; return the moves.
  int follow(State& state, int held) const {
    int made = 0;
    while (queue_size > 0) {
      const int unit = waiting[--queue_size];
      queued[unit] = 0;
      double lowest = -1e-13 * absolute(state.energy);
      const int b = first[unit];
      if (!group[unit] && (1 - 2 * state.x[b]) * state.fields[b] >= lowest) continue;
      Move best{-1, -1};
      for_moves(state, unit, [&](Move move) {
        if (state.cost(move) < lowest) lowest = state.cost(move), best = move;
      });
      if (unit == held || (best.off < 0 && best.on < 0) || made == static_cast<int>(moves.size())) continue;
      apply(state, best);
      moves[made++] = best;
      push_around(best);
    }
    return made;
  }
};

// Offer every change of one unit of the lowest states until all but the last in the pool have been expanded.
inline void offer_neighbors(const Model& A, State& state, Pool& pool, Control& control) {
  for (int round = 0; round < ROUNDS * (A.n + pool.count); ++round) {
    const int rank = pool.next_to_expand();
    if (rank < 0 || control.stopped()) return;
    A.load(state, pool.state(rank));
    state.energy = pool.energy(rank);
    for (int unit = 0; unit < A.units; ++unit)
      A.for_moves(state, unit, [&](Move move) {
        pool.offer(state.x.data(), state.energy + state.cost(move), state.key_after(move), move);
      });
  }
}

// Make every move from the best state and descend with its unit held, as long as that improves the best.
inline void offer_held_descents(const Model& A, State& state, Pool& pool, Control& control) {
  State room(A.n);
  double best = INFINITE;
  for (int round = 0; round < (A.n <= (A.grouped ? 512 : 128) ? ROUNDS : 2); ++round) {
    if (best < INFINITE && !(pool.energy(0) < best - 1e-13 * absolute(best))) return;
    best = pool.energy(0);
    A.load(state, pool.state(0));
    state.energy = best;
    for (int unit = 0; unit < A.units && !control.stopped(); ++unit)
      A.for_moves(state, unit, [&](Move move) { A.try_move(state, room, move, unit, pool); });
  }
}

constexpr int MAX_EXCHANGE_BITS = 512;  // above, exchanges take longer than the annealing itself

// Lower the best state, and then some reads [count, all bits], by two and three moves at once, as penalties may require.
void exchange(Model& A, const std::int8_t* reads, Index count, Pool& pool, Control& control);

}  // namespace qubolearn::VARIANT
