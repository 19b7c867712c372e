// Time evolution of qubits: an instance's amplitudes stay in one thread's cache for the whole anneal.
#include "kernels.hpp"
#include "lanes.hpp"

namespace qubolearn::VARIANT {
namespace {

constexpr int WIDTH = NATIVE<float>;
using Register = Vector<float, WIDTH>;

constexpr Index BLOCK = 1 << 12;  // amplitudes that stay in the first-level cache while their qubits rotate

// cos and sin(r) / r of r half turns, |r| <= 1/2, in r², to 2e-7: libm's are not vectorized and differ between systems.
constexpr float COS[] = {1.0f, -4.934793f, 4.0584106f, -1.3318729f, 0.21968243f};
constexpr float SIN[] = {3.1415927f, -5.1677103f, 2.5500774f, -0.5982904f, 0.07765591f};

// Let the lanes whose numbers differ in one bit change places.
template <int BIT>
inline Register partners(Register v) {
  Register swapped;
  for (int i = 0; i < WIDTH; ++i) swapped[i] = v[i ^ BIT];
  return swapped;
}

// Rotate the qubits within each register, all registers in turns: operations on one wait for each other.
template <int STREAMS, int BIT = WIDTH / 2>
inline void rotate_lanes(Register (&a)[STREAMS], float t) {
  if constexpr (BIT > 0) {
    Register slopes;
    for (int i = 0; i < WIDTH; ++i) slopes[i] = i & BIT ? t : -t;
#pragma GCC unroll 16
    for (int i = 0; i < STREAMS; ++i) a[i] = a[i] + slopes * partners<BIT>(a[i]);
    rotate_lanes<STREAMS, BIT / 2>(a, t);
  }
}

// Rotate log2(STREAMS) qubits of WIDTH amplitudes in each of several streams, and after that those inside a register.
template <int STREAMS, bool INSIDE = false>
inline void rotate_streams(float* v, Index stride, float t) {
  Register a[STREAMS];
#pragma GCC unroll 16
  for (int i = 0; i < STREAMS; ++i) a[i] = load<Register>(v + i * stride);
#pragma GCC unroll 4
  for (int bit = STREAMS / 2; bit > 0; bit /= 2)
#pragma GCC unroll 16
    for (int i = 0; i < STREAMS; ++i)
      if (!(i & bit)) {
        const Register low = a[i], high = a[i | bit];
        a[i] = low - t * high;
        a[i | bit] = high + t * low;
      }
  if constexpr (INSIDE) rotate_lanes(a, t);
#pragma GCC unroll 16
  for (int i = 0; i < STREAMS; ++i) store(v + i * stride, a[i]);
}

// Rotate the highest qubits, up to four in one pass over memory; return the size of parts that have the others.
Index rotate_highest(float* v, Index size, float t) {
  const Index part = size < 16 * WIDTH ? WIDTH : 16 * WIDTH;
  const Index most = size > BLOCK ? 8 : 16;  // the first-level cache has room for 8 streams that far apart
  const Index streams = minimum(size / part, most), stride = size / streams;
  for (Index first = 0; first < stride; first += WIDTH) {
    if (streams == 16) rotate_streams<16>(v + first, stride, t);
    else if (streams == 8) rotate_streams<8>(v + first, stride, t);
    else if (streams == 4) rotate_streams<4>(v + first, stride, t);
    else rotate_streams<2>(v + first, stride, t);
  }
  return stride;
}

// Rotate all qubits, the highest first.
void rotate(float* v, Index size, float t) {
  if (size == 16 * WIDTH) return rotate_streams<16, true>(v, WIDTH, t);
  if (size == WIDTH) return rotate_streams<1, true>(v, WIDTH, t);
  if (size > WIDTH) {
    const Index part = rotate_highest(v, size, t);
    for (Index first = 0; first < size; first += part) rotate(v + first, part, t);
    return;
  }
  for (Index stride = size / 2; stride > 0; stride /= 2)
    for (Index x = 0; x < size; ++x)
      if (!(x & stride)) {
        const float low = v[x], high = v[x + stride];
        v[x] = low - t * high;
        v[x + stride] = high + t * low;
      }
}

// Multiply re + i im by norm exp(-2πi turns energy). Not inlined: its constants take all registers.
__attribute__((noinline)) void apply_phase(float* __restrict re, float* __restrict im, const float* __restrict energies,
                                           Index size, float turns, float norm) {
  constexpr float MAGIC = 12582912;  // 3 · 2^22: adding it leaves an integer in the lowest bits
  float coefficients[2][5];
  for (int k = 0; k < 5; ++k) coefficients[0][k] = norm * COS[k], coefficients[1][k] = norm * SIN[k];
  for (Index x = 0; x < size; ++x) {
    const float halves = 2 * turns * energies[x], whole = __builtin_rintf(halves);
    const float r = halves - whole, r2 = r * r, r4 = r2 * r2;
    const auto odd = __builtin_bit_cast(std::uint32_t, whole + MAGIC) << 31;  // an odd half turn changes both signs
    float parts[2];
    for (int part = 0; part < 2; ++part) {
      const float* c = coefficients[part];
      const float sum = (c[0] + c[1] * r2) + r4 * ((c[2] + c[3] * r2) + c[4] * r4);
      parts[part] = __builtin_bit_cast(float, __builtin_bit_cast(std::uint32_t, sum) ^ odd);
    }
    const float cos = parts[0], sin = parts[1] * r;
    const float a = re[x], b = im[x];
    re[x] = a * cos + b * sin;
    im[x] = b * cos - a * sin;
  }
}

// Rotate all qubits and apply the phase, block by block once the qubits above a block are rotated.
void step(float* re, float* im, const float* energies, Index size, float t, float turns, float norm) {
  if (size > BLOCK) {
    const Index part = rotate_highest(re, size, t);
    rotate_highest(im, size, t);
    for (Index k = 0; k < size; k += part) step(re + k, im + k, energies + k, part, t, turns, norm);
    return;
  }
  rotate(re, size, t);
  rotate(im, size, t);
  apply_phase(re, im, energies, size, turns, norm);
}

}  // namespace

void evolve(Control& control, Out<float, 2> re, Out<float, 2> im, In<float, 2> energies, In<float, 1> tangents,
            In<float, 1> norms, In<float, 1> turns) {
  const Index batch = re.shape[0], states = re.shape[1], steps = turns.shape[0];
  require(states > 0 && (states & (states - 1)) == 0, "expected a power of two of amplitudes");
  control.expect(batch * steps);
  control.share(batch, 1, [&](Index first, Index last) {
    for (Index i = first; i < last; ++i)
      for (Index k = 0; k < steps; ++k) {
        if (control.stopped()) return;
        step(re.at(i), im.at(i), energies.at(i), states, tangents.data[k], turns.data[k], norms.data[k]);
        control.advance(1);
      }
  });
}

}  // namespace qubolearn::VARIANT
