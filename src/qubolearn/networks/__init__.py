"""Networks from p to A: MLP, permutation-aware bodies, heads that build a QUBO, and a layer that solves it."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
