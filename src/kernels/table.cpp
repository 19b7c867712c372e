// The kernels of one variant.
#include "kernels.hpp"

namespace qubolearn::VARIANT {

#define TEXT(x) #x
#define NAME(x) TEXT(x)
#define ENTRY(result, name, ...) name,
const Kernels kernels = {NAME(VARIANT), QUBOLEARN_KERNELS(ENTRY)};

}  // namespace qubolearn::VARIANT
