// What the Python functions of the module share: typed arrays, checks, and calls without the GIL.
#pragma once
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <cctype>
#include <cstring>
#include <deque>
#include <string>
#include <tuple>
#include <vector>

#include "kernels.hpp"

namespace qubolearn {

namespace nb = nanobind;
using namespace nb::literals;

// What Python passes for an argument: for a struct a tuple, for a view an array of this dtype, writable unless T is const.
template <class T>
struct Passed {
  using Type = std::conditional_t<std::is_class_v<T>, nb::tuple, T>;
};
template <class T, int DIMENSIONS>
struct Passed<View<T, DIMENSIONS>> {
  using Type = nb::ndarray<T, nb::ndim<DIMENSIONS>, nb::c_contig, nb::device::cpu>;
};
template <class T>
using Given = typename Passed<T>::Type;

// read(given, argument) converts to an argument; sizes(argument) returns those that a Signature checks.
template <class T>
void read(T given, T& argument) { argument = given; }
template <class T, int DIMENSIONS>
void read(const Given<View<T, DIMENSIONS>>& array, View<T, DIMENSIONS>& view) {
  view.data = array.data();
  for (int axis = 0; axis < DIMENSIONS; ++axis) view.shape[axis] = static_cast<Index>(array.shape(axis));
}
template <class T, int DIMENSIONS>
std::vector<Index> sizes(const View<T, DIMENSIONS>& view) {
  return {view.shape, view.shape + DIMENSIONS};
}
void read(const nb::tuple&, SparseQubos&);
void read(const nb::tuple&, Units&);
void read(const nb::tuple&, Tempering&);
inline std::vector<Index> sizes(const SparseQubos& A) { return {A.batch, A.n}; }
inline std::vector<Index> sizes(const Units& units) { return {units.n}; }
inline std::vector<Index> sizes(const Tempering& problem) { return sizes(problem.A); }

// Checks arguments, one after the other, against a text such as "states:brn sweeps": their names, and for arrays and
// tuples letters that stand for their sizes, equal ones for equal sizes. Digits stand for themselves.
class Signature {
  const char* text_;
  Index sizes_[128] = {};  // of the letters: 0, or one more than the size
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
    if constexpr (std::is_class_v<Argument>) {
      const std::string letters = next();
      const auto found = sizes(argument);
      for (std::size_t axis = 0; axis < found.size(); ++axis) {
        Index& size = sizes_[int(letters[axis])];
        if (size == 0) size = 1 + (std::isdigit(letters[axis]) ? letters[axis] - '0' : found[axis]);
        if (size != 1 + found[axis])
          refuse((name + " expected " + std::to_string(size - 1) + " along axis " + std::to_string(axis) + ", got " +
                  std::to_string(found[axis])).c_str());
      }
    }
  }

  // Return the next argument's name. Arrays are not converted: results would be written into a copy.
  template <class Argument>
  auto name(std::deque<std::string>& words) {
    const nb::arg named(words.emplace_back(next()).c_str());
    if constexpr (std::is_class_v<Argument>) return next(), named.noconvert();
    else return named;
  }
};

// Return the arguments that are in a tuple, which keeps their arrays alive.
template <class... Arguments>
std::tuple<Arguments...> items(const nb::tuple& given, const char* signature) {
  require(given.size() == sizeof...(Arguments), "expected a tuple of another length");
  std::tuple<Arguments...> arguments;
  Signature expected(signature);
  std::size_t k = 0;
  const auto take = [&]<class Argument>(Argument& argument) {
    Given<Argument> item;
    if (!nb::try_cast(given[k++], item, false)) refuse("expected tuples of contiguous arrays of the right dtypes");
    read(item, argument);
    expected.check(argument);
  };
  std::apply([&](auto&... argument) { (take(argument), ...); }, arguments);
  return arguments;
}

// Run a kernel without the GIL. Signals are handled and `progress(fraction)`, if any, is called while it runs.
template <class Body>
auto call(int threads, const nb::object& progress, Body body) {
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

// Bind a kernel: its arguments are checked by the signature. The Python function has two more, `threads` and `progress`.
template <class... Arguments, class Kernel>
void bind(nb::module_& m, const char* name, Kernel kernel, const char* signature, const char* description) {
  const auto run = [=](Given<Arguments>... given, int threads, nb::object progress) {
    std::tuple<Arguments...> all;
    return std::apply([&](auto&... argument) {
      Signature expected(signature);
      (read(given, argument), ...);
      (expected.check(argument), ...);
      return call(threads, progress, [&](Control& control) { return kernel(control, argument...); });
    }, all);
  };
  Signature names(signature);
  std::deque<std::string> words;
  std::apply([&](auto... named) {
    m.def(name, run, named..., "threads"_a = 1, "progress"_a.none() = nb::none(), description);
  }, std::tuple{names.name<Arguments>(words)...});  // braces: from left to right
}
template <class Result, class... Arguments>
void define(nb::module_& m, const char* name, Result (*kernel)(Control&, Arguments...), const char* signature,
            const char* description) {
  bind<Arguments...>(m, name, kernel, signature, description);
}
// A kernel that is compiled for several processors.
template <class Result, class... Arguments>
void define(nb::module_& m, const char* name, Result (*Kernels::*kernel)(Control&, Arguments...), const char* signature,
            const char* description) {
  const auto chosen = [=](Control& control, const Arguments&... all) { return (kernels().*kernel)(control, all...); };
  bind<Arguments...>(m, name, chosen, signature, description);
}

void bind_constrained(nb::module_&);
void bind_elimination(nb::module_&);
void bind_ranking(nb::module_&);
void bind_scaling(nb::module_&);

}  // namespace qubolearn
