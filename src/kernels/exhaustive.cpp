// Exhaustive search: the lowest states of QUBOs, exact up to rounding in double precision.
//
// A scan finds the lowest energy of every cell, the states of one lane in the parts of a task. The `count` lowest states
// are in the `count` lowest cells, whose states are then visited one by one in double precision.
#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels.hpp"
#include "states.hpp"

namespace qubolearn::VARIANT {
namespace {

constexpr double INFINITE = std::numeric_limits<double>::infinity();
constexpr int SPARE_CELLS = 30;                       // cells visited beyond `count`, if rounding leaves their order open
constexpr double OVERFLOWS = 1e37;                    // single precision may overflow if Σ|A_ij| is larger

struct Candidate {
  double energy;
  std::int64_t code;
  bool operator<(const Candidate& other) const {
    return energy < other.energy || (energy == other.energy && code < other.code);
  }
};

// The lowest states offered so far, as a heap with the highest of them on top.
struct Lowest {
  Scratch<Candidate> found;

  void clear() {
    for (Candidate& each : found) each = {INFINITE, 0};
  }

  void offer(double energy, std::int64_t code) {
    if (!(energy < found[0].energy)) return;
    std::pop_heap(found.begin(), found.end());
    found[found.size() - 1] = {energy, code};
    std::push_heap(found.begin(), found.end());
  }

  // Write the states in order. Their energies are summed again, row by row, so that all kernels give the same ones.
  template <class T>
  void write(const T* A, int n, T* states, double* energies) {
    int ones[64];
    for (Candidate& each : found) {
      int size = 0;
      for (int i = 0; i < n; ++i) {
        ones[size] = i;
        size += each.code >> i & 1;
      }
      each.energy = 0;
      for (int a = 0; a < size; ++a) {
        double row = 0;
        for (int b = 0; b < size; ++b) row += double(A[ones[a] * n + ones[b]]);
        each.energy += row;
      }
    }
    std::make_heap(found.begin(), found.end());  // unlike std::sort, safe if an energy is NaN
    std::sort_heap(found.begin(), found.end());
    for (std::size_t k = 0; k < found.size(); ++k) {
      energies[k] = found[k].energy;
      for (int i = 0; i < n; ++i) states[k * n + i] = T(found[k].code >> i & 1);
    }
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
          const V there = here[k] + VARIANT::load<V>(step + W * k);
          lowest[k] = minimum(lowest[k], lowest_inner(a[k], b[k], c[k], leaf + 8) + there);
        }
    }
    for (int k = 0; k < GROUP; ++k) store(cells + W * k, lowest[k]);
  }

  static V load_lanes(const Real* row, int first, int k) { return VARIANT::load<V>(row + first + W * k); }
};

// Takes cells in order of their energies: they are arranged in columns, whose lowest are known.
template <class Real>
class Cells {
  Real *cells_, minima_[1 << (TASK_BITS + LOW) / 2];
  std::int64_t columns_ = 1, rows_, best_ = 0;

 public:
  Cells(Real* cells, std::int64_t total) : cells_(cells) {
    while (columns_ * columns_ < total) columns_ *= 2;
    rows_ = total / columns_;
    for (std::int64_t k = 0; k < columns_; ++k) minima_[k] = cells_[k];
    for (std::int64_t row = 1; row < rows_; ++row)
      for (std::int64_t k = 0; k < columns_; ++k) minima_[k] = minimum(cells_[row * columns_ + k], minima_[k]);
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
    for (std::int64_t r = 0; r < rows_; ++r) minima_[best_] = minimum(cells_[r * columns_ + best_], minima_[best_]);
    return row * columns_ + best_;
  }
};

// Visits the states of cells one by one, in double precision.
class Picker {
  Walk<double> walk_;
  Scratch<int> ones_;

 public:
  explicit Picker(int n) : walk_(n), ones_(std::size_t(walk_.size)) {}

  template <class T>
  void load(const T* A) {
    walk_.load(A, 1.0);
  }

  // Offer all states of a lane in a part.
  void visit(std::int64_t lane, std::int64_t part, Lowest& best) {
    enter(lane | part << (CLOSED + walk_.outer));
    const double ab = walk_.c(LOW, LOW + 1), ac = walk_.c(LOW, LOW + 2), bc = walk_.c(LOW + 1, LOW + 2);
    const std::int64_t code = lane | part << (walk_.used + INNER + walk_.outer);
    for (std::int64_t g = 0; g < walk_.nodes; ++g) {
      const double a = walk_.fields_a[g], b = walk_.fields_b[g], c = walk_.fields_c[g], e0 = walk_.energies[g];
      const double e1 = e0 + a, e2 = e0 + b, e4 = e0 + c;
      const double e3 = e1 + b + ab, e5 = e1 + c + ac, e6 = e2 + c + bc;
      const double energies[8] = {e0, e1, e2, e3, e4, e5, e6, e3 + c + ac + bc};
      const double least = minimum(minimum(minimum(e0, e1), minimum(e2, e3)),
                                   minimum(minimum(e4, e5), minimum(e6, energies[7])));
      if (least < best.found[0].energy)  // rarely: one comparison disposes of eight states
        for (std::int64_t inner = 0; inner < 8; ++inner)
          best.offer(energies[inner], code | inner << walk_.used | g << (walk_.used + INNER));
    }
  }

 private:
  // Fill the nodes' energies with these low and part bits set.
  void enter(std::int64_t code) {
    const int inside = CLOSED + walk_.outer;
    double energy = 0;
    int count = 0;
    for (int j = LOW; j < inside; ++j) walk_.field[j] = walk_.c(j, j);
    for (int i = 0; i < walk_.size; ++i) {
      if (!(code >> i & 1)) continue;
      ones_[count++] = i;
      for (int q = 0; q < count; ++q) energy += walk_.c(i, ones_[q]);
      for (int j = LOW; j < inside; ++j) walk_.field[j] += walk_.c(i, j);
    }
    walk_.fill_nodes(energy);
  }
};

// One call: what all its threads share.
template <class T>
struct Call {
  const Search<T>& how;
  Control& control;
  Scratch<double> sizes{std::size_t(how.batch)};  // Σ|A_ij|, negative if the search has to be repeated

  const T* A(std::int64_t b) const { return how.A + b * how.n * how.n; }
  void write(std::int64_t b, Lowest& lowest) const {
    lowest.write(A(b), how.n, how.states + b * how.count * how.n, how.energies + b * how.count);
  }

  void few() {
    control.share(how.batch, control.piece(how.batch), [&](std::int64_t first, std::int64_t last) {
      double E[1 << FEW];
      Lowest lowest{Scratch<Candidate>(how.count)};
      for (std::int64_t b = first; b < last && !control.stopped(); ++b) {
        few_energies(A(b), how.n, E);
        Cells<double> remaining(E, 1 << how.n);
        for (Candidate& each : lowest.found) each = {remaining.lowest(), remaining.take()};
        write(b, lowest);
        sizes[b] = sizeof(T) == 8 ? absolute_sum(A(b), how.n * how.n) : 0.0;
      }
    });
  }

  // Search these instances, scanning in precision Real. Marks those of which rounding leaves the result open.
  template <class Real>
  void many(const std::int64_t* chosen, std::int64_t batch) {
    const Tasks tasks(how.n);
    const std::int64_t row = 1 << smaller(LOW, how.n - INNER), total = tasks.count * row;
    const std::int64_t held = how.held / std::int64_t(total * sizeof(Real));
    const std::int64_t group = batch < held ? batch : held < 1 ? 1 : held;
    Scratch<Real> cells(std::size_t(group) * total);
    for (std::int64_t start = 0; start < batch && !control.stopped(); start += group) {
      const std::int64_t here = batch - start < group ? batch - start : group, all = here * tasks.count;
      control.share(all, control.piece(all), [&](std::int64_t first, std::int64_t last) {
        Scanner<Real> scanner(how.n);
        for (std::int64_t task = first; task < last; ++task) {
          const std::int64_t number = task & (tasks.count - 1);
          if (task == first || number == 0) scanner.load(A(chosen[start + (task >> tasks.bits)]));
          for (std::int64_t p = 0; p < tasks.parts && !control.stopped(); ++p)
            scanner.scan(number * tasks.parts + p, p == 0, cells.data() + task * row);
        }
      });
      control.share(here, control.piece(here), [&](std::int64_t first, std::int64_t last) {
        Picker picker(how.n);
        Lowest lowest{Scratch<Candidate>(how.count)};
        for (std::int64_t k = first; k < last && !control.stopped(); ++k)
          pick(chosen[start + k], tasks, cells.data() + k * total, row, picker, lowest);
      });
    }
  }

  // Search the lowest cells. Scanned energies are off by at most 2n roundings of their partial sums, so cells that this
  // may have put behind the `count` lowest are searched too.
  template <class Real>
  void pick(std::int64_t b, const Tasks& tasks, Real* cells, std::int64_t row, Picker& picker, Lowest& lowest) {
    const std::int64_t most = how.count + SPARE_CELLS, total = tasks.count * row;
    const double size = absolute_sum(A(b), how.n * how.n);
    const double tolerance = 4 * how.n * double(std::numeric_limits<Real>::epsilon()) * size;
    picker.load(A(b));
    lowest.clear();
    Cells<Real> remaining(cells, total);
    double bound = INFINITE;
    bool settled = total <= most;
    for (std::int64_t taken = 0; taken < total && taken <= most; ++taken) {
      const double least = remaining.lowest();
      if (taken >= how.count && least > bound) {
        settled = true;
        break;
      }
      if (taken < how.count) bound = least + tolerance;
      const std::int64_t cell = remaining.take();
      for (std::int64_t p = 0; p < tasks.parts; ++p) {
        if (control.stopped()) return;
        picker.visit(cell % row, cell / row * tasks.parts + p, lowest);
      }
    }
    const bool repeat = sizeof(Real) == 4 && (!settled || size > OVERFLOWS);
    sizes[b] = repeat ? -1 : size;
    if (!repeat) write(b, lowest);
  }
};

template <class T>
void search(const Search<T>& how, Control& control) {
  Call<T> call{how, control};
  if (how.n <= FEW) {
    call.few();
  } else {
    Scratch<std::int64_t> open(how.batch);
    for (std::int64_t b = 0; b < how.batch; ++b) open[b] = b;
    call.template many<T>(open.data(), how.batch);
    std::int64_t count = 0;
    for (std::int64_t b = 0; b < how.batch; ++b)
      if (call.sizes[b] < 0) open[count++] = b;
    if (count && !control.stopped()) call.template many<double>(open.data(), count);
  }
  for (double size : call.sizes) *how.largest = maximum(*how.largest, size);
}

}  // namespace

void search_single(const Search<float>& how, Control& control) { search(how, control); }
void search_double(const Search<double>& how, Control& control) { search(how, control); }

}  // namespace qubolearn::VARIANT
