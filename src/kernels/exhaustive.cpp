// Exhaustive search: a scan finds the lowest energy of every cell, the states of one lane in the parts of a task. The
// `count` lowest states are in the `count` lowest cells, whose states are then visited one by one in double precision.
#include <algorithm>
#include <cmath>

#include "states.hpp"

namespace qubolearn::VARIANT {
namespace {

constexpr int SPARE_CELLS = 30;                       // cells visited beyond `count`, if rounding leaves their order open
constexpr double OVERFLOWS = 1e37;                    // single precision may overflow if Σ|A_ij| is larger

struct Candidate {
  double energy;
  Index code;
  bool operator<(const Candidate& other) const {
    return energy < other.energy || (energy == other.energy && code < other.code);
  }
};

// The lowest states offered so far, as a heap with the highest of them on top.
struct Lowest {
  Scratch<Candidate> found;

  void offer(double energy, Index code) {
    if (!(energy < found[0].energy)) return;
    std::pop_heap(found.begin(), found.end());
    found[found.size() - 1] = {energy, code};
    std::push_heap(found.begin(), found.end());
  }

  // Write the states in order, with energies as all kernels sum them.
  template <class T>
  void write(const T* A, int n, T* states, double* energies) {
    Index ones[MAX_BITS + 1];
    for (Candidate& each : found) each.energy = energy_of(A, n, ones, [&](Index i) { return each.code >> i & 1; });
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

template <class Real>
struct Scanner {
  static constexpr int W = NATIVE<Real>;
  static constexpr int GROUP = REGISTER == 64 ? 4 : 2;  // vectors whose constants stay in registers
  using V = Vector<Real, W>;
  Walk<Real> walk;
  Scratch<Real> leaves{std::size_t(walk.nodes) * 8};  // [nodes, 8], what differs from node to node

  // cells[lane] = lowest energy of the lane's states, in this part and, unless it is the first one, what is there.
  void scan(Index part, bool first_part, Real* cells) {
    walk.enter(part);
    const Real ab = walk.c(LOW, LOW + 1), ac = walk.c(LOW, LOW + 2), bc = walk.c(LOW + 1, LOW + 2);
    for (int g = 0; g < walk.nodes; ++g) {
      const Real a = walk.fields_a[g], b = walk.fields_b[g], energy = walk.energies[g];
      Real* leaf = leaves.data() + 8 * g;
      leaf[0] = -a, leaf[1] = -a - ab, leaf[2] = b + ab, leaf[3] = energy + a;
      leaf[4] = -(a + ac), leaf[5] = -(a + ac) - ab, leaf[6] = b + bc + ab, leaf[7] = energy + walk.fields_c[g] + (a + ac);
    }
    for (int first = 0; first < walk.lanes; first += W * GROUP) scan_lanes(first, first_part, cells + first);
  }

  // The lowest of 8 states of the inner bits a, b, c, given the lane's share of their fields. With a and b,
  //     min(0, a, b, a + b + ab) = min(a, 0, b + ab + min(a, -ab)),
  // and c is tried both ways. The scalar part of each field is moved to where one operation covers all lanes.
  static V lowest_inner(V a, V b, V c, const Real* leaf) {
    const V without = minimum(minimum(a, splat<V>(leaf[0])), (b + minimum(a, splat<V>(leaf[1]))) + leaf[2]) + leaf[3];
    const V with_c = minimum(minimum(a, splat<V>(leaf[4])), (b + minimum(a, splat<V>(leaf[5]))) + leaf[6]) + (c + leaf[7]);
    return minimum(without, with_c);
  }

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
      const Real* leaf = leaves.data() + 8 * g;
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
  Index columns_ = 1, rows_, best_ = 0;
 public:
  Cells(Real* cells, Index total) : cells_(cells) {
    while (columns_ * columns_ < total) columns_ *= 2;
    rows_ = total / columns_;
    for (Index k = 0; k < columns_; ++k) minima_[k] = cells_[k];
    for (Index row = 1; row < rows_; ++row)
      for (Index k = 0; k < columns_; ++k) minima_[k] = minimum(cells_[row * columns_ + k], minima_[k]);
  }

  Real lowest() {
    best_ = 0;
    for (Index k = 1; k < columns_; ++k)
      if (minima_[k] < minima_[best_]) best_ = k;
    return minima_[best_];
  }

  // Remove the cell that lowest() found; return its index.
  Index take() {
    Index row = 0;
    while (row < rows_ - 1 && cells_[row * columns_ + best_] > minima_[best_]) ++row;
    cells_[row * columns_ + best_] = minima_[best_] = std::numeric_limits<Real>::infinity();
    for (Index r = 0; r < rows_; ++r) minima_[best_] = minimum(cells_[r * columns_ + best_], minima_[best_]);
    return row * columns_ + best_;
  }
};

struct Picker {
  Walk<double> walk;
  Scratch<int> ones{std::size_t(walk.size)};

  // Offer all states of a lane in a part.
  void visit(Index lane, Index part, Lowest& best) {
    enter(lane | part << (CLOSED + walk.outer));
    const double ab = walk.c(LOW, LOW + 1), ac = walk.c(LOW, LOW + 2), bc = walk.c(LOW + 1, LOW + 2);
    const Index code = lane | part << (walk.used + INNER + walk.outer);
    for (Index g = 0; g < walk.nodes; ++g) {
      const double a = walk.fields_a[g], b = walk.fields_b[g], c = walk.fields_c[g], e0 = walk.energies[g];
      const double e1 = e0 + a, e2 = e0 + b, e4 = e0 + c;
      const double e3 = e1 + b + ab, e5 = e1 + c + ac, e6 = e2 + c + bc;
      const double energies[8] = {e0, e1, e2, e3, e4, e5, e6, e3 + c + ac + bc};
      const double least = minimum(minimum(minimum(e0, e1), minimum(e2, e3)),
                                   minimum(minimum(e4, e5), minimum(e6, energies[7])));
      if (least < best.found[0].energy)  // rarely: one comparison disposes of eight states
        for (Index inner = 0; inner < 8; ++inner)
          best.offer(energies[inner], code | inner << walk.used | g << (walk.used + INNER));
    }
  }

  // Fill the nodes' energies with these low and part bits set.
  void enter(Index code) {
    const int inside = CLOSED + walk.outer;
    double energy = 0;
    int count = 0;
    for (int j = LOW; j < inside; ++j) walk.field[j] = walk.c(j, j);
    for (int i = 0; i < walk.size; ++i) {
      if (!(code >> i & 1)) continue;
      ones[count++] = i;
      for (int q = 0; q < count; ++q) energy += walk.c(i, ones[q]);
      for (int j = LOW; j < inside; ++j) walk.field[j] += walk.c(i, j);
    }
    walk.fill_nodes(energy);
  }
};

// One call: what all its threads share.
template <class T>
struct Call {
  Control& control;
  const In<T, 3> A;
  const Out<T, 3> states;
  const Out<double, 2> energies;
  const Index held, batch = A.shape[0], count = energies.shape[1];
  const int n = static_cast<int>(A.shape[1]);
  Scratch<double> sizes{std::size_t(batch)};  // Σ|A_ij|, negative if the search has to be repeated

  void write(Index b, Lowest& lowest) const { lowest.write(A.at(b), n, states.at(b), energies.at(b)); }

  void few() {
    control.share(batch, control.piece(batch), [&](Index first, Index last) {
      double E[1 << FEW];
      Lowest lowest{Scratch<Candidate>(count)};
      for (Index b = first; b < last && !control.stopped(); ++b) {
        few_energies(A.at(b), n, E);
        Cells<double> remaining(E, 1 << n);
        for (Candidate& each : lowest.found) each = {remaining.lowest(), remaining.take()};
        write(b, lowest);
        sizes[b] = sizeof(T) == 8 ? absolute_sum(A.at(b), n * n) : 0.0;
      }
    });
  }

  // Search these instances, scanning in precision Real. Marks those of which rounding leaves the result open.
  template <class Real>
  void many(const Index* chosen, Index size) {
    const Tasks tasks{n};
    const Index row = 1 << minimum(LOW, n - INNER), total = tasks.count * row;
    const Index most = held / Index(total * sizeof(Real));
    const Index group = size < most ? size : most < 1 ? 1 : most;
    Scratch<Real> cells(std::size_t(group) * total);
    for (Index start = 0; start < size && !control.stopped(); start += group) {
      const Index here = minimum(size - start, group), all = here * tasks.count;
      control.share(all, control.piece(all), [&](Index first, Index last) {
        Scanner<Real> scanner{Walk<Real>(n)};
        for (Index task = first; task < last; ++task) {
          const Index number = task & (tasks.count - 1);
          if (task == first || number == 0) {
            scanner.walk.load(A.at(chosen[start + (task >> tasks.bits)]), Real(1));
            scanner.walk.load_lanes();
          }
          for (Index p = 0; p < tasks.parts && !control.stopped(); ++p)
            scanner.scan(number * tasks.parts + p, p == 0, cells.data() + task * row);
        }
      });
      control.share(here, control.piece(here), [&](Index first, Index last) {
        Picker picker{Walk<double>(n)};
        Lowest lowest{Scratch<Candidate>(count)};
        for (Index k = first; k < last && !control.stopped(); ++k)
          pick(chosen[start + k], tasks, cells.data() + k * total, row, picker, lowest);
      });
    }
  }

  // Search the lowest cells, and those that roundings, 2n of partial sums, may have put behind the `count` lowest.
  template <class Real>
  void pick(Index b, const Tasks& tasks, Real* cells, Index row, Picker& picker, Lowest& lowest) {
    const Index most = count + SPARE_CELLS, total = tasks.count * row;
    const double size = absolute_sum(A.at(b), n * n);
    const double tolerance = 4 * n * double(std::numeric_limits<Real>::epsilon()) * size;
    picker.walk.load(A.at(b), 1.0);
    for (Candidate& each : lowest.found) each = {INFINITE, 0};
    Cells<Real> remaining(cells, total);
    double bound = INFINITE;
    bool settled = total <= most;
    for (Index taken = 0; taken < total && taken <= most; ++taken) {
      const double least = remaining.lowest();
      if (taken >= count && least > bound) {
        settled = true;
        break;
      }
      if (taken < count) bound = least + tolerance;
      const Index cell = remaining.take();
      for (Index p = 0; p < tasks.parts; ++p) {
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
double search(Control& control, In<T, 3> A, Out<T, 3> states, Out<double, 2> energies, Index held) {
  const Index batch = A.shape[0], n = A.shape[1], count = energies.shape[1];
  require(1 <= n && n <= MAX_BITS, "expected 1 to 50 bits");
  require(1 <= count && count <= Index(1) << n, "expected 1 <= count <= 2**n");
  Call<T> call{control, A, states, energies, held};
  if (n <= FEW) {
    call.few();
  } else {
    Scratch<Index> open(batch);
    for (Index b = 0; b < batch; ++b) open[b] = b;
    call.template many<T>(open.data(), batch);
    Index repeated = 0;
    for (Index b = 0; b < batch; ++b)
      if (call.sizes[b] < 0) open[repeated++] = b;
    if (repeated && !control.stopped()) call.template many<double>(open.data(), repeated);
  }
  double largest = 0;
  for (double size : call.sizes) largest = maximum(largest, size);
  return largest;
}

}  // namespace

double search_single(Control& control, In<float, 3> A, Out<float, 3> states, Out<double, 2> energies, Index held) {
  return search(control, A, states, energies, held);
}
double search_double(Control& control, In<double, 3> A, Out<double, 3> states, Out<double, 2> energies, Index held) {
  return search(control, A, states, energies, held);
}

}  // namespace qubolearn::VARIANT
