"""p -> A. The names of the networks are here, where reading them imports no torch."""

from typing import Literal

__all__ = ["Method", "NetworkName"]

NetworkName = Literal["mlp", "matching"]
Method = Literal["quant", "diag", "pure"]
