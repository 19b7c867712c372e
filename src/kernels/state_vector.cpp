// Time evolution of qubits: an instance's amplitudes stay in one thread's cache for the whole anneal.
#include "kernels.hpp"
#include "lanes.hpp"

namespace qubolearn::VARIANT {
namespace {

constexpr int WIDTH = NATIVE<float>;
using Register = Vector<float, WIDTH>;

constexpr std::int64_t BLOCK = 1 << 12;  // amplitudes that stay in the first-level cache while their qubits rotate

// cos and sin(r) / r of r turns, |r| <= 1/2, as polynomials in r², to 3e-7: calls of the library's functions would not
// be vectorized and differ between systems.
constexpr float COS[] = {1.0f, -19.7392044f, 64.9391174f, -85.4501419f, 60.1676292f, -25.9675999f, 6.52865839f};
constexpr float SIN[] = {6.28318501f, -41.3415909f, 81.5999451f, -76.6144714f, 41.3428841f, -12.4712439f};

// Let the lanes whose numbers differ in one bit change places.
template <int BIT>
inline Register partners(Register v) {
  Register swapped;
  for (int i = 0; i < WIDTH; ++i) swapped[i] = v[i ^ BIT];
  return swapped;
}

// Rotate the qubits whose partners are 1, 2, ... lanes apart in one register, of all registers in turns: the chain of
// operations on one takes longer than they do.
template <int STREAMS, int BIT = 1>
inline void rotate_lanes(Register (&a)[STREAMS], float t) {
  if constexpr (BIT < WIDTH) {
    Register slopes;
    for (int i = 0; i < WIDTH; ++i) slopes[i] = i & BIT ? t : -t;
#pragma GCC unroll 16
    for (int i = 0; i < STREAMS; ++i) a[i] = a[i] + slopes * partners<BIT>(a[i]);
    rotate_lanes<STREAMS, 2 * BIT>(a, t);
  }
}

// Rotate log2(STREAMS) qubits of WIDTH amplitudes in each of several streams, and before that those inside a register.
template <int STREAMS, bool INSIDE = false>
inline void rotate_streams(float* v, std::int64_t stride, float t) {
  Register a[STREAMS];
#pragma GCC unroll 16
  for (int i = 0; i < STREAMS; ++i) a[i] = load<Register>(v + i * stride);
  if constexpr (INSIDE) rotate_lanes(a, t);
#pragma GCC unroll 4
  for (int bit = 1; bit < STREAMS; bit *= 2)
#pragma GCC unroll 16
    for (int i = 0; i < STREAMS; ++i)
      if (!(i & bit)) {
        const Register low = a[i], high = a[i | bit];
        a[i] = low - t * high;
        a[i | bit] = high + t * low;
      }
#pragma GCC unroll 16
  for (int i = 0; i < STREAMS; ++i) store(v + i * stride, a[i]);
}

// Rotate every qubit whose partners in v are `stride` or more apart, up to four in one pass over memory.
void rotate_above(float* v, std::int64_t size, std::int64_t stride, float t) {
  while (stride < size) {
    const std::int64_t most = stride < BLOCK ? 16 : 8;  // the first-level cache has room for 8 streams that far apart
    const std::int64_t streams = size / stride < most ? size / stride : most;
    for (std::int64_t base = 0; base < size; base += streams * stride)
      for (std::int64_t first = base; first < base + stride; first += WIDTH) {
        if (streams == 16) rotate_streams<16>(v + first, stride, t);
        else if (streams == 8) rotate_streams<8>(v + first, stride, t);
        else if (streams == 4) rotate_streams<4>(v + first, stride, t);
        else rotate_streams<2>(v + first, stride, t);
      }
    stride *= streams;
  }
}

// Rotate all qubits of at most BLOCK amplitudes.
void rotate_block(float* v, std::int64_t size, float t) {
  if (size < WIDTH) {
    for (std::int64_t stride = 1; stride < size; stride *= 2)
      for (std::int64_t x = 0; x < size; ++x)
        if (!(x & stride)) {
          const float low = v[x], high = v[x + stride];
          v[x] = low - t * high;
          v[x + stride] = high + t * low;
        }
    return;
  }
  const std::int64_t group = size < 16 * WIDTH ? WIDTH : 16 * WIDTH;
  for (std::int64_t first = 0; first < size; first += group) {
    if (group == WIDTH) rotate_streams<1, true>(v + first, WIDTH, t);
    else rotate_streams<16, true>(v + first, WIDTH, t);
  }
  rotate_above(v, size, group, t);
}

// Multiply re + i im by norm exp(-2πi turns energy).
void apply_phase(float* __restrict re, float* __restrict im, const float* __restrict energies, std::int64_t size,
                 float turns, float norm) {
  for (std::int64_t x = 0; x < size; ++x) {
    float r = turns * energies[x];
    r -= __builtin_rintf(r);
    const float r2 = r * r;
    float cos = COS[6], sin = SIN[5];
    for (int k = 5; k >= 0; --k) cos = cos * r2 + COS[k];
    for (int k = 4; k >= 0; --k) sin = sin * r2 + SIN[k];
    cos *= norm;
    sin *= norm * r;
    const float a = re[x], b = im[x];
    re[x] = a * cos + b * sin;
    im[x] = b * cos - a * sin;
  }
}

}  // namespace

void evolve(const Evolution& e, Control& control) {
  control.expect(e.batch * e.steps);
  control.share(e.batch, 1, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t i = first; i < last; ++i) {
      float *re = e.re + i * e.states, *im = e.im + i * e.states;
      const float* energies = e.energies + i * e.states;
      for (std::int64_t k = 0; k < e.steps; ++k) {
        if (control.stopped()) return;
        rotate_above(re, e.states, BLOCK, e.tangents[k]);
        rotate_above(im, e.states, BLOCK, e.tangents[k]);
        for (std::int64_t start = 0; start < e.states; start += BLOCK) {
          const std::int64_t size = e.states - start < BLOCK ? e.states - start : BLOCK;
          rotate_block(re + start, size, e.tangents[k]);
          rotate_block(im + start, size, e.tangents[k]);
          apply_phase(re + start, im + start, energies + start, size, e.turns[k], e.norms[k]);
        }
        control.advance(1);
      }
    }
  });
}

}  // namespace qubolearn::VARIANT
