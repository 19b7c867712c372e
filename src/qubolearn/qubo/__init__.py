"""What a QUBO is: dense and sparse values, clamps, groups, energies, Ising, dimod and files in and out."""

from qubolearn.qubo.algebra import (
    Ising,
    all_states,
    check_qubo,
    energies,
    flip_costs,
    from_ising,
    reflected,
    symmetric,
    to_ising,
    upper_triangular,
)
from qubolearn.qubo.checks import not_capturing
from qubolearn.qubo.clamps import FREE, Clamp, Reduced, allowed_bits, as_clamp, decoupled, forced, reduced
from qubolearn.qubo.groups import Groups, as_groups, penalised_bqm, penalty_weights, to_cqm, to_dqm, with_penalties
from qubolearn.qubo.interchange import (
    check_offset,
    from_bqm,
    from_bqms,
    from_coo,
    sparse_from_coo,
    to_bqm,
    to_bqms,
    to_coo,
)
from qubolearn.qubo.sparse import Qubo, SparseQubo, as_dense

__all__ = [
    "FREE",
    "Clamp",
    "Groups",
    "Ising",
    "Qubo",
    "Reduced",
    "SparseQubo",
    "all_states",
    "allowed_bits",
    "as_clamp",
    "as_dense",
    "as_groups",
    "check_offset",
    "check_qubo",
    "decoupled",
    "energies",
    "flip_costs",
    "forced",
    "from_bqm",
    "from_bqms",
    "from_coo",
    "from_ising",
    "not_capturing",
    "penalised_bqm",
    "penalty_weights",
    "reduced",
    "reflected",
    "sparse_from_coo",
    "symmetric",
    "to_bqm",
    "to_bqms",
    "to_coo",
    "to_cqm",
    "to_dqm",
    "to_ising",
    "upper_triangular",
    "with_penalties",
]
