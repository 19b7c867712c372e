"""What a QUBO is: dense and sparse values, energies, normal forms, Ising, dimod and files in and out."""

from qubolearn.qubo.algebra import (
    Ising,
    all_states,
    check_qubo,
    energies,
    flip_costs,
    from_ising,
    symmetric,
    to_ising,
    upper_triangular,
)
from qubolearn.qubo.checks import can_be_read
from qubolearn.qubo.interchange import (
    MAX_FILE_BITS,
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
    "MAX_FILE_BITS",
    "Ising",
    "Qubo",
    "SparseQubo",
    "all_states",
    "as_dense",
    "can_be_read",
    "check_offset",
    "check_qubo",
    "energies",
    "flip_costs",
    "from_bqm",
    "from_bqms",
    "from_coo",
    "from_ising",
    "sparse_from_coo",
    "symmetric",
    "to_bqm",
    "to_bqms",
    "to_coo",
    "to_ising",
    "upper_triangular",
]
