// What the Python functions of the module share: typed arrays, checks, and calls without the GIL.
#pragma once
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <string>

#include "kernels.hpp"

namespace qubolearn {

namespace nb = nanobind;
using namespace nb::literals;

// Arrays must have exactly this dtype, be C-contiguous, and be writable for Out.
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
  std::string expected, found;
  for (std::int64_t size : shape) expected += (expected.empty() ? "" : ", ") + std::to_string(size);
  for (std::size_t axis = 0; axis < array.ndim(); ++axis)
    found += (axis ? ", " : "") + std::to_string(array.shape(axis));
  if (expected != found)
    throw nb::value_error((std::string(name) + " expected shape [" + expected + "], got [" + found + "]").c_str());
}

inline void require_bits(const std::int8_t* bits, std::size_t size) {
  for (std::size_t k = 0; k < size; ++k) require(bits[k] == 0 || bits[k] == 1, "expected bits 0 and 1");
}

// Return an array of a tuple; ValueError if it has another dtype or is not contiguous. The tuple keeps it alive.
template <class Array>
Array item(const nb::tuple& arrays, std::size_t k, const char* name) {
  Array array;
  if (k >= arrays.size() || !nb::try_cast<Array>(arrays[k], array, false))
    throw nb::value_error((std::string("expected a contiguous array of the right dtype: ") + name).c_str());
  return array;
}

// Check (linear [batch, n], quadratic [batch, m], starts [n + 1], neighbors [2m], places [2m]).
SparseQubos sparse_qubos(const nb::tuple& arrays);

// Check that every bit is in one unit, and that units of several bits are groups.
Units units(const nb::tuple& arrays, std::int64_t n);

// Bind a function whose last arguments are `threads` and `progress`. Arrays are given by their names alone and are not
// converted: results would be written into a copy.
template <class Function, class... Arguments>
void define(nb::module_& m, const char* name, Function function, const char* description, Arguments... arguments) {
  const auto named = [](auto argument) {
    if constexpr (std::is_same_v<decltype(argument), const char*>) return nb::arg(argument).noconvert();
    else return argument;
  };
  m.def(name, function, named(arguments)..., "threads"_a = 1, "progress"_a.none() = nb::none(), description);
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
  body(control);
  control.rethrow();
}

void bind_constrained(nb::module_&);
void bind_elimination(nb::module_&);
void bind_ranking(nb::module_&);
void bind_scaling(nb::module_&);

}  // namespace qubolearn
