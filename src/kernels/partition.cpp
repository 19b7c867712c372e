// The partition function of QUBOs with all pair moments, in one pass over all states, in double precision.
// Weights are powers of two, 2^t with t = -β E / ln 2: products along the walk if all are in the range of double, else
// a polynomial of sums along it for inner bits 0, and products for inner states. All variants sum in 8 lanes, in one order.
#include <cmath>

#include "states.hpp"

namespace qubolearn::VARIANT {
namespace {

constexpr int W = 8, INSIDE = 3;  // lanes of a vector, and how many bits number them
constexpr int VECTORS = ROW / W;
using V = Vector<double, W>;
using Bits = Vector<std::int64_t, W>;
constexpr double LN2 = 0.6931471805599453;
constexpr double NONE = std::numeric_limits<double>::quiet_NaN();
constexpr double LEAST = -1022, TOP = 1023;  // exponents of normal numbers
constexpr double MULTIPLIED = 980;           // products of weights up to 2^±980 can be summed over a part
constexpr double SUM_BITS = 20;              // a sum over a part needs this many bits above its largest term
constexpr double REACH = 960;                // the inner bits may raise a weight by 2^REACH, else weights leave the range
constexpr double NEGLIGIBLE = 71;            // even 2^18 weights that many bits below the largest do not matter

// 2^t for t inside the range of normal numbers; 0 if t <= floor. The polynomial has a relative error of 2e-15.
inline V power(V t, double floor = LEAST) {
  constexpr double POWER[] = {1.0000000000000007, 0.69314718055994828, 0.24022650695901254, 0.055504108664544756,
                            0.0096181291105365708, 0.0013333558214738293, 0.00015403526882354606, 1.5252666220145649e-05,
                            1.3217210256367588e-06, 1.0206977921453389e-07, 6.7679634825749827e-09};
  constexpr double MAGIC = 6755399441055744.0;  // 3 · 2^51: adding it rounds to integers
  const V rounded = t + MAGIC, r = t - (rounded - MAGIC);
  V p = splat<V>(POWER[10]);
#pragma GCC unroll 10
  for (int k = 9; k >= 0; --k) p = p * r + POWER[k];
  const Bits exponent = reinterpret_cast<Bits>(rounded) << 52;
  return reinterpret_cast<V>((reinterpret_cast<Bits>(p) + exponent) & (t > floor));
}

// x[k] = 2^(scale x[k]) for an array with room for whole vectors.
inline void raise(double* x, Index count, double scale = 1) {
  for (Index k = 0; k < count; k += W) store(x + k, power(load<V>(x + k) * scale));
}

template <int N = W>
inline double sum(Vector<double, N> v) {
  if constexpr (N == 1) {
    return v[0];
  } else {
    Vector<double, N / 2> halves[2];
    std::memcpy(halves, &v, sizeof v);
    return sum<N / 2>(halves[0] + halves[1]);
  }
}

// out[i] = Σ of v[stride g] over the g < 2^bits with bit i set. v is overwritten; v[0] becomes the sum of all.
INLINE void fold(V* v, int stride, int bits, double* out) {
  for (int i = bits; i-- > 0;) {
    V total = {};
    for (int g = 0; g < 1 << i; ++g) {
      const V upper = v[stride * ((1 << i) + g)];
      total += upper;
      v[stride * g] += upper;
    }
    out[i] = sum(total);
  }
}

// The exponents of all couplings of a QUBO: how far they reach.
struct Range {
  double up = 0, down = 0;  // sums of all positive and all negative ones
  double inner = 0;         // sum of the positive ones of the inner bits

  Range() = default;
  explicit Range(Walk<double>& walk) {
    for (int i = 0; i < walk.size; ++i)
      for (int j = 0; j <= i; ++j) {
        up += maximum(walk.c(i, j), 0.0);
        down += minimum(walk.c(i, j), 0.0);
      }
    for (int i = LOW; i < CLOSED; ++i)
      for (int j = 0; j < walk.size; ++j) inner += maximum(walk.c(i, j), 0.0);
  }
  bool multiplied() const { return up <= MULTIPLIED && down >= -MULTIPLIED; }
  bool steep() const { return !multiplied() && !(inner <= REACH); }
};

// Sums over some states, divided by 2^peak.
struct Sums {
  double peak, total, *moments;  // [n, n], of x xᵀ

  void add(const Sums& other, Index square) {
    const double top = maximum(peak, other.peak);
    const double mine = power(splat<V>(peak - top))[0], theirs = power(splat<V>(other.peak - top))[0];
    peak = top;
    total = mine * total + theirs * other.total;
    for (Index i = 0; i < square; ++i) moments[i] = mine * moments[i] + theirs * other.moments[i];
  }
};

template <class Ops>
struct Summer {
  enum { ANY, WITH_A, WITH_B, WITH_C };
  static constexpr bool MULTIPLY = Ops::NOTHING == 1;
  Walk<double, Ops> walk;
  double head = 0, floor = 0;
  Scratch<double> factors{INNER * ROW}, leaves{std::size_t(walk.nodes) * 8};
  Scratch<V> all{VECTORS}, by_inner{INNER * VECTORS}, by_outer{std::size_t(walk.outer) * VECTORS};
  Scratch<V> by_node{std::size_t(walk.nodes) * 4};  // sums over lanes: of all weights, with a, with b, with c
  Scratch<V> work{1 << OUTER};
  Scratch<double> M_{std::size_t(walk.size) * walk.size};
  V pairs[INNER] = {};

  void load_exponents(Walk<double>& exponents, const Range& range) {
    std::memcpy(walk.C.data(), exponents.C.data(), walk.C.size() * sizeof(double));
    if (MULTIPLY) raise(walk.C.data(), walk.C.size());
    walk.load_lanes();
    head = TOP - SUM_BITS - range.inner;
    floor = head - range.inner - NEGLIGIBLE;
    for (int k = 0; k < INNER; ++k) {
      std::memcpy(&factors[k * ROW], walk.row(LOW + k), walk.lanes * sizeof(double));
      if (!MULTIPLY) raise(&factors[k * ROW], walk.lanes);
    }
  }

  // Sum 2^t over the states of a part.
  void sum_part(Index part, Sums& sums) {
    walk.enter(part);
    sums.peak = MULTIPLY ? 0 : highest() - head;
    prepare_leaves(sums.peak);
    for (V& each : by_node) each = V{};
    for (V& each : pairs) each = V{};
    for (int first = 0; first < walk.lanes; first += W) sum_lanes(first);
    // of 9 bits 6 number lanes, of 10 bits 7; known loops are faster
    sums.total = walk.used == LOW ? collect<LOW>() : walk.used == 7 ? collect<7>() : collect<6>();
    store_moments(part, sums.total, sums.moments);
  }

  // Exponents or weights of W lanes at node g, whose parent is on the stack `levels`.
  V enter_node(V (&levels)[OUTER + 1], int g, int first) {
    if (g == 0) return levels[walk.outer] = load<V>(&walk.base[first]);
    const int bit = std::countr_zero(unsigned(g));
    const V& parent = levels[std::countr_zero(unsigned((g & (g - 1)) | walk.nodes))];
    return levels[bit] = Ops::combine(parent, load<V>(walk.row(CLOSED + bit) + first));
  }

  // The largest exponent of a state whose inner bits are 0.
  double highest() {
    V levels[OUTER + 1], top = splat<V>(-std::numeric_limits<double>::infinity());
    for (int first = 0; first < walk.lanes; first += W)
      for (int g = 0; g < walk.nodes; ++g) top = maximum(top, enter_node(levels, g, first) + walk.energies[g]);
    double highest = top[0];
    for (int k = 1; k < W; ++k) highest = maximum(highest, double(top[k]));
    return highest;
  }

  // What differs from node to node: an exponent or weight, and factors of the inner bits with their couplings.
  void prepare_leaves(double peak) {
    double couplings[W] = {walk.c(LOW, LOW + 1), walk.c(LOW, LOW + 2), walk.c(LOW + 1, LOW + 2)};
    if (!MULTIPLY) {
      raise(couplings, W);
      for (Scratch<double>* fields : {&walk.fields_a, &walk.fields_b, &walk.fields_c}) raise(fields->data(), walk.nodes);
    }
    const double ab = couplings[0], ac = couplings[1], bc = couplings[2];
    for (int g = 0; g < walk.nodes; ++g) {
      const double a = walk.fields_a[g], b = walk.fields_b[g], c = walk.fields_c[g];
      const double own = MULTIPLY ? walk.energies[g] : walk.energies[g] - peak;
      const double leaf[8] = {own, a, b, b * ab, c, c * ac, c * bc, (c * ac) * bc};
      std::memcpy(&leaves[8 * g], leaf, sizeof leaf);
    }
  }

  void sum_lanes(int first) {
    const V factor_a = load<V>(&factors[first]), factor_b = load<V>(&factors[ROW + first]),
            factor_c = load<V>(&factors[2 * ROW + first]);
    V levels[OUTER + 1], halves[OUTER + 1], upper[OUTER + 1];  // `upper`: sums of nodes with an outer bit set
    for (int i = 0; i < walk.outer; ++i) upper[i] = V{};
    V sum_a = {}, sum_b = {}, sum_c = {}, sum_ab = {}, sum_ac = {}, sum_bc = {}, any = {};
    for (int g = 0; g < walk.nodes; ++g) {
      const double* leaf = &leaves[8 * g];
      const V row = enter_node(levels, g, first);
      const V w = MULTIPLY ? row * leaf[0] : power(row + leaf[0], floor);
      const V wa = w * (factor_a * leaf[1]), wb = w * (factor_b * leaf[2]), wab = wa * (factor_b * leaf[3]);
      const V wc = w * (factor_c * leaf[4]), wac = wa * (factor_c * leaf[5]), wbc = wb * (factor_c * leaf[6]),
              wabc = wab * (factor_c * leaf[7]);
      const V a_alone = wa + wab, ac = wac + wabc, bc = wbc + wabc;
      const V with_a = a_alone + ac, with_b = (wb + wab) + bc, with_c = ac + (wc + wbc);
      any = (a_alone + (w + wb)) + with_c;
      sum_a += with_a, sum_b += with_b, sum_c += with_c;
      sum_ab += wab + wabc, sum_ac += ac, sum_bc += bc;
      V* node = &by_node[4 * g];
      node[ANY] += any, node[WITH_A] += with_a, node[WITH_B] += with_b, node[WITH_C] += with_c;
      int k = 0;
      for (; g >> k & 1; ++k) {  // a subtree is complete: `any` is its upper half
        upper[k] += any;
        any += halves[k];
      }
      halves[k] = any;
    }
    const int place = first / W;
    all[place] = any;
    for (int i = 0; i < walk.outer; ++i) by_outer[i * VECTORS + place] = upper[i];
    by_inner[place] = sum_a, by_inner[VECTORS + place] = sum_b, by_inner[2 * VECTORS + place] = sum_c;
    pairs[0] += sum_ab, pairs[1] += sum_ac, pairs[2] += sum_bc;
  }

  double* M(int i) { return M_.data() + i * walk.size; }

  // All pair moments of the bits inside a part into the lower triangle of M; the sum of all weights is returned.
  template <int USED>
  double collect() {
    constexpr int above = USED - INSIDE;  // bits that number the vectors of lanes
    for (int k = 0; k < INNER; ++k) fold_lanes(&by_inner[k * VECTORS], above, M(LOW + k));
    for (int i = 0; i < walk.outer; ++i) fold_lanes(&by_outer[i * VECTORS], above, M(CLOSED + i));
    for (int i = above; i-- > 0;) {
      take_upper(all.data(), 1, i);
      fold_lanes(work.data(), i, M(INSIDE + i));
      M(INSIDE + i)[INSIDE + i] = sum(work[0]);
    }
    for (int i = 0; i < INSIDE; ++i)
      for (int j = 0; j <= i; ++j) M(i)[j] = sum(where_set<Adding, double>(i, 0, where_set<Adding, double>(j, 0, all[0])));
    double folded[OUTER];
    for (int k = 0; k < INNER; ++k) {
      fold(&by_node[WITH_A + k], 4, walk.outer, folded);
      M(LOW + k)[LOW + k] = sum(by_node[WITH_A + k]);
      for (int i = 0; i < walk.outer; ++i) M(CLOSED + i)[LOW + k] = folded[i];
    }
    M(LOW + 1)[LOW] = sum(pairs[0]), M(LOW + 2)[LOW] = sum(pairs[1]), M(LOW + 2)[LOW + 1] = sum(pairs[2]);
    for (int i = walk.outer; i-- > 0;) {
      take_upper(&by_node[ANY], 4, i);
      fold(work.data(), 1, i, M(CLOSED + i) + CLOSED);
      M(CLOSED + i)[CLOSED + i] = sum(work[0]);
    }
    return sum(by_node[ANY]);
  }

  // Copy what has the last bit i set to `work`, and add it to the rest: its moments are those of pairs with bit i.
  INLINE void take_upper(V* v, int stride, int i) {
    for (int g = 0; g < 1 << i; ++g) {
      work[g] = v[stride * ((1 << i) + g)];
      v[stride * g] += work[g];
    }
  }

  // out[i] = Σ_s s_i v[s] over the lanes of 2^bits vectors, which are overwritten.
  INLINE static void fold_lanes(V* v, int bits, double* out) {
    fold(v, 1, bits, out + INSIDE);
    for (int i = 0; i < INSIDE; ++i) out[i] = sum(where_set<Adding, double>(i, 0, v[0]));
  }

  // M without unused low bits and with the part's bits, symmetric.
  void store_moments(Index part, double total, double* moments) {
    const int n = walk.n, inside = walk.used + INNER + walk.outer;
    for (int i = 0; i < n; ++i)
      for (int j = 0; j <= i; ++j) {
        double value;
        const int on = i < inside ? 1 : part >> (i - inside) & 1;
        if (i < inside) value = M(walk.position(i))[walk.position(j)];
        else if (j < inside) value = on * moments[j * n + j];
        else value = on * (part >> (j - inside) & 1) * total;
        moments[i * n + j] = moments[j * n + i] = value;
      }
  }
};

void few(const double* A, int n, double beta, double& value, double* marginals) {
  const int states = 1 << n, room = states < 16 ? 16 : states;
  double E[1 << FEW];
  few_energies(A, n, E);
  const double sign = beta < 0 ? -1 : 1;
  V lowest = load<V>(E) * sign;
  for (int s = W; s < room; s += W) lowest = minimum(lowest, load<V>(E + s) * sign);
  double best = lowest[0];
  for (int k = 1; k < W; ++k) best = minimum(best, double(lowest[k]));
  best *= sign;  // the energy of the heaviest state
  for (int s = 0; s < room; s += W) store(E + s, power((load<V>(E + s) - best) * (-beta / LN2)));
  for (int half = 1; half < states; half *= 2)  // from weights of states to sums over all that have these bits and others
    for (int block = 0; block < states; block += 2 * half)
      for (int s = block; s < block + half; ++s) E[s] += E[s + half];
  value = portable_log(E[0]) - beta * best;
  for (int i = 0; i < n; ++i)
    for (int j = 0; j < n; ++j) marginals[i * n + j] = E[1 << i | 1 << j] / E[0];
}

void sum_many(Control& control, In<double, 3> A, double beta, double* values, double* marginals, Index held) {
  const Index batch = A.shape[0], square = A.shape[1] * A.shape[1];
  const int n = static_cast<int>(A.shape[1]);
  const Tasks tasks{n};
  held /= tasks.count * square * 8;
  const Index group = batch < held ? batch : held < 1 ? 1 : held;
  Scratch<Sums> results(group * tasks.count);
  Scratch<double> moments(group * tasks.count * square);
  for (Index start = 0; start < batch && !control.stopped(); start += group) {
    const Index here = minimum(batch - start, group), all = here * tasks.count;
    control.share(all, control.piece(all), [&](Index first, Index last) {
      Scratch<double> more(square);
      Walk<double> exponents(n);
      Summer<Multiplying> multiplying{Walk<double, Multiplying>(n)};
      Summer<Adding> adding{Walk<double>(n)};
      Range range;
      for (Index task = first; task < last && !control.stopped(); ++task) {
        const Index number = task & (tasks.count - 1);
        if (task == first || number == 0) {
          exponents.load(A.at(start + (task >> tasks.bits)), -beta / LN2);
          range = Range(exponents);
          if (range.multiplied()) multiplying.load_exponents(exponents, range);
          else if (!range.steep()) adding.load_exponents(exponents, range);
        }
        results[task] = {0, NONE, &moments[task * square]};
        for (Index p = 0; p < tasks.parts && !range.steep() && !control.stopped(); ++p) {
          Sums sum{0, 0, p ? more.data() : results[task].moments};
          if (range.multiplied()) multiplying.sum_part(number * tasks.parts + p, sum);
          else adding.sum_part(number * tasks.parts + p, sum);
          if (p) results[task].add(sum, square);
          else results[task] = sum;
        }
      }
    });
    for (Index k = 0; k < here && !control.stopped(); ++k) {
      Sums sum = results[k * tasks.count];
      for (Index task = 1; task < tasks.count; ++task) sum.add(results[k * tasks.count + task], square);
      values[start + k] = std::isnan(sum.total) ? NONE : portable_log(sum.total) + sum.peak * LN2;
      for (Index i = 0; i < square; ++i) marginals[(start + k) * square + i] = sum.moments[i] / sum.total;
    }
  }
}

}  // namespace

void partition(Control& control, In<double, 3> A, double beta, Out<double, 1> values, Out<double, 3> marginals,
               Index held) {
  const Index batch = A.shape[0], n = A.shape[1];
  require(1 <= n && n <= MAX_BITS, "expected 1 to 50 bits");
  if (n > FEW) return sum_many(control, A, beta, values.data, marginals.data, held);
  control.share(batch, control.piece(batch), [&](Index first, Index last) {
    for (Index b = first; b < last && !control.stopped(); ++b)
      few(A.at(b), static_cast<int>(n), beta, values.data[b], marginals.at(b));
  });
}

}  // namespace qubolearn::VARIANT
