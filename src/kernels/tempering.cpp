// Parallel tempering: replicas of one QUBO at different temperatures, sixteen in the lanes of a vector.
// A sweep draws every unit from its exact conditional distribution, exp(-β field) (heat bath). Fields are summed again: a
// mask holds in which replicas a bit is 1, so one masked addition adds a coupling in sixteen. Then replicas at neighboring
// temperatures swap with probability min(1, exp(ΔβΔE)).
#include "local_search.hpp"

namespace qubolearn::VARIANT {
namespace {

constexpr int SWEEPS_PER_SUM = 32;  // between two sums of the energies in double: changes in between are float
// The annealing that chooses temperatures: β grows by GROWTH at most STEPS times, with some sweeps at each.
constexpr double GROWTH = 1.15;
constexpr int STEPS = 90, SWEEPS_PER_STEP = 4;
// The hottest and the coldest replica raise the energy in these shares of their moves.
constexpr double HOT_RATE = 0.05, COLD_RATE = 0.003;

class Replicas {
  const Model& A;
  const int columns;      // vectors of 16 replicas
  Scratch<Mask> ones;     // [n, columns]: the replicas in which a bit is 1
  Scratch<Words> random;  // [columns]
  Stream swaps;
  Scratch<float> h, values, change, room;
 public:
  const int count;
  Scratch<float> betas, raised;  // [count]; how often moves raised the energy
  Scratch<double> energies;
  Scratch<std::int32_t> order;  // [count]: the replicas from hot to cold
  State state;

  Replicas(const Model& A, Index count, std::uint64_t seed)
      : A(A), columns(static_cast<int>(count) / LANES), ones(std::size_t(A.n) * columns, 0), random(columns),
        swaps(seed, ~std::uint64_t(0)), h(A.n), values(A.starts[A.n]), change(count), room(2 * LANES * A.n),
        count(static_cast<int>(count)), betas(count, 0.0f), raised(count, 0.0f), energies(count, 0.0), order(count),
        state(A.n) {
    for (int b = 0; b < A.n; ++b) h[b] = static_cast<float>(A.h[b]);
    for (std::size_t k = 0; k < values.size(); ++k) values[k] = static_cast<float>(A.value[k]);
    for (int column = 0; column < columns; ++column) random[column] = lane_seeds(Stream(seed, column));
    for (int replica = 0; replica < count; ++replica) {
      Stream draws(seed, (std::uint64_t(1) << 40) + replica);
      for (int b = 0; b < A.n; ++b) state.x[b] = 0;
      for (int unit = 0; unit < A.units; ++unit) {
        const auto size = static_cast<std::uint64_t>(A.first[unit + 1] - A.first[unit]);
        const std::uint64_t number = draws.next() >> 11;
        if (A.group[unit] || number & 1) state.x[A.first[unit] + (A.group[unit] ? number % size : 0)] = 1;
      }
      set(replica);
      order[replica] = replica;
    }
  }

  // Copy the state to a replica, or a replica to the state without its energy and fields.
  void set(int replica) {
    for (int b = 0; b < A.n; ++b) {
      Mask& mask = ones[std::size_t(b) * columns + replica / LANES];
      const auto bit = static_cast<Mask>(1u << (replica % LANES));
      mask = state.x[b] ? mask | bit : mask & ~bit;
    }
  }
  void get(int replica) {
    for (int b = 0; b < A.n; ++b)
      state.x[b] = ones[std::size_t(b) * columns + replica / LANES] >> (replica % LANES) & 1;
  }

  void write(int replica, std::int8_t* bits) {
    get(replica);
    A.write(state.x.data(), bits);
  }

  void sum_energies() {
    for (int replica = 0; replica < count; ++replica) {
      get(replica);
      A.sum(state);
      energies[replica] = state.energy;
    }
  }

  void offer_to(Pool& pool) {
    for (int replica = 0; replica < count; ++replica) {
      if (energies[replica] >= pool.highest()) continue;
      get(replica);
      std::uint64_t key = 0;
      for (int b = 0; b < A.n; ++b)
        if (state.x[b]) key ^= bit_key(b, A.n);
      if (pool.holds(key)) continue;
      A.sum(state);
      pool.offer(state);
    }
  }

  // Sweep and swap until the pool holds the target, or for some sweeps: return how many. Fills the shares of swaps.
  Index run(Index sweeps, Pool& pool, double target, double* rates, Control& control) {
    Scratch<Index> tried(count, 0), swapped(count, 0);
    Index done = 0;
    while (done < sweeps && pool.energy(0) > target && !control.stopped()) {
      sweep();
      if (++done % SWEEPS_PER_SUM == 0) sum_energies();
      else
        for (int replica = 0; replica < count; ++replica) energies[replica] += change[replica];
      offer_to(pool);
      for (int k = static_cast<int>(done % 2); k < count - 1; k += 2) {
        const int hot = order[k], cold = order[k + 1];
        const double gain = (double(betas[cold]) - betas[hot]) * (energies[cold] - energies[hot]);
        const double draw = swaps.exponential();
        ++tried[k];
        if (draw <= -gain) continue;
        order[k] = cold, order[k + 1] = hot;
        const float beta = betas[hot];
        betas[hot] = betas[cold], betas[cold] = beta;
        ++swapped[k];
      }
    }
    for (int k = 0; k < count - 1; ++k)
      rates[k] = static_cast<double>(swapped[k]) / static_cast<double>(tried[k] ? tried[k] : 1);
    return done;
  }

  void sweep() {
    for (int column = 0; column < columns; ++column) {
      Mask* own = ones.data() + column;
      const Floats beta = load(betas.data() + column * LANES);
      Floats changed{}, ups = load(raised.data() + column * LANES);
      for (int unit = 0; unit < A.units; ++unit) {
        const Floats uniform = uniforms(random[column]);
        if (A.group[unit]) draw_group(own, unit, beta, uniform, changed, ups);
        else draw_bit(own, A.first[unit], beta, uniform, changed, ups);
      }
      store(raised.data() + column * LANES, ups);
      store(change.data() + column * LANES, changed);
    }
  }
 private:
  // Sum the field of a bit in sixteen replicas, in four parts: one would wait for each addition.
  INLINE Floats field(const Mask* own, int b) const {
    Floats parts[4] = {splat(h[b])};
    auto k = A.starts[b];
    const auto end = A.starts[b + 1];
    for (; k + 3 < end; k += 4)
      for (int part = 0; part < 4; ++part) parts[part] = with_coupling(parts[part], own, k + part);
    for (; k < end; ++k) parts[0] = with_coupling(parts[0], own, k);
    return (parts[0] + parts[1]) + (parts[2] + parts[3]);
  }
  INLINE Floats with_coupling(Floats total, const Mask* own, Index k) const {
    return add_where(total, own[std::size_t(A.to[k]) * columns], splat(values[k]));
  }

  INLINE void draw_bit(Mask* own, int b, Floats beta, Floats uniform, Floats& changed, Floats& ups) {
    const Floats f = field(own, b), size = maximum(f, -f), weight = exp(-size * beta);
    // The state of higher energy has the probability weight / (1 + weight).
    const Mask higher = below(uniform * (1.0f + weight), weight), was = own[std::size_t(b) * columns];
    const auto is = static_cast<Mask>(below(f, Floats{}) ^ higher);
    const auto flipped = static_cast<Mask>(was ^ is);
    own[std::size_t(b) * columns] = is;
    changed = add_where(changed, flipped, negate_where(f, was));
    ups = add_where(ups, flipped & higher & below(Floats{}, size), splat(1.0f));
  }

  INLINE void draw_group(Mask* own, int unit, Floats beta, Floats uniform, Floats& changed, Floats& ups) {
    const int start = A.first[unit], size = A.first[unit + 1] - start;
    Floats lowest = splat(__builtin_inff()), before{}, after{}, total{};
    for (int k = 0; k < size; ++k) {
      const Floats f = field(own, start + k);
      store(room.data() + LANES * k, f);
      lowest = minimum(f, lowest);
      before = add_where(before, own[std::size_t(start + k) * columns], f);
    }
    for (int k = 0; k < size; ++k) {
      total += exp((lowest - load(room.data() + LANES * k)) * beta);
      store(room.data() + LANES * (size + k), total);
    }
    const Floats level = uniform * total;
    Mask passed = 0;  // the replicas whose option was found
    for (int k = 0; k < size; ++k) {
      const Mask here = k + 1 < size ? below(level, load(room.data() + LANES * (size + k))) : Mask(0xFFFF);
      const auto one = static_cast<Mask>(here & ~passed);
      passed |= one;
      own[std::size_t(start + k) * columns] = one;
      after = add_where(after, one, load(room.data() + LANES * k));
    }
    changed += after - before;
    ups = add_where(ups, below(before, after), splat(1.0f));
  }
};

// Return a β at which all values of a unit are nearly equally likely.
double first_beta(const Model& A) {
  double largest = 0;
  for (int b = 0; b < A.n; ++b) {
    double size = absolute(A.h[b]);
    for (auto k = A.starts[b]; k < A.starts[b + 1]; ++k) size += absolute(A.value[k]);
    largest = maximum(size, largest);
  }
  return largest > 0 ? 0.5 / largest : 1.0;
}

// Spread β between the first of `size` steps with few enough raising moves and the last one, for equal rates of swaps. The
// chance of one depends on (β' - β)(E(β) - E(β')): distances are equal in the sum of its square roots along the steps.
void spread(const double* steps, const double* rates, const double* means, int size, Scratch<float>& betas) {
  const int last = size - 1, count = static_cast<int>(betas.size());
  int hot = last;
  while (hot > 0 && rates[hot - 1] < HOT_RATE) --hot;
  double length[STEPS] = {};
  for (int step = hot; step < last; ++step) {
    const double gap = (steps[step + 1] - steps[step]) * (means[step] - means[step + 1]);
    length[step + 1] = length[step] + __builtin_sqrt(gap > 0 ? gap : 0) + 1e-3;  // steps of equal energy differ, too
  }
  int step = hot;
  for (int k = 0; k < count; ++k) {
    const double place = length[last] * k / (count > 1 ? count - 1 : 1);
    while (step < last - 1 && length[step + 1] < place) ++step;
    const double share = last > hot ? minimum(1.0, (place - length[step]) / (length[step + 1] - length[step])) : 0;
    betas[k] = static_cast<float>(steps[step] + share * (steps[step < last ? step + 1 : last] - steps[step]));
  }
}

// Set the replicas' β: given, or by annealing up to β = cold or until few moves raise the energy; return its sweeps.
Index set_betas(const Model& A, Replicas& replicas, const double* given, double cold, Pool& pool, double target,
                Control& control) {
  if (given[0] > 0) {
    for (int k = 0; k < replicas.count; ++k) replicas.betas[k] = static_cast<float>(given[k]);
    replicas.sum_energies();
    return 0;
  }
  double steps[STEPS], rates[STEPS], means[STEPS], beta = minimum(cold, first_beta(A)), growth = GROWTH;
  // a given temperature is always reached, however far it is from the first one
  for (double reach = 0; reach < cold && cold < INFINITE; growth *= reach < cold ? GROWTH : 1) {
    reach = beta;
    for (int k = 0; k < STEPS - 2; ++k) reach *= growth;
  }
  int size = 0;
  bool done = false;
  while (size < STEPS && !done) {
    for (int k = 0; k < replicas.count; ++k) replicas.betas[k] = static_cast<float>(beta), replicas.raised[k] = 0;
    for (int sweep = 0; sweep < SWEEPS_PER_STEP; ++sweep) replicas.sweep();
    replicas.sum_energies();
    replicas.offer_to(pool);
    double mean = 0, raised = 0;
    for (int k = 0; k < replicas.count; ++k) mean += replicas.energies[k], raised += replicas.raised[k];
    const double moves = double(replicas.count) * SWEEPS_PER_STEP * (A.units ? A.units : 1);
    steps[size] = beta, means[size] = mean / replicas.count, rates[size] = raised / moves;
    done = (cold < INFINITE ? beta >= cold : rates[size] < COLD_RATE) || pool.energy(0) <= target || control.stopped();
    beta = minimum(beta * growth, cold);
    ++size;
  }
  spread(steps, rates, means, size, replicas.betas);
  return Index(size) * SWEEPS_PER_STEP;
}

// Clamp in `ruled` every bit that has one value in all states up to the target; none if there are no such states. A bit
// adds at least m, h and half of its negative couplings, so every energy is at least Σ_u min m over the values of unit u.
void rule_out(const Tempering& problem, Index k, double target, std::int8_t* ruled) {
  const Index n = problem.A.n;
  for (Index round = 0; round <= n; ++round) {
    const Model A(problem.A, k, problem.units, ruled);
    Scratch<double> bounds(A.n), lowest(A.units);
    for (int b = 0; b < A.n; ++b) {
      bounds[b] = A.h[b];
      for (auto k = A.starts[b]; k < A.starts[b + 1]; ++k) bounds[b] += 0.5 * minimum(A.value[k], 0.0);
    }
    double slack = target - A.constant, size = 1 + absolute(A.constant);
    for (int unit = 0; unit < A.units; ++unit) {
      lowest[unit] = A.group[unit] ? INFINITE : 0;
      for (int b = A.first[unit]; b < A.first[unit + 1]; ++b) {
        lowest[unit] = minimum(bounds[b], lowest[unit]);
        size += absolute(bounds[b]);
      }
      slack -= lowest[unit];
    }
    if (slack < -1e-9 * size) {
      std::memcpy(ruled, problem.clamps.at(k), n);
      return;
    }
    slack += 1e-9 * size;
    int fixed = 0;
    for (int unit = 0; unit < A.units; ++unit) {
      int left = !A.group[unit] && -lowest[unit] <= slack, last = -1;  // a single bit can be 0, too
      for (int b = A.first[unit]; b < A.first[unit + 1]; ++b) {
        if (bounds[b] - lowest[unit] <= slack) ++left, last = b;
        else ruled[A.bit[b]] = 0, ++fixed;
      }
      if (left == 1 && last >= 0) ruled[A.bit[last]] = 1, ++fixed;
    }
    if (fixed == 0) return;
  }
}

// Check the replicas' β [batch, replicas], from hot to cold: given, or filled if the first one is 0.
template <class T>
void require_betas(View<T, 2> betas, int multiple) {
  require(betas.shape[1] >= 1 && betas.shape[1] % multiple == 0, "expected replicas, a multiple of 16 of them");
  for (const double* beta = betas.data; beta < betas.at(betas.shape[0]); ++beta)
    require(*beta >= 0 && *beta < INFINITE, "expected finite betas >= 0");
}

}  // namespace

void temper(Control& control, Tempering problem, Out<double, 2> betas, Index sweeps, In<double, 1> targets,
            Out<std::int8_t, 3> states, Out<double, 2> rates, Out<Index, 1> swept) {
  const Index n = problem.A.n, count = states.shape[1], size = count * n, replicas_count = betas.shape[1];
  require_betas(betas, LANES);
  require(sweeps >= 0 && count >= 1, "expected sweeps >= 0 and a count >= 1");
  require(rates.shape[1] == replicas_count - 1, "expected rates [batch, replicas - 1]");
  // Run one search and add its sweeps; return the lowest energy, or the target if that was reached up to rounding.
  const auto search = [&](Index k, const std::int8_t* clamp) {
    Model A(problem.A, k, problem.units, clamp);
    Pool pool(static_cast<int>(count), A.n);
    Replicas replicas(A, replicas_count, problem.seeds.data[k]);
    const double target = targets.data[k] - A.constant + 1e-9 * (1 + absolute(A.constant) + A.size());
    const Index chosen = set_betas(A, replicas, betas.at(k), INFINITE, pool, target, control);
    swept.data[k] += chosen + replicas.run(sweeps - chosen, pool, target, rates.at(k), control);
    for (int r = 0; r < replicas.count; ++r) betas.at(k)[r] = replicas.betas[replicas.order[r]];
    if (pool.energy(0) > target || count > 1) {
      for (int r = 0; r < replicas.count && !control.stopped(); ++r) {
        replicas.get(r);
        A.sum(replicas.state);
        pool.offer(replicas.state);
        A.descend(replicas.state);
        pool.offer(replicas.state);
      }
      offer_neighbors(A, replicas.state, pool, control);
    }
    if (pool.energy(0) > target) {
      Scratch<std::int8_t> reads(std::size_t(replicas.count) * n);
      for (int r = 0; r < replicas.count; ++r) replicas.write(replicas.order[r], reads.data() + r * n);
      exchange(A, reads.data(), replicas.count, pool, control);
    }
    for (int rank = 0; rank < pool.count; ++rank) A.write(pool.state(rank), states.at(k) + rank * n);
    return pool.energy(0) <= target ? targets.data[k] : pool.energy(0) + A.constant;
  };
  control.share_each(problem.A.batch, [&](Index k) {
    const std::int8_t* clamp = problem.clamps.at(k);
    Scratch<std::int8_t> ruled(n);
    std::memcpy(ruled.data(), clamp, n);
    if (count == 1 && targets.data[k] > -INFINITE) rule_out(problem, k, targets.data[k], ruled.data());
    const bool given = betas.at(k)[0] > 0;
    swept.data[k] = 0;
    const double lowest = search(k, ruled.data());
    if (lowest <= targets.data[k] || std::memcmp(ruled.data(), clamp, n) == 0 || control.stopped()) return;
    Scratch<std::int8_t> before(size);
    std::memcpy(before.data(), states.at(k), size);
    if (!given) betas.at(k)[0] = 0;
    if (search(k, clamp) >= lowest) std::memcpy(states.at(k), before.data(), size);
  });
}

void temper_sample(Control& control, Tempering problem, Out<double, 2> betas, In<double, 1> colds, Index burn,
                   Index thin, Out<std::int8_t, 3> states) {
  require_betas(betas, LANES);
  require(burn >= 0 && thin >= 0, "expected burn >= 0 and thin >= 0");
  for (Index k = 0; k < colds.shape[0]; ++k) require(colds.data[k] >= 0, "expected colds >= 0");
  control.share_each(problem.A.batch, [&](Index k) {
    const Model A(problem.A, k, problem.units, problem.clamps.at(k));
    Pool pool(1, A.n);
    Replicas replicas(A, betas.shape[1], problem.seeds.data[k]);
    Scratch<double> rates(replicas.count);
    set_betas(A, replicas, betas.at(k), colds.data[k], pool, -INFINITE, control);
    for (int r = 0; r < replicas.count; ++r) betas.at(k)[r] = replicas.betas[r];
    replicas.run(burn, pool, -INFINITE, rates.data(), control);
    for (Index read = 0; read < states.shape[1]; ++read) {
      replicas.run(thin, pool, -INFINITE, rates.data(), control);
      replicas.write(replicas.order[replicas.count - 1], states.at(k) + read * A.all);
    }
  });
}

void move_chains(Control& control, Tempering problem, In<double, 2> betas, Index sweeps,
                 Out<std::int8_t, 3> states) {
  const Index n = problem.A.n, count = betas.shape[1];
  require_betas(betas, 1);
  require(sweeps >= 0, "expected sweeps >= 0");
  require_bits(states);
  control.share_each(problem.A.batch, [&](Index k) {
    const Model A(problem.A, k, problem.units, problem.clamps.at(k));
    Replicas replicas(A, (count + LANES - 1) / LANES * LANES, problem.seeds.data[k]);
    for (int r = 0; r < replicas.count; ++r) replicas.betas[r] = static_cast<float>(betas.at(k)[r < count ? r : 0]);
    for (int r = 0; r < count; ++r) {
      A.load_bits(replicas.state, states.at(k) + r * n);
      replicas.set(r);
    }
    for (Index sweep = 0; sweep < sweeps && !control.stopped(); ++sweep) replicas.sweep();
    for (int r = 0; r < count; ++r) replicas.write(r, states.at(k) + r * n);
  });
}

}  // namespace qubolearn::VARIANT
