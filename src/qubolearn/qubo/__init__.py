"""What a QUBO is: energies, normal forms, Ising, dimod and files in and out."""

from qubolearn.qubo.algebra import (
    MAX_FILE_BITS,
    Ising,
    all_states,
    can_be_read,
    check_offset,
    check_qubo,
    energies,
    from_bqm,
    from_coo,
    from_ising,
    symmetric,
    to_bqm,
    to_coo,
    to_ising,
    upper_triangular,
)

__all__ = [
    "MAX_FILE_BITS",
    "Ising",
    "all_states",
    "can_be_read",
    "check_offset",
    "check_qubo",
    "energies",
    "from_bqm",
    "from_coo",
    "from_ising",
    "symmetric",
    "to_bqm",
    "to_coo",
    "to_ising",
    "upper_triangular",
]
