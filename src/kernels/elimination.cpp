// Exact elimination of bits with at most three neighbors, for callers that need one lowest state.
//
// In spins, minimizing over a spin s with couplings a, b, c to its neighbors leaves -|a s₁ + b s₂ + c s₃|. That is an even
// function of three spins, so it is a sum of couplings between pairs of them. A field counts as a coupling to one more
// spin that is always up. Undone in reverse, the eliminated spins take their best values.
#include <cmath>
#include <cstdint>
#include <vector>

#include "call.hpp"

namespace qubolearn {
namespace {

template <class T, int DIMENSIONS>
using Array = Given<View<T, DIMENSIONS>>;

constexpr int MAX_NEIGHBORS = 3;
constexpr std::int32_t FIELD = -1;  // the spin that is always up

class Elimination {
  struct Coupling {
    std::int32_t to;
    double strength;
  };
  struct Step {
    std::int32_t spin, count;
    Coupling to[MAX_NEIGHBORS];
  };
  std::vector<double> fields_;
  std::vector<std::vector<Coupling>> couplings_;
  std::vector<Step> steps_;
  std::vector<std::int32_t> kept_;
  Index edges_ = 0;

 public:
  // A QUBO with linear [n] and, for each edge [2, m], quadratic [m] terms.
  Elimination(Array<const double, 1> linear, Array<const Index, 2> edges, Array<const double, 1> quadratic)
      : fields_(linear.shape(0)), couplings_(linear.shape(0)) {
    const auto n = static_cast<Index>(linear.shape(0)), m = static_cast<Index>(quadratic.shape(0));
    require(edges.shape(0) == 2 && edges.shape(1) == quadratic.shape(0), "expected edges [2, m] and quadratic [m]");
    require(n < INT32_MAX, "expected fewer than 2**31 bits");
    for (Index i = 0; i < n; ++i) fields_[i] = -linear.data()[i] / 2;  // x = (1 - s) / 2
    for (Index k = 0; k < m; ++k) {
      const Index i = edges.data()[k], j = edges.data()[m + k];
      require(0 <= i && i < n && 0 <= j && j < n && i != j, "expected edges between two bits below n");
      const double strength = quadratic.data()[k] / 4;
      fields_[i] -= strength;
      fields_[j] -= strength;
      add(static_cast<std::int32_t>(i), static_cast<std::int32_t>(j), strength);
    }
    eliminate();
  }

  Index bits() const { return static_cast<Index>(kept_.size()); }
  Index edges() const { return edges_; }

  // Write what is left as a QUBO: the numbers of its bits, linear, edges and quadratic.
  void write(Array<Index, 1> kept, Array<double, 1> linear, Array<Index, 2> edges,
             Array<double, 1> quadratic) const {
    const auto m = static_cast<std::size_t>(edges_);
    require(kept.size() == kept_.size() && linear.size() == kept_.size(), "expected kept and linear [bits]");
    require(edges.shape(0) == 2 && edges.shape(1) == m && quadratic.size() == m, "expected edges [2, m], quadratic [m]");
    std::vector<Index> place(fields_.size());
    for (Index a = 0; a < bits(); ++a) place[kept_[a]] = a, kept.data()[a] = kept_[a];
    Index k = 0;
    for (Index a = 0; a < bits(); ++a) {
      linear.data()[a] = -2 * fields_[kept_[a]];
      for (const Coupling& c : couplings_[kept_[a]]) {
        linear.data()[a] -= 2 * c.strength;
        if (c.to < kept_[a]) continue;
        edges.data()[k] = a;
        edges.data()[edges_ + k] = place[c.to];
        quadratic.data()[k++] = 4 * c.strength;
      }
    }
  }

  // Fill in the eliminated bits of states [reads, n] whose other bits are set.
  void restore(Array<std::int8_t, 2> states) const {
    const std::size_t n = fields_.size();
    require(states.shape(1) == n, "expected states [reads, n]");
    for (std::size_t read = 0; read < states.shape(0); ++read) {
      std::int8_t* x = states.data() + read * n;
      for (std::size_t k = steps_.size(); k-- > 0;) {
        double field = 0;
        for (int c = 0; c < steps_[k].count; ++c) {
          const Coupling& to = steps_[k].to[c];
          field += to.to == FIELD || x[to.to] == 0 ? to.strength : -to.strength;
        }
        x[steps_[k].spin] = field > 0;  // spin down
      }
    }
  }

 private:
  int neighbors(std::int32_t i) const { return static_cast<int>(couplings_[i].size()) + (fields_[i] != 0); }

  void eliminate() {
    const auto n = static_cast<std::int32_t>(fields_.size());
    std::vector<std::int32_t> queue;
    std::vector<char> gone(n);
    for (std::int32_t i = 0; i < n; ++i)
      if (neighbors(i) <= MAX_NEIGHBORS) queue.push_back(i);
    for (std::size_t q = 0; q < queue.size(); ++q) {
      const std::int32_t i = queue[q];
      if (gone[i] || neighbors(i) > MAX_NEIGHBORS) continue;
      gone[i] = 1;
      Step step{i, 0, {}};
      for (const Coupling& c : couplings_[i]) step.to[step.count++] = c, remove(c.to, i);
      couplings_[i].clear();
      if (fields_[i] != 0) step.to[step.count++] = {FIELD, fields_[i]};
      replace(step);
      for (int c = 0; c < step.count; ++c)
        if (step.to[c].to != FIELD && neighbors(step.to[c].to) <= MAX_NEIGHBORS) queue.push_back(step.to[c].to);
      steps_.push_back(step);
    }
    Index ends = 0;
    for (std::int32_t i = 0; i < n; ++i)
      if (!gone[i]) kept_.push_back(i), ends += static_cast<Index>(couplings_[i].size());
    edges_ = ends / 2;
  }

  // Couple the neighbors of an eliminated spin with each other.
  void replace(const Step& step) {
    const double a = step.to[0].strength, b = step.to[1].strength, c = step.to[2].strength;  // 0 if there are fewer
    const double none = std::abs(a + b + c), third = std::abs(a + b - c), second = std::abs(a - b + c),
                 first = std::abs(b + c - a);  // by the spin that points the other way
    if (step.count >= 2) add(step.to[0].to, step.to[1].to, -(none + third - second - first) / 4);
    if (step.count == 3) {
      add(step.to[0].to, step.to[2].to, -(none - third + second - first) / 4);
      add(step.to[1].to, step.to[2].to, -(none - third - second + first) / 4);
    }
  }

  void add(std::int32_t i, std::int32_t j, double strength) {
    if (strength == 0) return;
    if (i == FIELD || j == FIELD) {
      fields_[i == FIELD ? j : i] += strength;
      return;
    }
    if (add_one_way(i, j, strength) == 0) {
      remove(i, j);
      add_one_way(j, i, strength);
      remove(j, i);
    } else {
      add_one_way(j, i, strength);
    }
  }

  double add_one_way(std::int32_t i, std::int32_t j, double strength) {
    for (Coupling& c : couplings_[i])
      if (c.to == j) return c.strength += strength;
    couplings_[i].push_back({j, strength});
    return strength;
  }

  void remove(std::int32_t i, std::int32_t j) {
    auto& list = couplings_[i];
    for (auto& c : list)
      if (c.to == j) {
        c = list.back();
        list.pop_back();
        return;
      }
  }
};

}  // namespace

void bind_elimination(nb::module_& m) {
  nb::class_<Elimination>(m, "Elimination", "Eliminate the bits of a QUBO that have at most three neighbors.")
      .def(nb::init<Array<const double, 1>, Array<const Index, 2>, Array<const double, 1>>(),
           nb::arg("linear").noconvert(), nb::arg("edges").noconvert(), nb::arg("quadratic").noconvert())
      .def_prop_ro("bits", &Elimination::bits)
      .def_prop_ro("edges", &Elimination::edges)
      .def("write", &Elimination::write, nb::arg("kept").noconvert(), nb::arg("linear").noconvert(),
           nb::arg("edges").noconvert(), nb::arg("quadratic").noconvert())
      .def("restore", &Elimination::restore, nb::arg("states").noconvert());
}

}  // namespace qubolearn
