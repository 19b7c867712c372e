// QUBOs under linear inequalities a·x <= b, one-hot groups and clamps: annealing and exact search, without slack bits.
//
// Annealing moves one state at a time: flips of a bit, exchanges of two bits, moves within a group, and swaps of the
// members of two groups. Each violated constraint costs its weight times its excess. Weights grow while a constraint is
// violated and shrink while it is not, so states oscillate around the border of what is allowed, where the best ones are.
// A descent among allowed states ends every read.
//
// Reads of a colony improve generation by generation, as the populations of population.cpp do: they are reheated,
// annealed back, and crossed with the best state they had.
#include <algorithm>
#include <cmath>
#include <vector>

#include "call.hpp"

namespace qubolearn {
namespace {

using Bits = std::vector<std::int32_t>;

// Constraints of one instance, for each bit: slots starts[i] ... starts[i + 1] - 1 of `which` and `coefficients`.
struct Inequalities {
  Index batch, n, count;
  const Index *starts, *which;
  const double *coefficients, *bounds;
};

std::vector<Index> sizes(const Inequalities& limits) { return {limits.batch, limits.n}; }

void read(const nb::tuple& given, Inequalities& limits) {
  const auto [starts, which, coefficients, bounds] = items<In<Index, 1>, In<Index, 1>, In<double, 2>, In<double, 2>>(
      given, "starts:s which:k coefficients:bk bounds:bm");
  const Index n = starts.shape[0] - 1, slots = which.shape[0], count = bounds.shape[1], *s = starts.data;
  require(n >= 0 && s[0] == 0 && s[n] == slots, "expected starts from 0 to the number of coefficients");
  for (Index i = 0; i < n; ++i) require(s[i] <= s[i + 1], "expected starts in ascending order");
  for (Index k = 0; k < slots; ++k)
    require(which.data[k] >= 0 && which.data[k] < count, "expected constraints below their number");
  limits = {bounds.shape[0], n, count, s, which.data, coefficients.data, bounds.data};
}

struct Random {
  std::uint64_t state;

  Random(std::uint64_t seed, std::uint64_t number) : state((seed << 32) + number) {
    for (int k = 0; k < 4; ++k) next();
  }
  std::uint64_t next() {  // splitmix64
    std::uint64_t z = state += 0x9E3779B97F4A7C15u;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
  }
  std::int32_t below(std::size_t count) { return static_cast<std::int32_t>((next() >> 32) * count >> 32); }
  bool coin() { return next() >> 63; }
  double uniform() { return static_cast<double>((next() >> 11) + 1) * 0x1p-53; }
  double exponential() { return -portable_log(uniform()); }
};

// One instance: its couplings, its constraints, and the bits that may change.
struct Instance {
  const SparseQubos& A;
  const Index k;
  const Inequalities limits;
  const std::int8_t* const clamps;
  Bits singles;              // free bits in no group
  std::vector<Bits> groups;  // free bits of each group that is not decided
  Bits group_of;             // the group of a bit, or -1
  std::vector<double> tolerance, size;

  // Of instance k, from the constraints and clamps of all.
  Instance(const SparseQubos& A, Index k, const Units& units, const Inequalities& all, const std::int8_t* clamps)
      : A(A), k(k), limits{1, all.n, all.count, all.starts, all.which, all.coefficients + k * all.starts[A.n],
                           all.bounds + k * all.count},
        clamps(clamps + k * A.n), group_of(A.n, -1), tolerance(limits.count), size(limits.count) {
    for (Index u = 0; u < units.count; ++u) {
      Bits free;
      for (auto place = units.first[u]; place < units.first[u + 1]; ++place)
        if (this->clamps[units.bits[place]] < 0) free.push_back(static_cast<std::int32_t>(units.bits[place]));
      if (free.empty()) continue;
      for (const auto i : free) group_of[i] = units.group[u] ? static_cast<std::int32_t>(groups.size()) : -1;
      if (units.group[u]) groups.push_back(free);
      else singles.push_back(free[0]);
    }
    for (Index c = 0; c < limits.count; ++c) tolerance[c] = std::abs(limits.bounds[c]);
    for (Index slot = 0; slot < limits.starts[A.n]; ++slot) {
      const double a = std::abs(limits.coefficients[slot]);
      tolerance[limits.which[slot]] += a;
      size[limits.which[slot]] = std::max(size[limits.which[slot]], a);
    }
    for (Index c = 0; c < limits.count; ++c) tolerance[c] *= 1e-9, size[c] = size[c] > 0 ? size[c] : 1;
  }

  std::size_t units() const { return singles.size() + groups.size(); }
  double linear(Index i) const { return A.linear[k * A.n + i]; }
  double coupling(Index slot) const { return A.quadratic[k * A.edges + A.places[slot]]; }
  double coupling(std::int32_t i, std::int32_t j) const {
    const auto *first = A.neighbors + A.starts[i], *last = A.neighbors + A.starts[i + 1];
    const auto* found = std::lower_bound(first, last, static_cast<std::uint32_t>(j));
    return found < last && *found == static_cast<std::uint32_t>(j) ? coupling(found - A.neighbors) : 0;
  }
  // Return how far a load exceeds its bound, in units of the largest coefficient.
  double excess(Index c, double load) const {
    const double over = load - limits.bounds[c];
    return over > tolerance[c] ? over / size[c] : 0;
  }
};

class Read {
  static constexpr double GROWTH = 1.1, DECAY = 0.98;  // of a weight, per sweep
  static constexpr double SETTLING = 0.8, TIE = 1e-9;  // share of the sweeps after which weights only grow
  static constexpr std::size_t MAX_PAIRED = 1024;      // bits or groups of which the descent tries all pairs
  static constexpr int MAX_DESCENTS = 10000;           // passes: sums of rounded numbers could fall forever

  const Instance& I;
  Random random;
  std::vector<double> fields_, loads_, weights_, change_;
  std::vector<Index> touched_;
  std::vector<std::int32_t> chosen_;  // the place of each group's 1
  double energy_ = 0, violation_ = 0;
  std::vector<std::int8_t> best_;
  double best_energy_ = 0;
  bool found_ = false;

 public:
  std::vector<std::int8_t> x;

  Read(const Instance& I, std::uint64_t seed, std::uint64_t number)
      : I(I), random(seed, number), fields_(I.A.n), loads_(I.limits.count), weights_(I.limits.count),
        change_(I.limits.count), chosen_(I.groups.size()), x(I.A.n) {
    for (Index i = 0; i < I.A.n; ++i) fields_[i] = I.linear(i);
    for (std::int32_t i = 0; i < I.A.n; ++i)
      if (I.clamps[i] == 1) flip(i);
    for (const auto i : I.singles)
      if (random.coin()) flip(i);
    for (std::size_t g = 0; g < I.groups.size(); ++g) flip(I.groups[g][chosen_[g] = random.below(I.groups[g].size())]);
    for (Index i = 0; i < I.A.n; ++i) {  // a constraint's weight begins at the largest field of its bits
      double field = std::abs(I.linear(i));
      for (auto slot = I.A.starts[i]; slot < I.A.starts[i + 1]; ++slot) field += std::abs(I.coupling(slot));
      for (auto slot = I.limits.starts[i]; slot < I.limits.starts[i + 1]; ++slot)
        weights_[I.limits.which[slot]] = std::max(weights_[I.limits.which[slot]], field);
    }
    for (double& weight : weights_) weight = weight > 0 ? weight : 1;
  }

  // Cool from β = first to last in some sweeps.
  void anneal(double first, double last, Index sweeps, Control& control) {
    const double growth = sweeps > 1 ? portable_exp(portable_log(last / first) / static_cast<double>(sweeps - 1)) : 1;
    double beta = sweeps > 1 ? first : last;
    for (Index k = 0; k < sweeps && !control.stopped(); ++k, beta *= growth)
      sweep(beta, static_cast<double>(k) > SETTLING * static_cast<double>(sweeps));
  }

  // Try as many moves as there are units; return how many of them raised the energy.
  Index sweep(double beta, bool settling) {
    Index raised = 0;
    for (std::size_t k = 0; k < I.units(); ++k) raised += propose(beta);
    for (Index c = 0; c < I.limits.count; ++c)
      weights_[c] *= I.excess(c, loads_[c]) > 0 ? GROWTH : settling ? 1 : DECAY;
    return raised;
  }

  // Descend, from the best state if that is lower.
  void settle(Control& control) {
    if (found_ && (violation_ > 0 || best_energy_ < energy_)) restore();
    descend_fully(control);
    if (violation_ == 0) keep_best();
  }

  // Descend, and let the best state take what is good in this one, or this one what is good in the best.
  void improve_best(Control& control) {
    descend_fully(control);
    if (!found_ && violation_ == 0) keep_best();
    if (found_) energy_ <= best_energy_ + TIE && violation_ == 0 ? cross(best_, -TIE) : cross_best(x, TIE);
  }
  void mate(const Read& other) { if (found_ && other.found_) cross_best(other.best_, -TIE); }

  double lowest() const { return found_ ? best_energy_ : INFINITY; }
  double violation() const { return found_ ? 0 : violation_; }
  const std::vector<std::int8_t>& state() const { return found_ ? best_ : x; }

 private:
  void flip(std::int32_t i) {
    const double sign = x[i] ? -1 : 1;
    energy_ += sign * fields_[i];
    x[i] ^= 1;
    for (auto slot = I.A.starts[i]; slot < I.A.starts[i + 1]; ++slot)
      fields_[I.A.neighbors[slot]] += sign * I.coupling(slot);
    for (auto slot = I.limits.starts[i]; slot < I.limits.starts[i + 1]; ++slot) {
      const auto c = I.limits.which[slot];
      violation_ -= I.excess(c, loads_[c]);
      loads_[c] += sign * I.limits.coefficients[slot];
      violation_ += I.excess(c, loads_[c]);
    }
  }

  // A move: up to four bits that flip together, and the groups whose 1 moves.
  struct Move {
    std::int32_t bits[4], count = 0;
    std::int32_t groups[2], places[2], moved = 0;

    void add(std::int32_t bit) { bits[count++] = bit; }
  };

  Move within(std::int32_t g, std::int32_t place) const {
    Move move;
    extend(move, g, place);
    return move;
  }
  void extend(Move& move, std::int32_t g, std::int32_t place) const {
    move.add(I.groups[g][chosen_[g]]);
    move.add(I.groups[g][place]);
    move.groups[move.moved] = g;
    move.places[move.moved++] = place;
  }
  // Swap the places of two groups: jobs trade machines.
  bool can_swap(std::int32_t g, std::int32_t h) const {
    return g != h && chosen_[g] != chosen_[h] && I.groups[g].size() == I.groups[h].size();
  }
  Move swapped(std::int32_t g, std::int32_t h) const {
    Move move = within(g, chosen_[h]);
    extend(move, h, chosen_[g]);
    return move;
  }

  // Return what a move adds to the energy; `excess` and `penalty` receive what it adds to the violation, plain and
  // weighted.
  double cost(const Move& move, double& excess, double& penalty) {
    double energy = 0;
    touched_.clear();
    for (int a = 0; a < move.count; ++a) {
      const auto i = move.bits[a];
      const double sign = x[i] ? -1 : 1;
      energy += sign * fields_[i];
      for (int b = 0; b < a; ++b) energy += sign * (x[move.bits[b]] ? -1 : 1) * I.coupling(i, move.bits[b]);
      for (auto slot = I.limits.starts[i]; slot < I.limits.starts[i + 1]; ++slot) {
        const auto c = I.limits.which[slot];
        touched_.push_back(c);
        change_[c] += sign * I.limits.coefficients[slot];
      }
    }
    excess = penalty = 0;
    for (const auto c : touched_) {
      if (change_[c] == 0) continue;
      const double more = I.excess(c, loads_[c] + change_[c]) - I.excess(c, loads_[c]);
      excess += more;
      penalty += weights_[c] * more;
      change_[c] = 0;
    }
    return energy;
  }

  void apply(const Move& move) {
    for (int a = 0; a < move.count; ++a) flip(move.bits[a]);
    for (int a = 0; a < move.moved; ++a) chosen_[move.groups[a]] = move.places[a];
  }

  // Try a random move; return whether it raised the energy.
  bool propose(double beta) {
    const auto unit = random.below(I.units());
    const auto singles = static_cast<std::int32_t>(I.singles.size());
    Move move;
    if (unit < singles) {
      move.add(I.singles[unit]);
      const auto other = I.singles[random.below(singles)];
      if (random.coin() && x[other] != x[move.bits[0]]) move.add(other);
    } else {
      const auto g = unit - singles, h = random.below(I.groups.size());
      if (random.coin() && can_swap(g, h)) move = swapped(g, h);
      else {
        const auto size = static_cast<std::int32_t>(I.groups[g].size());
        if (size == 1) return false;
        move = within(g, (chosen_[g] + 1 + random.below(size - 1)) % size);
      }
    }
    double excess, penalty;
    const double energy = cost(move, excess, penalty), rise = energy + penalty;
    if (rise > 0 && !(beta * rise < random.exponential())) return false;
    apply(move);
    if (allowed() && (!found_ || energy_ < best_energy_)) keep_best();
    return rise > 0;
  }

  void keep_best() {
    best_ = x;
    best_energy_ = energy_;
    found_ = true;
  }

  // Take over components of the bits in which another state differs, unless they raise the energy by more than `most`
  // or break a constraint; the result is the best state. Bits of a group belong together, so that one of them stays 1.
  void cross_best(std::vector<std::int8_t> other, double most) {
    restore();
    cross(other, most);
  }
  void cross(const std::vector<std::int8_t>& other, double most) {
    Bits open(I.A.n), component;
    for (std::int32_t i = 0; i < I.A.n; ++i) open[i] = x[i] != other[i];
    const auto add = [&](std::int32_t i) {
      if (open[i]) open[i] = 0, component.push_back(i);
    };
    for (std::int32_t first = 0; first < I.A.n; ++first, component.clear()) {
      add(first);
      for (std::size_t k = 0; k < component.size(); ++k) {
        const auto i = component[k];
        for (auto slot = I.A.starts[i]; slot < I.A.starts[i + 1]; ++slot)
          add(static_cast<std::int32_t>(I.A.neighbors[slot]));
        if (I.group_of[i] >= 0)
          for (const auto j : I.groups[I.group_of[i]]) add(j);
      }
      const double before = energy_;
      for (const auto i : component) flip(i);
      if (energy_ > before + most || !allowed())
        for (const auto i : component) flip(i);
    }
    refresh();
    keep_best();
  }

  bool allowed() {
    if (violation_ > 1e-6) return false;
    violation_ = 0;  // sums and differences of excesses leave rounding errors
    for (Index c = 0; c < I.limits.count; ++c) violation_ += I.excess(c, loads_[c]);
    return violation_ == 0;
  }

  void restore() {
    for (std::int32_t i = 0; i < I.A.n; ++i)
      if (x[i] != best_[i]) flip(i);
    refresh();
  }
  void refresh() {
    allowed();
    for (std::size_t g = 0; g < I.groups.size(); ++g)
      for (std::size_t place = 0; place < I.groups[g].size(); ++place)
        if (x[I.groups[g][place]]) chosen_[g] = static_cast<std::int32_t>(place);
  }

  // Make a move if it lowers the violation, or keeps it and lowers the energy.
  bool improve(const Move& move) {
    double excess, penalty;
    const double energy = cost(move, excess, penalty);
    if (!(excess < -1e-9 || (excess <= 1e-9 && energy < -1e-9))) return false;
    apply(move);
    allowed();
    return true;
  }

  void descend_fully(Control& control) {
    for (int pass = 0; pass < MAX_DESCENTS && !control.stopped() && descend();) ++pass;
  }

  bool descend() {
    bool improved = false;
    for (const auto i : I.singles) {
      Move move;
      move.add(i);
      improved |= improve(move);
    }
    const auto groups = static_cast<std::int32_t>(I.groups.size());
    for (std::int32_t g = 0; g < groups; ++g)
      for (std::int32_t place = 0; place < static_cast<std::int32_t>(I.groups[g].size()); ++place)
        if (place != chosen_[g]) improved |= improve(within(g, place));
    if (improved) return true;
    if (I.singles.size() <= MAX_PAIRED)
      for (const auto i : I.singles)
        for (const auto j : I.singles)
          if (x[i] && !x[j]) {
            Move move;
            move.add(i);
            move.add(j);
            improved |= improve(move);
          }
    if (I.groups.size() <= MAX_PAIRED)
      for (std::int32_t g = 0; g < groups; ++g)
        for (std::int32_t h = 0; h < g; ++h)
          if (can_swap(g, h)) improved |= improve(swapped(g, h));
    return improved;
  }
};

// Reads of one instance that improve generation by generation; see the island of population.cpp for the constants.
class Colony {
  static constexpr double HOT = 0.08, COLD = 0.0005, COOLING = 0.93, MIN_REHEAT = 0.2, MAX_REHEAT = 0.6;
  static constexpr double FIRST = 0.3, MATING = 0.02;
  static constexpr Index GENERATION = 30;

  Random random;
  Control& control;
  const std::size_t units;
  double hot, cold;

 public:
  std::vector<Read> reads;
  Index swept = 0;

  Colony(const Instance& I, std::uint64_t seed, std::uint64_t number, Index count, Control& control)
      : random(seed, (number + 1) << 32), control(control), units(I.units()) {
    for (Index k = 0; k < count; ++k) reads.emplace_back(I, seed, number * count + k);
  }

  // Search for some sweeps between two β, or until a read reaches the target; anneal once if there is one read alone.
  void run(double first, double last, Index sweeps, double target) {
    if (reads.size() == 1) {
      reads[0].anneal(first, last, swept = sweeps, control);
      return reads[0].settle(control);
    }
    find_temperatures(1 / first, 1 / last);
    generation(hot, static_cast<Index>(FIRST * static_cast<double>(sweeps)));
    while (swept < sweeps && !control.stopped()) {
      for (const auto& read : reads)
        if (read.lowest() <= target) return;
      const double reheat = MIN_REHEAT + (MAX_REHEAT - MIN_REHEAT) * random.uniform();
      generation(cold * portable_exp(reheat * portable_log(hot / cold)), GENERATION);
      for (std::size_t k = 0; k < reads.size(); ++k)
        if (random.uniform() < MATING) reads[k].mate(reads[(k + 1) % reads.size()]);
    }
  }

 private:
  void generation(double from, Index sweeps) {
    for (auto& read : reads) read.anneal(1 / from, 1 / cold, sweeps, control), read.improve_best(control);
    swept += sweeps;
  }

  void find_temperatures(double temperature, double coldest) {
    hot = cold = temperature;
    for (bool found = false; temperature > coldest && !control.stopped(); temperature *= COOLING, ++swept) {
      Index raised = 0;
      for (auto& read : reads) raised += read.sweep(1 / temperature, false);
      const double share = static_cast<double>(raised) / static_cast<double>(units * reads.size());
      cold = temperature;
      if (!found && share < HOT) hot = temperature, found = true;
      if (share < COLD) return;
    }
  }
};

// Depth-first search over units with bounds of the energy and of every load: exact, the `count` lowest states.
class Exact {
  const Instance& I;
  const Index count;
  std::int8_t* states;
  double* energies;
  Control& control;
  std::vector<Bits> units_;                      // options: one of a group's bits, or none of a single bit
  std::vector<std::vector<double>> rest_, room_;  // per depth: half of each bit's negative couplings, least loads
  std::vector<double> fields_, loads_;
  std::vector<std::int8_t> x_;
  Index nodes_ = 0;

 public:
  Index found = 0;

  Exact(const Instance& I, Index count, std::int8_t* states, double* energies, Control& control)
      : I(I), count(count), states(states), energies(energies), control(control), fields_(I.A.n), loads_(I.limits.count),
        x_(I.A.n) {
    for (const auto& group : I.groups) units_.push_back(group);
    for (const auto i : I.singles) units_.push_back({i});
    std::vector<double> half(I.A.n), load(I.limits.count);
    rest_.assign(units_.size() + 1, half);
    room_.assign(units_.size() + 1, load);
    for (std::size_t depth = units_.size(); depth-- > 0;) {
      std::vector<double> least(I.limits.count, is_group(depth) ? INFINITY : 0);
      for (const auto i : units_[depth]) {
        for (auto slot = I.A.starts[i]; slot < I.A.starts[i + 1]; ++slot)
          half[I.A.neighbors[slot]] += std::min(0.0, I.coupling(slot)) / 2;
        std::vector<double> own(I.limits.count);
        for (auto slot = I.limits.starts[i]; slot < I.limits.starts[i + 1]; ++slot)
          own[I.limits.which[slot]] += I.limits.coefficients[slot];
        for (Index c = 0; c < I.limits.count; ++c) least[c] = std::min(least[c], own[c]);
      }
      for (Index c = 0; c < I.limits.count; ++c) load[c] += least[c];
      rest_[depth] = half;
      room_[depth] = load;
    }
    for (Index i = 0; i < I.A.n; ++i) fields_[i] = I.linear(i);
    double energy = 0;
    for (std::int32_t i = 0; i < I.A.n; ++i)
      if (I.clamps[i] == 1) energy += set(i, 1);
    visit(0, energy);
  }

 private:
  bool is_group(std::size_t depth) const { return depth < I.groups.size(); }

  // Set a bit to 1 (sign 1) or back to 0 (-1), and return what that adds to the energy.
  double set(std::int32_t i, double sign) {
    x_[i] = sign > 0;
    for (auto slot = I.A.starts[i]; slot < I.A.starts[i + 1]; ++slot)
      fields_[I.A.neighbors[slot]] += sign * I.coupling(slot);
    for (auto slot = I.limits.starts[i]; slot < I.limits.starts[i + 1]; ++slot)
      loads_[I.limits.which[slot]] += sign * I.limits.coefficients[slot];
    return sign * fields_[i];
  }

  bool may_improve(std::size_t depth, double energy) const {
    for (Index c = 0; c < I.limits.count; ++c)
      if (I.excess(c, loads_[c] + room_[depth][c]) > 0) return false;
    if (found < count) return true;
    for (std::size_t d = depth; d < units_.size(); ++d) {
      double least = is_group(d) ? INFINITY : 0;
      for (const auto i : units_[d]) least = std::min(least, fields_[i] + rest_[depth][i]);
      energy += least;
    }
    return energy < energies[count - 1];
  }

  void visit(std::size_t depth, double energy) {
    if (!may_improve(depth, energy) || (++nodes_ % 1024 == 0 && control.stopped())) return;
    if (depth == units_.size()) return keep(energy);
    if (!is_group(depth) && fields_[units_[depth][0]] >= 0) visit(depth + 1, energy);  // the better option first
    for (const auto i : units_[depth]) {
      const double more = set(i, 1);
      visit(depth + 1, energy + more);
      set(i, -1);
    }
    if (!is_group(depth) && fields_[units_[depth][0]] < 0) visit(depth + 1, energy);
  }

  void keep(double energy) {
    Index place = found < count ? found++ : count - 1;
    for (; place > 0 && energies[place - 1] > energy; --place) {
      energies[place] = energies[place - 1];
      std::copy_n(states + (place - 1) * I.A.n, I.A.n, states + place * I.A.n);
    }
    energies[place] = energy;
    std::copy(x_.begin(), x_.end(), states + place * I.A.n);
  }
};

void anneal_constrained(Control& control, SparseQubos A, Units units, In<std::int8_t, 2> clamps, Inequalities limits,
                        In<double, 2> betas, Index sweeps, In<double, 1> targets, Index size,
                        In<std::uint32_t, 1> seeds, Out<std::int8_t, 3> states, Out<double, 2> excess,
                        Out<Index, 1> swept) {
  require(size >= 1 && states.shape[1] % size == 0, "expected colonies of equal size");
  const Index colonies = states.shape[1] / size;
  control.share_each(A.batch * colonies, [&](Index task) {
    const Index k = task / colonies;
    const Instance instance(A, k, units, limits, clamps.data);
    Colony colony(instance, seeds.data[k], task % colonies, size, control);
    colony.run(betas.at(k)[0], betas.at(k)[1], sweeps, targets.data[k]);
    if (task % colonies == 0) swept.data[k] = colony.swept;
    for (Index r = 0; r < size; ++r) {
      const auto& read = colony.reads[r];
      excess.data[task * size + r] = read.violation();
      std::copy(read.state().begin(), read.state().end(), states.data + (task * size + r) * A.n);
    }
  });
}

void search_constrained(Control& control, SparseQubos A, Units units, In<std::int8_t, 2> clamps, Inequalities limits,
                        Out<std::int8_t, 3> states, Out<double, 2> energies, Out<Index, 1> found) {
  require(states.shape[1] >= 1, "expected at least one state");
  control.share_each(A.batch, [&](Index k) {
    const Instance instance(A, k, units, limits, clamps.data);
    found.data[k] = Exact(instance, states.shape[1], states.at(k), energies.at(k), control).found;
  });
}

}  // namespace

void bind_constrained(nb::module_& m) {
  define(m, "anneal_constrained", &anneal_constrained,
         "qubos:bn units:n clamps:bn limits:bn betas:b2 sweeps targets:b size seeds:b states:brn excess:br swept:b",
         "Fill states with annealed states under limits (starts [n + 1], which [k], coefficients [batch, k], bounds\n"
         "[batch, m]), and excess with what is left of their violation. A colony of this size improves its reads until\n"
         "one reaches the target.");
  define(m, "search_constrained", &search_constrained,
         "qubos:bn units:n clamps:bn limits:bn states:bcn energies:bc found:b",
         "Fill states and energies with the lowest allowed states, and found with how many there are.");
}

}  // namespace qubolearn
