// Python's side of the time evolution.
#include "call.hpp"

namespace qubolearn {

void bind_state_vector(nb::module_& m) {
  m.def(
      "evolve",
      [](Out<float, 2> re, Out<float, 2> im, In<float, 2> energies, In<float, 1> tangents, In<float, 1> norms,
         In<float, 1> turns, int threads, nb::object progress) {
        const std::int64_t batch = re.shape(0), states = re.shape(1), steps = turns.shape(0);
        require(states > 0 && (states & (states - 1)) == 0, "expected a power of two of amplitudes");
        require_shape(im, {batch, states}, "im");
        require_shape(energies, {batch, states}, "energies");
        require_shape(tangents, {steps}, "tangents");
        require_shape(norms, {steps}, "norms");
        const Evolution evolution{batch,           states,          steps,        re.data(),   im.data(),
                                  energies.data(), tangents.data(), norms.data(), turns.data()};
        call(threads, progress, [&](Control& control) { kernels().evolve(evolution, control); });
      },
      nb::arg("re").noconvert(), nb::arg("im").noconvert(), nb::arg("energies").noconvert(),
      nb::arg("tangents").noconvert(), nb::arg("norms").noconvert(), nb::arg("turns").noconvert(),
      nb::arg("threads") = 1, nb::arg("progress").none() = nb::none(),
      "Apply pulses to the states re + i im [batch, 2**n], in place: rotate all qubits by atan(tangents[k]), multiply\n"
      "by norms[k] exp(-2πi turns[k] energies).");
}

}  // namespace qubolearn
