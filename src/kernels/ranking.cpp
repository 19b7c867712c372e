// Ranking of candidate states: their energies in double precision, and the best distinct ones in order.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <vector>

#include "call.hpp"

namespace qubolearn {
namespace {

// xᵀAx, row by row; `ones` is room for the positions of the bits that are set.
template <class Real>
double energy(const Real* A, const std::uint8_t* x, std::int64_t n, std::vector<std::int64_t>& ones) {
  std::size_t size = 0;
  for (std::int64_t j = 0; j < n; ++j) {
    ones[size] = j;
    size += x[j];
  }
  double total = 0;
  for (std::size_t a = 0; a < size; ++a) {
    double row = 0;
    for (std::size_t b = 0; b < size; ++b) row += A[ones[a] * n + ones[b]];
    total += row;
  }
  return total;
}

template <class Real>
auto rank(In<Real, 3> A, In<std::uint8_t, 3> candidates, Out<Real, 3> states, Out<double, 2> energies) {
  const std::int64_t batch = candidates.shape(0), c = candidates.shape(1), n = candidates.shape(2);
  const std::int64_t count = energies.shape(1);
  const std::uint8_t* bits = candidates.data();
  require(std::all_of(bits, bits + batch * c * n, [](std::uint8_t bit) { return bit < 2; }), "expected bits 0 and 1");
  return [=](Control& control) {
    std::atomic<std::int64_t> fewest{count};
    control.share(batch, std::max<std::int64_t>(1, batch / (4 * control.threads())), [&](auto first, auto last) {
      std::vector<std::int64_t> ones(n + 1), order(c);
      std::vector<double> value(c);
      for (std::int64_t b = first; b < last; ++b) {
        const auto row = [&](std::int64_t i) { return bits + (b * c + i) * n; };
        for (std::int64_t i = 0; i < c && !control.stopped(); ++i)
          value[i] = energy(A.data() + b * n * n, row(i), n, ones);
        if (control.stopped()) return;
        std::iota(order.begin(), order.end(), 0);
        // NaN would break the order; candidates without a finite energy are left out below
        const auto finite = std::stable_partition(order.begin(), order.end(), [&](auto i) { return std::isfinite(value[i]); });
        std::stable_sort(order.begin(), finite, [&](auto i, auto j) { return value[i] < value[j]; });
        std::vector<std::int64_t> kept;
        for (auto each = order.begin(); each != finite && std::ssize(kept) < count; ++each) {
          // equal states have equal energies, so only the last ones kept can be repeats
          bool repeat = false;
          for (auto k = kept.rbegin(); k != kept.rend() && value[*k] == value[*each] && !repeat; ++k)
            repeat = std::memcmp(row(*k), row(*each), n) == 0;
          if (!repeat) kept.push_back(*each);
        }
        for (std::size_t k = 0; k < kept.size(); ++k) {
          energies.data()[b * count + k] = value[kept[k]];
          std::copy_n(row(kept[k]), n, states.data() + (b * count + k) * n);
        }
        auto seen = fewest.load();
        while (std::ssize(kept) < seen && !fewest.compare_exchange_weak(seen, std::ssize(kept))) {
        }
      }
    });
    return fewest.load();
  };
}

}  // namespace

void bind_ranking(nb::module_& m) {
  const auto bind = [&](auto function) {
    define(m, "rank", function, "A:bnn candidates:brn states:bcn energies:bc",
           "Fill states and energies with the lowest distinct candidates, ascending; of equal energies the earlier comes\n"
           "first. Return the smallest number of states found in a QUBO.");
  };
  bind(&rank<float>);
  bind(&rank<double>);
}

}  // namespace qubolearn
