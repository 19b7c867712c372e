// Random numbers that depend on a seed and a stream number alone, never on threads or the processor.
#pragma once
#include "lanes.hpp"

namespace qubolearn::VARIANT {

// Turn any number into a well-mixed one that is not 0 (splitmix64).
INLINE std::uint64_t mix(std::uint64_t z) {
  z = (z + 1) * 0x9E3779B97F4A7C15u;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
  return (z ^ (z >> 31)) | 1;
}

// One generator (xorshift64).
struct Stream {
  std::uint64_t state = 1;
  Stream() = default;
  Stream(std::uint64_t seed, std::uint64_t number) : state(mix(mix(seed) + number)) {}

  INLINE std::uint64_t next() {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state;
  }

  double exponential() { return -portable_log(static_cast<double>((next() >> 11) + 1) * 0x1p-53); }
};

// The states of sixteen independent generators (xorshift32), one per lane.
inline Words lane_seeds(Stream stream) {
  Words states;
  for (int lane = 0; lane < LANES; ++lane) states[lane] = static_cast<std::uint32_t>(stream.next() >> 32) | 1;
  return states;
}

INLINE Words next(Words& states) {
  states ^= states << 13;
  states ^= states >> 17;
  states ^= states << 5;
  return states;
}

INLINE Floats uniforms(Words& states) {
  return (__builtin_convertvector((Ints)(next(states) >> 9), Floats) + 0.5f) * 0x1p-23f;
}

// Return -log(w) for w in (0, 1]: w's exponent plus a polynomial of its mantissa, right at both ends, else to 1.6e-5.
INLINE Floats negative_log(Floats w) {
  const Ints bits = (Ints)w;
  const Floats exponent = __builtin_convertvector((bits >> 23) - 127, Floats);
  const Floats y = (Floats)((bits & 0x7FFFFF) | 0x3F800000) - 1.0f;
  const Floats p = (((0.045149f * y - 0.1935756f) * y + 0.415606f) * y - 0.7090964f) * y + 1.441917f;
  return (p * y + exponent) * -0.69314718f;
}

constexpr int QUANTILES = 4096;
constexpr float MAX_QUANTILE = 9.02f;  // above log(2 * QUANTILES)
constexpr int SHARING = 16;            // groups of 16 reads that share one generator

// Quantiles of the exponential distribution in a fixed random order: those from a random place on are the thresholds of
// reads side by side, for one load.
class Quantiles {
  float values[QUANTILES + SHARING * LANES];  // the first ones again at the end
 public:
  Quantiles() {
    for (int k = 0; k < QUANTILES; ++k) values[k] = static_cast<float>(-portable_log((k + 0.5) / QUANTILES));
    Stream random(20240229, 0);
    for (int k = QUANTILES - 1; k > 0; --k) {
      const auto other = random.next() % (k + 1);
      const float value = values[k];
      values[k] = values[other];
      values[other] = value;
    }
    for (int k = 0; k < SHARING * LANES; ++k) values[QUANTILES + k] = values[k];
  }

  // Return where thresholds begin; one random number serves four calls, with part = 0 ... 3.
  INLINE const float* at(std::uint64_t random, int part) const {
    return values + ((random >> (8 + 14 * part)) & (QUANTILES - 1));
  }
};

// Thresholds -log(u) of 16 bits of one read. Their maximum comes first, as one of its quantiles: most often no bit is
// that cheap to flip. Given the maximum, a random lane has it, and the others are independent draws below it.
class Maxima {
  float maxima[QUANTILES], shares[QUANTILES];  // P(-log(u) < maximum)
 public:
  static constexpr float LARGEST = 11.8f;  // above the last one

  Maxima() {
    for (int k = 0; k < QUANTILES; ++k) {
      const double share = portable_exp(portable_log((k + 0.5) / QUANTILES) / LANES);
      shares[k] = static_cast<float>(share);
      maxima[k] = static_cast<float>(-portable_log(1 - share));
    }
  }

  INLINE float maximum(std::uint64_t random) const { return maxima[random >> 52]; }

  INLINE Floats all(std::uint64_t random, Words& states) const {
    const Floats below_it = negative_log(1.0f - uniforms(states) * shares[random >> 52]);
    return select(static_cast<Mask>(1u << (random >> 48 & (LANES - 1))), splat(maximum(random)), below_it);
  }
};

// Return one of these tables, which is made once.
template <class Table>
inline const Table& shared() {
  static const Table table;
  return table;
}

}  // namespace qubolearn::VARIANT
