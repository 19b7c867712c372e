"""A -> the best states. One file per solver, one contract."""
