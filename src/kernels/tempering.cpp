// Parallel tempering: replicas of one QUBO at different temperatures, sixteen in the lanes of a vector.
//
// A sweep visits every unit and draws its bit, or which bit of a group is 1, from the exact conditional distribution,
// exp(-β field), given all other units (heat bath). Fields are summed again from the couplings: a mask holds in which
// replicas a bit is 1, so that one masked addition adds a coupling in sixteen replicas. After each sweep, replicas at
// neighboring temperatures swap with probability min(1, exp(ΔβΔE)).
#include "local_search.hpp"

namespace qubolearn::VARIANT {
namespace {

constexpr int SWEEPS_PER_SUM = 32;  // between two sums of the energies in double: changes in between are float

// The annealing that chooses temperatures: β grows by GROWTH at most STEPS times, with some sweeps at each.
constexpr double GROWTH = 1.15;
constexpr int STEPS = 90, SWEEPS_PER_STEP = 4;
// The hottest and the coldest replica raise the energy in these shares of their moves.
constexpr double HOT_RATE = 0.05, COLD_RATE = 0.003;

int largest_unit(const Model& A) {
  int largest = 1;
  for (int unit = 0; unit < A.units; ++unit)
    if (A.first[unit + 1] - A.first[unit] > largest) largest = A.first[unit + 1] - A.first[unit];
  return largest;
}

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

  Replicas(const Model& A, std::int64_t count, std::uint64_t seed)
      : A(A), columns(static_cast<int>(count) / LANES), ones(std::size_t(A.n) * columns, 0), random(columns),
        swaps(seed, ~std::uint64_t(0)), h(A.n), values(A.starts[A.n]), change(count), room(2 * LANES * largest_unit(A)),
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

  void sum_energies() {
    for (int replica = 0; replica < count; ++replica) {
      get(replica);
      A.sum(state);
      energies[replica] = state.energy;
    }
  }

  // Offer the replicas below the highest energy of the pool.
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
  std::int64_t run(std::int64_t sweeps, Pool& pool, double target, double* rates, Control& control) {
    Scratch<std::int64_t> tried(count, 0), swapped(count, 0);
    std::int64_t done = 0;
    while (done < sweeps && pool.energy(0) > target && !control.stopped()) {
      sweep();
      if (++done % SWEEPS_PER_SUM == 0)
        sum_energies();
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

  // Draw every unit in turn, in all replicas.
  void sweep() {
    for (int column = 0; column < columns; ++column) {
      Mask* own = ones.data() + column;
      const Floats beta = load(betas.data() + column * LANES);
      Floats changed{}, ups = load(raised.data() + column * LANES);
      for (int unit = 0; unit < A.units; ++unit) {
        const Floats uniform = uniforms(random[column]);
        if (A.group[unit])
          draw_group(own, unit, beta, uniform, changed, ups);
        else
          draw_bit(own, A.first[unit], beta, uniform, changed, ups);
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
  INLINE Floats with_coupling(Floats total, const Mask* own, std::int64_t k) const {
    return add_where(total, own[std::size_t(A.to[k]) * columns], splat(values[k]));
  }

  INLINE void draw_bit(Mask* own, int b, Floats beta, Floats uniform, Floats& changed, Floats& ups) {
    const Floats f = field(own, b), size = f < 0.0f ? -f : f, weight = exp(-size * beta);
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
      lowest = f < lowest ? f : lowest;
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
    if (size > largest) largest = size;
  }
  return largest > 0 ? 0.5 / largest : 1.0;
}

// Spread β between the first of `size` steps with few enough raising moves and the last one, for equal rates of swaps.
// The chance of a swap between β and β' is a function of (β' - β)(E(β) - E(β')); so replicas are at equal distances of
// the sum of its square roots along the measured energies.
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
    double share = 0;
    if (last > hot) share = (place - length[step]) / (length[step + 1] - length[step]);
    if (share > 1) share = 1;
    betas[k] = static_cast<float>(steps[step] + share * (steps[step < last ? step + 1 : last] - steps[step]));
  }
}

// Set the replicas' β: those given, or others chosen by a short annealing up to β = cold or until few moves raise the
// energy. Return the sweeps that took.
std::int64_t set_betas(const Model& A, Replicas& replicas, const double* given, double cold, Pool& pool,
                       double target, Control& control) {
  if (given[0] > 0) {
    for (int k = 0; k < replicas.count; ++k) replicas.betas[k] = static_cast<float>(given[k]);
    replicas.sum_energies();
    return 0;
  }
  double steps[STEPS], rates[STEPS], means[STEPS], beta = first_beta(A);
  if (beta > cold) beta = cold;
  double growth = GROWTH;
  if (cold < INFINITE) {  // a given temperature is always reached, however far it is from the first one
    for (double reach = 0; reach < cold; growth *= reach < cold ? GROWTH : 1) {
      reach = beta;
      for (int k = 0; k < STEPS - 2; ++k) reach *= growth;
    }
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
    beta = beta * growth < cold ? beta * growth : cold;
    ++size;
  }
  spread(steps, rates, means, size, replicas.betas);
  return std::int64_t(size) * SWEEPS_PER_STEP;
}

// Fill `ruled` with the clamp and every bit that has one value in all states of at most the target. A bit that is 1 adds
// at least m = h and half of its negative couplings. So every energy is at least Σ_u min m over the values of unit u, and
// at least m - min m more with another value. Fixed bits change the fields of others, hence the rounds. If no state can
// be that low, the clamp is copied.
void rule_out(const Tempering& how, std::int64_t k, double target, std::int8_t* ruled) {
  const std::int64_t n = how.A.n;
  const std::int8_t* clamp = how.clamps + k * n;
  std::memcpy(ruled, clamp, n);
  for (std::int64_t round = 0; round <= n; ++round) {
    const Model A(how.A, k, how.units, ruled);
    Scratch<double> bounds(A.n), lowest(A.units);
    for (int b = 0; b < A.n; ++b) {
      bounds[b] = A.h[b];
      for (auto k = A.starts[b]; k < A.starts[b + 1]; ++k) bounds[b] += 0.5 * minimum(A.value[k], 0.0);
    }
    double slack = target - A.constant, size = 1 + absolute(A.constant);
    for (int unit = 0; unit < A.units; ++unit) {
      lowest[unit] = A.group[unit] ? INFINITE : 0;
      for (int b = A.first[unit]; b < A.first[unit + 1]; ++b) {
        if (bounds[b] < lowest[unit]) lowest[unit] = bounds[b];
        size += absolute(bounds[b]);
      }
      slack -= lowest[unit];
    }
    if (slack < -1e-9 * size) {
      std::memcpy(ruled, clamp, n);
      return;
    }
    slack += 1e-9 * size;
    int fixed = 0;
    for (int unit = 0; unit < A.units; ++unit) {
      int left = !A.group[unit] && -lowest[unit] <= slack, last = -1;  // a single bit can be 0, too
      for (int b = A.first[unit]; b < A.first[unit + 1]; ++b) {
        if (bounds[b] - lowest[unit] <= slack)
          ++left, last = b;
        else
          ruled[A.bit[b]] = 0, ++fixed;
      }
      if (left == 1 && last >= 0) ruled[A.bit[last]] = 1, ++fixed;
    }
    if (fixed == 0) return;
  }
}

// Run one search; return the lowest energy, or the target if that was reached up to rounding. Its sweeps are added to
// those that the instance took before.
double search(const Tempering& how, const TemperingSearch& goal, std::int64_t k, const std::int8_t* clamp,
              Control& control) {
  const std::int64_t n = how.A.n;
  Model A(how.A, k, how.units, clamp);
  Pool pool(static_cast<int>(goal.count), A.n);
  Replicas replicas(A, how.replicas, how.seeds[k]);
  double* betas = how.betas + k * how.replicas;
  const double target = goal.targets[k] - A.constant + 1e-9 * (1 + absolute(A.constant) + A.size());
  const std::int64_t chosen = set_betas(A, replicas, betas, INFINITE, pool, target, control);
  double* rates = goal.rates + k * (how.replicas - 1);
  goal.swept[k] += chosen + replicas.run(how.sweeps - chosen, pool, target, rates, control);
  for (int r = 0; r < replicas.count; ++r) betas[r] = replicas.betas[replicas.order[r]];
  if (pool.energy(0) > target || goal.count > 1) {
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
    for (int r = 0; r < replicas.count; ++r) {
      replicas.get(replicas.order[r]);
      A.write(replicas.state.x.data(), reads.data() + r * n);
    }
    exchange(A, reads.data(), replicas.count, pool, control);
  }
  for (int rank = 0; rank < pool.count; ++rank)
    A.write(pool.state(rank), goal.states + (k * goal.count + rank) * n);
  return pool.energy(0) <= target ? goal.targets[k] : pool.energy(0) + A.constant;
}

}  // namespace

void temper(const Tempering& how, const TemperingSearch& goal, Control& control) {
  const std::int64_t n = how.A.n, size = goal.count * n;
  control.share_each(how.A.batch, [&](std::int64_t k) {
    const std::int8_t* clamp = how.clamps + k * n;
    Scratch<std::int8_t> ruled(n);
    std::memcpy(ruled.data(), clamp, n);
    if (goal.count == 1 && goal.targets[k] > -INFINITE) rule_out(how, k, goal.targets[k], ruled.data());
    const bool given = how.betas[k * how.replicas] > 0;
    goal.swept[k] = 0;
    const double lowest = search(how, goal, k, ruled.data(), control);
    if (lowest <= goal.targets[k] || std::memcmp(ruled.data(), clamp, n) == 0 || control.stopped()) return;
    Scratch<std::int8_t> states(size);
    std::memcpy(states.data(), goal.states + k * size, size);
    if (!given) how.betas[k * how.replicas] = 0;
    if (search(how, goal, k, clamp, control) >= lowest) std::memcpy(goal.states + k * size, states.data(), size);
  });
}

void temper_sample(const Tempering& how, const TemperingSample& goal, Control& control) {
  const std::int64_t n = how.A.n;
  control.share_each(how.A.batch, [&](std::int64_t k) {
    const std::int8_t* clamp = how.clamps + k * n;
    const Model A(how.A, k, how.units, clamp);
    Pool pool(1, A.n);
    Replicas replicas(A, how.replicas, how.seeds[k]);
    Scratch<double> rates(how.replicas);
    double* betas = how.betas + k * how.replicas;
    set_betas(A, replicas, betas, goal.colds[k], pool, -INFINITE, control);
    for (int r = 0; r < replicas.count; ++r) betas[r] = replicas.betas[r];
    replicas.run(goal.burn, pool, -INFINITE, rates.data(), control);
    for (std::int64_t read = 0; read < goal.reads; ++read) {
      replicas.run(goal.thin, pool, -INFINITE, rates.data(), control);
      replicas.get(replicas.order[replicas.count - 1]);
      A.write(replicas.state.x.data(), goal.states + (k * goal.reads + read) * n);
    }
  });
}

void move_chains(const Tempering& how, std::int8_t* states, Control& control) {
  const std::int64_t n = how.A.n, count = how.replicas;
  control.share_each(how.A.batch, [&](std::int64_t k) {
    const std::int8_t* clamp = how.clamps + k * n;
    const Model A(how.A, k, how.units, clamp);
    Replicas replicas(A, (count + LANES - 1) / LANES * LANES, how.seeds[k]);
    for (int r = 0; r < replicas.count; ++r)
      replicas.betas[r] = static_cast<float>(how.betas[k * count + (r < count ? r : 0)]);
    for (int r = 0; r < count; ++r) {
      A.load_bits(replicas.state, states + (k * count + r) * n);
      replicas.set(r);
    }
    for (std::int64_t sweep = 0; sweep < how.sweeps && !control.stopped(); ++sweep) replicas.sweep();
    for (int r = 0; r < count; ++r) {
      replicas.get(r);
      A.write(replicas.state.x.data(), states + (k * count + r) * n);
    }
  });
}

}  // namespace qubolearn::VARIANT
