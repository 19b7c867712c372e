// The kernels of one variant.
#include "kernels.hpp"

namespace qubolearn::VARIANT {

#define NAME_(x) #x
#define NAME(x) NAME_(x)
const Kernels kernels = {
    .name = NAME(VARIANT),
    .search_single = search<float>,
    .search_double = search<double>,
    .partition_single = partition<float>,
    .partition_double = partition<double>,
    .evolve = evolve,
    .anneal_dense = anneal_dense,
    .anneal_sparse = anneal_sparse,
    .temper = temper,
    .temper_sample = temper_sample,
    .move_chains = move_chains,
    .rule_out = rule_out,
    .refine_dense = refine_dense,
    .refine_sparse = refine_sparse,
};

}  // namespace qubolearn::VARIANT
