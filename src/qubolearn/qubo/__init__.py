"""QUBOs: dense and sparse values, clamps, groups, energies, Ising models, dimod, files. Names in ``__init__.pyi``."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
