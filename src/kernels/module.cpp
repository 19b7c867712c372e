// The extension module qubolearn._kernels: chooses the build for this processor and binds all kernels.
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <atomic>
#include <cstdlib>
#include <vector>

#include "call.hpp"

namespace qubolearn {
namespace {

// Builds that this processor runs, the fastest last.
std::vector<const Kernels*> supported() {
#ifdef QUBOLEARN_X86
  __builtin_cpu_init();
  std::vector<const Kernels*> found;
  if (!__builtin_cpu_supports("sse4.2") || !__builtin_cpu_supports("popcnt")) return found;
  found.push_back(&v2::kernels);
  if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma") || !__builtin_cpu_supports("bmi2")) return found;
  found.push_back(&v3::kernels);
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512cd") &&
      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl"))
    found.push_back(&v4::kernels);
  return found;
#else
  return {&portable::kernels};
#endif
}

std::atomic<const Kernels*> chosen{nullptr};

void use(const std::string& name) {
  std::string names;
  for (const Kernels* each : supported()) {
    if (each->name == name) return chosen.store(each);
    names += std::string(names.empty() ? "" : ", ") + each->name;
  }
  throw nb::value_error(("this processor runs the builds " + names + ", got " + name).c_str());
}

std::vector<std::string> builds() {
  std::vector<std::string> names;
  for (const Kernels* each : supported()) names.emplace_back(each->name);
  return names;
}

}  // namespace

const Kernels& kernels() { return *chosen.load(); }

}  // namespace qubolearn

NB_MODULE(_kernels, m) {
  using namespace qubolearn;
  if (supported().empty()) throw nb::import_error("qubolearn requires a processor with SSE4.2 (x86-64-v2)");
  const char* forced = std::getenv("QUBOLEARN_KERNELS");
  use(forced && *forced ? forced : supported().back()->name);
  m.def("builds", &builds, "Return the names of the builds that this processor runs, the fastest last.");
  m.def("build", [] { return kernels().name; }, "Return the name of the build in use.");
  m.def("use", &use, nb::arg("name"), "Use another build from now on; results do not change.");
  bind_annealing(m);
  bind_exhaustive(m);
  bind_ranking(m);
  bind_state_vector(m);
  bind_tempering(m);
}
