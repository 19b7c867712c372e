// What the Python functions of the module share: typed arrays, checks, and calls without the GIL.
#pragma once
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <cctype>
#include <cstring>
#include <deque>
#include <string>
#include <tuple>

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
SparseQubos qubos_of(const nb::tuple& arrays, std::int64_t batch, std::int64_t n);
inline DenseQubos qubos_of(const In<double, 3>& S, std::int64_t batch, std::int64_t n) { return {batch, n, S.data()}; }

// Check that every bit is in one unit, and that units of several bits are groups.
Units units(const nb::tuple& arrays, std::int64_t n);

// Checks arguments, one after the other, against a text such as "states:brn sweeps": their names, and for arrays letters
// that stand for their sizes, equal ones for equal sizes. Digits stand for themselves.
class Signature {
  const char* text_;
  std::int64_t sizes_[128] = {};  // of the letters: 0, or one more than the size

 public:
  explicit Signature(const char* text) : text_(text) {}

  // Return the text up to the next ':' or blank, and skip that.
  std::string next() {
    const std::size_t length = std::strcspn(text_, ": ");
    const std::string word(text_, length);
    text_ += length + (text_[length] != 0);
    return word;
  }

  template <class Argument>
  void check(const Argument& argument) {
    const std::string name = next();
    if constexpr (requires { argument.ndim(); }) {
      const std::string shape = next();
      for (std::size_t axis = 0; axis < argument.ndim(); ++axis) {
        std::int64_t &size = sizes_[int(shape[axis])], found = argument.shape(axis);
        if (size == 0) size = 1 + (std::isdigit(shape[axis]) ? shape[axis] - '0' : found);
        if (size != 1 + found)
          throw nb::value_error((name + " expected " + std::to_string(size - 1) + " along axis " +
                                 std::to_string(axis) + ", got " + std::to_string(found)).c_str());
      }
    }
  }

  // Return the next argument's name. Arrays are not converted: results would be written into a copy.
  template <class Argument>
  auto name(std::deque<std::string>& words) {
    const nb::arg named(words.emplace_back(next()).c_str());
    if constexpr (requires(Argument argument) { argument.ndim(); }) return next(), named.noconvert();
    else return named;
  }
};

// Run a kernel without the GIL. Signals are handled and `progress(fraction)`, if any, is called while it runs.
template <class Body>
auto call(int threads, const nb::object& progress, Body& body) {
  const auto poll = [](void* context, double fraction) {
    nb::gil_scoped_acquire gil;
    if (PyErr_CheckSignals()) throw nb::python_error();
    const auto& report = *static_cast<const nb::object*>(context);
    if (!report.is_none()) report(fraction);
  };
  Control control(threads, poll, const_cast<nb::object*>(&progress));
  nb::gil_scoped_release released;
  if constexpr (std::is_void_v<decltype(body(control))>) {
    body(control);
    control.rethrow();
  } else {
    const auto result = body(control);
    control.rethrow();
    return result;
  }
}

// Bind a kernel: `prepare` takes its arguments, after checks by the signature, and returns what runs with a Control. The
// Python function has two more arguments, `threads` and `progress`.
template <class Body, class... Arguments>
void define(nb::module_& m, const char* name, Body (*prepare)(Arguments...), const char* signature,
            const char* description) {
  const auto run = [=](Arguments... arguments, int threads, nb::object progress) {
    Signature expected(signature);
    (expected.check(arguments), ...);
    auto body = prepare(arguments...);
    return call(threads, progress, body);
  };
  Signature names(signature);
  std::deque<std::string> words;
  std::apply([&](auto... named) {
    m.def(name, run, named..., "threads"_a = 1, "progress"_a.none() = nb::none(), description);
  }, std::tuple{names.name<Arguments>(words)...});  // braces: from left to right
}

void bind_constrained(nb::module_&);
void bind_elimination(nb::module_&);
void bind_ranking(nb::module_&);
void bind_scaling(nb::module_&);

}  // namespace qubolearn
