// The local search around reads, and exchanges of two and three bits.
#include "local_search.hpp"

namespace qubolearn::VARIANT {
namespace {

// Reads that are improved if the best state was not the lowest of its exchanges, and those in a row that may be in vain.
constexpr int STARTS = 64, PATIENCE = 6;

// Return what rounding may change of an energy.
double tolerance_of(const double* S, int n) {
  double total = 0;
  for (std::size_t i = 0; i < std::size_t(n) * n; ++i) total += absolute(S[i]);
  return 1e-13 * total;
}

// Costs of several moves at once.
template <class Model>
class Exchanges {
  const Model& A;
  const double* S;
  int size = 0;
  Scratch<Move> moves;
  Scratch<double> costs, after, least, turned;

 public:
  const double tolerance;

  Exchanges(const Model& A, const double* S)
      : A(A), S(S), moves(A.n), costs(padded(A.n)), after(padded(A.n)), least(A.n), turned(A.n * padded(A.n)),
        tolerance(tolerance_of(S, A.n)) {}

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
    for (int unit = 0; unit < A.units; ++unit) A.for_moves(state, unit, [&](Move move) { moves[size++] = move; });
    for (std::size_t k = size; k < padded(size); ++k) costs[k] = INFINITE;
    for (int i = 0; i < size; ++i) {
      double* to = row(i);
      A.fill_interactions(S, state, moves.data(), i, to);
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
template <class Model>
void chain(const Model& A, State& state, State& room, double tolerance) {
  for (int unit = 0; unit < A.units; ++unit) {
    bool lower = true;
    while (lower) {
      lower = false;
      A.for_moves(state, unit, [&](Move move) {
        if (lower) return;  // the moves of the unit have changed
        room.copy(state);
        A.settle(room, move, unit);
        lower = room.energy < state.energy - tolerance;
      });
      if (lower) state.copy(room);
    }
  }
}

// Lower a state by chains and exchanges in turn until neither does.
template <class Model>
void improve(const Model& A, Exchanges<Model>& exchanges, State& state, State& room, Control& control) {
  for (int round = 0; round < ROUNDS && !control.stopped(); ++round) {
    const double before = state.energy;
    chain(A, state, room, exchanges.tolerance);
    exchanges.pass(state, control);
    room.copy(state);
    A.load(state, room.x.data());  // again: sums of moves are rounded
    if (!(state.energy < before - exchanges.tolerance)) break;
  }
}

template <class Model>
void exchange_moves(const Model& A, const double* S, const std::int8_t* reads, std::int64_t count, std::int64_t size,
                    Pool& pool, Control& control) {
  Exchanges<Model> exchanges(A, S);
  State state(A.n), room(A.n);
  A.load(state, pool.state(0));
  if (!exchanges.pass(state, control)) return;
  int vain = 0;
  for (std::int64_t start = 0; start <= (count < STARTS ? count : STARTS) && vain < PATIENCE; ++start) {
    if (control.stopped()) return;
    const double best = pool.energy(0);
    if (start == 0)
      A.load(state, pool.state(0));
    else
      A.load_bits(state, reads + (start - 1) * size);
    A.descend(state);
    improve(A, exchanges, state, room, control);
    pool.offer(state);
    vain = pool.energy(0) < best - exchanges.tolerance ? 0 : vain + 1;
  }
  offer_neighbors(A, state, pool, control);
}

template <class Model>
void offer_reads(const Model& A, const Refinement& how, std::int64_t k, State& state, Pool& pool, double tolerance,
                 Control& control) {
  Seen seen(how.reads);
  for (std::int64_t read = 0; read < how.reads && !control.stopped(); ++read) {
    A.load_bits(state, how.read + (k * how.reads + read) * how.n);
    if (!seen.add(state.key, state.energy)) continue;
    pool.offer(state);
    A.descend(state);
    pool.offer(state);
  }
  how.success[k] = seen.success(tolerance);
}

}  // namespace

void exchange(const ListModel& A, const std::int8_t* reads, std::int64_t count, std::int64_t size, Pool& pool,
              Control& control) {
  const Scratch<double> S = A.dense();
  if (!A.grouped && A.n == size)  // the same moves, with faster rows
    exchange_moves(DenseModel(S.data(), A.n), S.data(), reads, count, size, pool, control);
  else
    exchange_moves(A, S.data(), reads, count, size, pool, control);
}

void refine_dense(const DenseQubos& all, const Refinement& how, Control& control) {
  const double* S = all.S;
  const int n = static_cast<int>(how.n);
  control.share(how.batch, 1 + how.batch / (16 * control.threads()), [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t k = first; k < last && !control.stopped(); ++k) {
      const DenseModel A(S + k * how.n * how.n, n);
      Pool pool(static_cast<int>(how.count), n);
      State state(n);
      offer_reads(A, how, k, state, pool, 10 * tolerance_of(S + k * how.n * how.n, n), control);
      offer_held_descents(A, state, pool, control);
      offer_neighbors(A, state, pool, control);
      if (how.exchanges && n <= MAX_EXCHANGE_BITS)
        exchange_moves(A, S + k * how.n * how.n, how.read + k * how.reads * n, how.reads, n, pool, control);
      for (int rank = 0; rank < pool.count; ++rank)
        std::memcpy(how.states + (k * how.count + rank) * n, pool.state(rank), n);
    }
  });
}

void refine_sparse(const SparseQubos& A, const Units& units, const std::int8_t* clamps, const Refinement& how,
                   Control& control) {
  control.share(how.batch, 1 + how.batch / (16 * control.threads()), [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t k = first; k < last && !control.stopped(); ++k) {
      const std::int8_t* clamp = clamps + k * A.n;
      const ListModel model(A, k, units, clamp);
      Pool pool(static_cast<int>(how.count), model.n);
      State state(model.n);
      offer_reads(model, how, k, state, pool, 1e-12 * model.size(), control);
      offer_held_descents(model, state, pool, control);
      offer_neighbors(model, state, pool, control);
      if (how.exchanges && model.n <= MAX_EXCHANGE_BITS)
        exchange(model, how.read + k * how.reads * A.n, how.reads, A.n, pool, control);
      for (int rank = 0; rank < pool.count; ++rank)
        model.write(pool.state(rank), clamp, A.n, how.states + (k * how.count + rank) * A.n);
    }
  });
}

}  // namespace qubolearn::VARIANT
