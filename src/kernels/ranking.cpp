// Ranking of candidate states: their energies in double precision, and the best distinct ones in order.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "call.hpp"

namespace qubolearn {
namespace {

template <class Real>
Index rank(Control& control, In<Real, 3> A, In<std::uint8_t, 3> candidates, Out<Real, 3> states,
           Out<double, 2> energies) {
  const Index batch = A.shape[0], n = A.shape[1], c = candidates.shape[1], count = energies.shape[1];
  const std::uint8_t* bits = candidates.data;
  require_bits(candidates);
  std::atomic<Index> fewest{count};
  control.share(batch, std::max<Index>(1, batch / (4 * control.threads())), [&](auto first, auto last) {
    std::vector<Index> ones(n + 1), order(c);
    std::vector<double> value(c);
    for (Index b = first; b < last; ++b) {
      const auto row = [&](Index i) { return bits + (b * c + i) * n; };
      for (Index i = 0; i < c && !control.stopped(); ++i)
        value[i] = energy_of(A.at(b), n, ones.data(), [x = row(i)](Index j) { return x[j]; });
      if (control.stopped()) return;
      std::iota(order.begin(), order.end(), 0);
      // NaN would break the order
      const auto finite = std::stable_partition(order.begin(), order.end(), [&](auto i) { return std::isfinite(value[i]); });
      std::stable_sort(order.begin(), finite, [&](auto i, auto j) { return value[i] < value[j]; });
      std::vector<Index> kept;
      for (auto each = order.begin(); each != finite && std::ssize(kept) < count; ++each) {
        // equal states have equal energies, so only the last ones kept can be repeats
        bool repeat = false;
        for (auto k = kept.rbegin(); k != kept.rend() && value[*k] == value[*each] && !repeat; ++k)
          repeat = std::memcmp(row(*k), row(*each), n) == 0;
        if (!repeat) kept.push_back(*each);
      }
      for (std::size_t k = 0; k < kept.size(); ++k) {
        energies.at(b)[k] = value[kept[k]];
        std::copy_n(row(kept[k]), n, states.at(b) + k * n);
      }
      auto seen = fewest.load();
      while (std::ssize(kept) < seen && !fewest.compare_exchange_weak(seen, std::ssize(kept))) {
      }
    }
  });
  return fewest.load();
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
