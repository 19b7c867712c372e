// Exhaustive search: the lowest states of QUBOs, exact up to rounding in double precision.
//
// A scan finds the lowest energy of every cell, the states of one lane in the parts of a task. The `count` lowest states
// are in the `count` lowest cells, whose states are then visited one by one in double precision.
#include <cmath>
#include <limits>

#include "kernels.hpp"
#include "states.hpp"

namespace qubolearn::VARIANT {
namespace {

constexpr double INFINITE = std::numeric_limits<double>::infinity();
constexpr int SPARE_CELLS = 30;                       // cells visited beyond `count`, if rounding leaves their order open
constexpr double OVERFLOWS = 1e37;                    // single precision may overflow if Σ|A_ij| is larger

// The lowest states offered so far, as a heap with the highest of them on top.
struct Lowest {
  double* energies;
  std::int64_t* codes;
  std::int64_t count;

  void clear() {
    for (std::int64_t k = 0; k < count; ++k) energies[k] = INFINITE, codes[k] = 0;
  }

  void offer(double energy, std::int64_t code) {
    if (energy < energies[0]) sink(0, count, energy, code);
  }

  // Sort by energy, then by code.
  void sort() {
    for (std::int64_t k = count / 2; k-- > 0;) sink(k, count, energies[k], codes[k]);
    for (std::int64_t size = count; size-- > 1;) {
      const double energy = energies[size];
      const std::int64_t code = codes[size];
      energies[size] = energies[0], codes[size] = codes[0];
      sink(0, size, energy, code);
    }
  }

 private:
  // Put a state at a place of a heap of this size and let it sink.
  void sink(std::int64_t place, std::int64_t size, double energy, std::int64_t code) {
    const auto above = [&](std::int64_t k, double e, std::int64_t c) {
      return energies[k] > e || (energies[k] == e && codes[k] > c);
    };
    for (;;) {
      std::int64_t child = 2 * place + 1;
      if (child >= size) break;
      child += child + 1 < size && above(child + 1, energies[child], codes[child]);
      if (!above(child, energy, code)) break;
      energies[place] = energies[child], codes[place] = codes[child];
      place = child;
    }
    energies[place] = energy, codes[place] = code;
  }
};

// Σ_ij |A_ij|, which bounds all partial sums of an energy.
template <class T>
double absolute_sum(const T* A, int entries) {
  double sums[8] = {};
  int k = 0;
  for (; k + 8 <= entries; k += 8)
    for (int i = 0; i < 8; ++i) sums[i] += std::fabs(double(A[k + i]));
  for (; k < entries; ++k) sums[0] += std::fabs(double(A[k]));
  return ((sums[0] + sums[1]) + (sums[2] + sums[3])) + ((sums[4] + sums[5]) + (sums[6] + sums[7]));
}

// Scans all cells of a task.
template <class Real>
class Scanner {
 public:
  Walk<Real> walk;

  explicit Scanner(int n) : walk(n), leaves_(std::size_t(walk.nodes) * 8) {}

  template <class T>
  void load(const T* A) {
    walk.load(A, Real(1));
    walk.load_lanes();
  }

  // cells[lane] = lowest energy of the lane's states, in this part and, unless it is the first one, what is there.
  void scan(std::int64_t part, bool first_part, Real* cells) {
    walk.enter(part);
    const Real ab = walk.c(LOW, LOW + 1), ac = walk.c(LOW, LOW + 2), bc = walk.c(LOW + 1, LOW + 2);
    for (int g = 0; g < walk.nodes; ++g) {
      const Real a = walk.fields_a[g], b = walk.fields_b[g], energy = walk.energies[g];
      Real* leaf = leaves_.data() + 8 * g;
      leaf[0] = -a, leaf[1] = -a - ab, leaf[2] = b + ab, leaf[3] = energy + a;
      leaf[4] = -(a + ac), leaf[5] = -(a + ac) - ab, leaf[6] = b + bc + ab, leaf[7] = energy + walk.fields_c[g] + (a + ac);
    }
    for (int first = 0; first < walk.lanes; first += W * GROUP) scan_lanes(first, first_part, cells + first);
  }

 private:
  static constexpr int W = NATIVE<Real>;
  static constexpr int GROUP = REGISTER == 64 ? 4 : 2;  // vectors whose constants stay in registers
  using V = Vector<Real, W>;
  Scratch<Real> leaves_;  // [nodes, 8], what differs from node to node

  // The lowest of 8 states of the inner bits a, b, c, given the lane's share of their fields. With a and b,
  //     min(0, a, b, a + b + ab) = min(a, 0, b + ab + min(a, -ab)),
  // and c is tried both ways. The scalar part of each field is moved to where one operation covers all lanes.
  static V lowest_inner(V a, V b, V c, const Real* leaf) {
    const V without = minimum(minimum(a, splat<V>(leaf[0])), (b + minimum(a, splat<V>(leaf[1]))) + leaf[2]) + leaf[3];
    const V with_c = minimum(minimum(a, splat<V>(leaf[4])), (b + minimum(a, splat<V>(leaf[5]))) + leaf[6]) + (c + leaf[7]);
    return minimum(without, with_c);
  }

  // Walk the tree of outer bits for GROUP vectors of lanes.
  void scan_lanes(int first, bool first_part, Real* cells) {
    V a[GROUP], b[GROUP], c[GROUP], lowest[GROUP], here[GROUP], levels[OUTER + 1][GROUP];
    const Real* step = walk.outer ? walk.row(CLOSED) + first : nullptr;  // of outer bit 0
    for (int k = 0; k < GROUP; ++k) {
      a[k] = load_lanes(walk.row(LOW), first, k), b[k] = load_lanes(walk.row(LOW + 1), first, k);
      c[k] = load_lanes(walk.row(LOW + 2), first, k);
      levels[walk.outer][k] = here[k] = load_lanes(walk.base.data(), first, k);
      lowest[k] = splat<V>(std::numeric_limits<Real>::infinity());
      if (!first_part) lowest[k] = load_lanes(cells, 0, k);
    }
    for (int g = 0; g < walk.nodes; g += 2) {
      if (g) {
        const int bit = std::countr_zero(unsigned(g));
        const V* parent = levels[std::countr_zero(unsigned((g & (g - 1)) | walk.nodes))];
        for (int k = 0; k < GROUP; ++k)
          levels[bit][k] = here[k] = parent[k] + load_lanes(walk.row(CLOSED + bit), first, k);
      }
      const Real* leaf = leaves_.data() + 8 * g;
      for (int k = 0; k < GROUP; ++k) lowest[k] = minimum(lowest[k], lowest_inner(a[k], b[k], c[k], leaf) + here[k]);
      if (step)  // its sibling, with outer bit 0 set
        for (int k = 0; k < GROUP; ++k) {
          const V there = here[k] + qubolearn::VARIANT::load<V>(step + W * k);
          lowest[k] = minimum(lowest[k], lowest_inner(a[k], b[k], c[k], leaf + 8) + there);
        }
    }
    for (int k = 0; k < GROUP; ++k) store(cells + W * k, lowest[k]);
  }

  static V load_lanes(const Real* row, int first, int k) { return qubolearn::VARIANT::load<V>(row + first + W * k); }
};

// Takes cells in order of their energies: they are arranged in columns, whose lowest are known.
template <class Real>
class Cells {
 public:
  Cells(Real* cells, std::int64_t total, Scratch<Real>& minima) : cells_(cells), minima_(minima.data()) {
    while (columns_ * columns_ < total) columns_ *= 2;
    rows_ = total / columns_;
    for (std::int64_t k = 0; k < columns_; ++k) minima_[k] = cells_[k];
    for (std::int64_t row = 1; row < rows_; ++row)
      for (std::int64_t k = 0; k < columns_; ++k) minima_[k] = minimum(cells_[row * columns_ + k], minima_[k]);
  }

  static std::int64_t room(std::int64_t total) {
    std::int64_t columns = 1;
    while (columns * columns < total) columns *= 2;
    return columns;
  }

  Real lowest() {
    best_ = 0;
    for (std::int64_t k = 1; k < columns_; ++k)
      if (minima_[k] < minima_[best_]) best_ = k;
    return minima_[best_];
  }

  // Remove the cell that lowest() found; return its index.
  std::int64_t take() {
    std::int64_t row = 0;
    while (row < rows_ - 1 && cells_[row * columns_ + best_] > minima_[best_]) ++row;
    cells_[row * columns_ + best_] = minima_[best_] = std::numeric_limits<Real>::infinity();
    for (std::int64_t r = 0; r < rows_; ++r)
      minima_[best_] = minimum(cells_[r * columns_ + best_], minima_[best_]);
    return row * columns_ + best_;
  }

 private:
  Real *cells_, *minima_;
  std::int64_t columns_ = 1, rows_, best_ = 0;
};

// Visits the states of cells one by one, in double precision.
template <class T>
class Picker {
 public:
  explicit Picker(int n) : walk_(n), ones_(std::size_t(walk_.size)) {}

  void load(const T* A) {
    A_ = A;
    walk_.load(A, 1.0, walk_.used);
  }

  // Offer all states of a lane in a part.
  void visit(std::int64_t lane, std::int64_t part, Lowest& best) {
    const int inside = CLOSED + walk_.outer;
    enter(lane | part << inside, inside);
    const double ab = walk_.c(LOW, LOW + 1), ac = walk_.c(LOW, LOW + 2), bc = walk_.c(LOW + 1, LOW + 2);
    const std::int64_t code = lane | part << (walk_.used + INNER + walk_.outer);
    for (std::int64_t g = 0; g < walk_.nodes; ++g) {
      const double a = walk_.fields_a[g], b = walk_.fields_b[g], c = walk_.fields_c[g], e0 = walk_.energies[g];
      const double e1 = e0 + a, e2 = e0 + b, e4 = e0 + c;
      const double e3 = e1 + b + ab, e5 = e1 + c + ac, e6 = e2 + c + bc;
      const double energies[8] = {e0, e1, e2, e3, e4, e5, e6, e3 + c + ac + bc};
      const double least = minimum(minimum(minimum(e0, e1), minimum(e2, e3)),
                                   minimum(minimum(e4, e5), minimum(e6, energies[7])));
      if (least < best.energies[0])  // rarely: one comparison disposes of eight states
        for (std::int64_t inner = 0; inner < 8; ++inner)
          best.offer(energies[inner], code | inner << walk_.used | g << (walk_.used + INNER));
    }
  }

 private:
  // Fill the nodes' energies with these low and part bits set. C lacks the couplings between low bits.
  void enter(std::int64_t code, int inside) {
    double energy = 0;
    int count = 0;
    for (int j = LOW; j < inside; ++j) walk_.field[j] = walk_.c(j, j);
    for (int i = 0; i < walk_.size; ++i) {
      if (!(code >> i & 1)) continue;
      ones_[count++] = i;
      for (int q = 0; q < count; ++q) {
        const int k = ones_[q];
        if (i >= LOW) energy += walk_.c(i, k);
        else energy += double(A_[i * walk_.n + k]) + (k < i ? double(A_[k * walk_.n + i]) : 0.0);
      }
      for (int j = LOW; j < inside; ++j) walk_.field[j] += walk_.c(i, j);
    }
    walk_.fill_nodes(energy);
  }

  const T* A_ = nullptr;
  Walk<double> walk_;
  Scratch<int> ones_;
};

// Sum the energies again for each state, row by row, so that equal states have equal energies in all kernels; sort.
template <class T>
void finish(const T* A, int n, Lowest& best, T* states) {
  int ones[64];
  for (std::int64_t k = 0; k < best.count; ++k) {
    int size = 0;
    for (int i = 0; i < n; ++i) {
      ones[size] = i;
      size += best.codes[k] >> i & 1;
    }
    double energy = 0;
    for (int a = 0; a < size; ++a) {
      double row = 0;
      for (int b = 0; b < size; ++b) row += double(A[ones[a] * n + ones[b]]);
      energy += row;
    }
    best.energies[k] = energy;
  }
  best.sort();
  for (std::int64_t k = 0; k < best.count; ++k)
    for (int i = 0; i < n; ++i) states[k * n + i] = T(best.codes[k] >> i & 1);
}

// One call: what all its threads share.
template <class T>
struct Call {
  const Search<T>& search;
  Control& control;
  Scratch<double> sizes{std::size_t(search.batch)};  // Σ|A_ij|, negative if the search has to be repeated

  const T* A(std::int64_t b) const { return search.A + b * search.n * search.n; }
  T* states(std::int64_t b) const { return search.states + b * search.count * search.n; }
  Lowest best(std::int64_t b, Scratch<std::int64_t>& codes) const {
    return {search.energies + b * search.count, codes.data(), search.count};
  }

  void few() {
    control.share(search.batch, control.piece(search.batch), [&](std::int64_t first, std::int64_t last) {
      const int n = search.n, states = 1 << n;
      double E[1 << FEW];
      Scratch<double> minima(16);
      Scratch<std::int64_t> codes(search.count);
      for (std::int64_t b = first; b < last && !control.stopped(); ++b) {
        few_energies(A(b), n, E);
        Lowest lowest = best(b, codes);
        Cells<double> remaining(E, states, minima);
        for (std::int64_t k = 0; k < search.count; ++k) {
          lowest.energies[k] = remaining.lowest();
          lowest.codes[k] = remaining.take();
        }
        finish(A(b), n, lowest, this->states(b));
        sizes[b] = sizeof(T) == 8 ? absolute_sum(A(b), n * n) : 0.0;
      }
    });
  }

  // Search these instances, scanning in precision Real. Marks those of which rounding leaves the result open.
  template <class Real>
  void many(const std::int64_t* chosen, std::int64_t batch) {
    const Tasks tasks(search.n);
    if (tasks.count == 1) {
      control.share(batch, control.piece(batch), [&](std::int64_t first, std::int64_t last) {
        Scanner<Real> scanner(search.n);
        Picker<T> picker(search.n);
        Scratch<Real> cells(LANES), minima(LANES);
        Scratch<std::int64_t> codes(search.count);
        for (std::int64_t k = first; k < last && !control.stopped(); ++k) {
          const std::int64_t b = chosen ? chosen[k] : k;
          scanner.load(A(b));
          scanner.scan(0, true, cells.data());
          pick(b, tasks, cells.data(), scanner.walk.lanes, minima, codes, picker);
        }
      });
      return;
    }
    const std::int64_t total = tasks.count * LANES, held = search.held / std::int64_t(total * sizeof(Real));
    const std::int64_t group = batch < held ? batch : held < 1 ? 1 : held;
    Scratch<Real> cells(std::size_t(group) * total);
    for (std::int64_t start = 0; start < batch && !control.stopped(); start += group) {
      const std::int64_t here = batch - start < group ? batch - start : group;
      const auto instance = [&](std::int64_t k) { return chosen ? chosen[start + k] : start + k; };
      const std::int64_t all = here * tasks.count;
      control.share(all, control.piece(all), [&](std::int64_t first, std::int64_t last) {
        Scanner<Real> scanner(search.n);
        for (std::int64_t task = first; task < last; ++task) {
          const std::int64_t number = task & (tasks.count - 1);
          if (task == first || number == 0) scanner.load(A(instance(task >> tasks.bits)));
          for (std::int64_t p = 0; p < tasks.parts && !control.stopped(); ++p)
            scanner.scan(number * tasks.parts + p, p == 0, cells.data() + task * LANES);
        }
      });
      control.share(here, 1, [&](std::int64_t first, std::int64_t last) {
        Picker<T> picker(search.n);
        Scratch<Real> minima(Cells<Real>::room(total));
        Scratch<std::int64_t> codes(search.count);
        for (std::int64_t k = first; k < last; ++k)
          pick(instance(k), tasks, cells.data() + k * total, total, minima, codes, picker);
      });
    }
  }

  // Search the lowest cells. Scanned energies are off by at most 2n roundings of their partial sums, so cells that this
  // may have put behind the `count` lowest are searched too.
  template <class Real>
  void pick(std::int64_t b, const Tasks& tasks, Real* cells, std::int64_t total, Scratch<Real>& minima,
            Scratch<std::int64_t>& codes, Picker<T>& picker) {
    const std::int64_t most = search.count + SPARE_CELLS;
    const double size = absolute_sum(A(b), search.n * search.n);
    const double tolerance = 4 * search.n * double(std::numeric_limits<Real>::epsilon()) * size;
    picker.load(A(b));
    Cells<Real> remaining(cells, total, minima);
    Lowest lowest = best(b, codes);
    lowest.clear();
    double bound = INFINITE;
    bool settled = total <= most;
    for (std::int64_t taken = 0; taken < total && taken <= most; ++taken) {
      const double least = remaining.lowest();
      if (taken >= search.count && least > bound) {
        settled = true;
        break;
      }
      if (taken < search.count) bound = least + tolerance;
      const std::int64_t cell = remaining.take();
      for (std::int64_t p = 0; p < tasks.parts; ++p) {
        if (control.stopped()) return;
        picker.visit(cell & (LANES - 1), (cell >> LOW) * tasks.parts + p, lowest);
      }
    }
    const bool repeat = sizeof(Real) == 4 && (!settled || size > OVERFLOWS);
    sizes[b] = repeat ? -1 : size;
    if (!repeat) finish(A(b), search.n, lowest, states(b));
  }
};

template <class T>
void search(const Search<T>& search, Control& control) {
  Call<T> call{search, control};
  if (search.n <= FEW) {
    call.few();
  } else {
    call.template many<T>(nullptr, search.batch);
    Scratch<std::int64_t> open(search.batch);
    std::int64_t count = 0;
    for (std::int64_t b = 0; b < search.batch; ++b)
      if (call.sizes[b] < 0) open[count++] = b;
    if (count && !control.stopped()) call.template many<double>(open.data(), count);
  }
  for (double size : call.sizes) *search.largest = maximum(*search.largest, size);
}

}  // namespace

void search_single(const Search<float>& how, Control& control) { search(how, control); }
void search_double(const Search<double>& how, Control& control) { search(how, control); }

}  // namespace qubolearn::VARIANT
