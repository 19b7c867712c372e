// What the Python functions of the module share: typed arrays, checks, and calls without the GIL.
#pragma once
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <string>

#include "kernels.hpp"

namespace qubolearn {

namespace nb = nanobind;

// Arrays must have exactly this dtype, be C-contiguous, and be writable for Out: bind them with .noconvert(), else
// results would be written into a converted copy.
template <class T, int DIMENSIONS>
using In = nb::ndarray<const T, nb::ndim<DIMENSIONS>, nb::c_contig, nb::device::cpu>;
template <class T, int DIMENSIONS>
using Out = nb::ndarray<T, nb::ndim<DIMENSIONS>, nb::c_contig, nb::device::cpu>;

inline void require(bool condition, const char* message) {
  if (!condition) throw nb::value_error(message);
}

// Raise ValueError unless the array has this shape.
template <class Array>
void require_shape(const Array& array, std::initializer_list<std::int64_t> shape, const char* name) {
  std::size_t axis = 0;
  std::string expected, found;
  bool same = array.ndim() == shape.size();
  for (std::int64_t size : shape) {
    if (axis < array.ndim()) {
      same = same && static_cast<std::int64_t>(array.shape(axis)) == size;
      found += (axis ? ", " : "") + std::to_string(array.shape(axis));
    }
    expected += (axis++ ? ", " : "") + std::to_string(size);
  }
  if (!same) throw nb::value_error((std::string(name) + " expected shape [" + expected + "], got [" + found + "]").c_str());
}

// Run a kernel without the GIL. Signals are handled and `progress(fraction)`, if any, is called while it runs.
template <class Body>
void call(int threads, const nb::object& progress, Body body) {
  const auto poll = [](void* context, double fraction) {
    nb::gil_scoped_acquire gil;
    if (PyErr_CheckSignals()) throw nb::python_error();
    const auto& report = *static_cast<const nb::object*>(context);
    if (!report.is_none()) report(fraction);
  };
  Control control(threads, poll, const_cast<nb::object*>(&progress));
  nb::gil_scoped_release released;
  DefaultFloats floats;
  body(control);
  control.rethrow();
}

void bind_annealing(nb::module_&);
void bind_exhaustive(nb::module_&);
void bind_ranking(nb::module_&);
void bind_state_vector(nb::module_&);
void bind_tempering(nb::module_&);

}  // namespace qubolearn
