"""Kernels that call kernels, compiled in half of the time that numba takes for them.

numba optimises each function that a kernel calls, makes machine code of it that nobody runs, writes two functions to
call it from Python and from C, and then optimises the same code again in every function that calls it. Here a kernel
that is called by another one is a *part*: it is typed and translated to LLVM's language by itself, and optimised and
made machine code once, in the kernel that Python calls. Parts cannot have numba's parallel loops; threads share
batches instead.
"""

# mypy: disable-error-code="no-untyped-call"

from __future__ import annotations

import gc
from typing import Any

from numba import _dynfunc  # type: ignore[attr-defined]
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import CompilerBase, DefaultPassBuilder
from numba.core.compiler_machinery import register_pass
from numba.core.registry import CPUDispatcher
from numba.core.typed_passes import NativeLowering

__all__ = ["Kernel"]


class Kernel(CPUDispatcher):
    """A function that is compiled when Python calls it; another kernel that calls it gets it as a part."""

    def __init__(self, function: Any, cache: Any, **options: Any) -> None:
        options = {**options, "nopython": True, "no_cfunc_wrapper": True}
        super().__init__(function, targetoptions=options)
        self._cache = cache
        options = {**options, "no_cpython_wrapper": True}
        self._part = CPUDispatcher(function, targetoptions=options, pipeline_class=_PartCompiler)

    @property
    def _numba_type_(self) -> Any:
        """What a kernel sees that calls this one."""
        return self._part._numba_type_

    def compile(self, sig: Any) -> Any:
        """Compile for these types. What numba makes is kept, so looking for garbage in it would only take time."""
        collecting = gc.isenabled()
        gc.disable()
        try:
            return super().compile(sig)
        finally:
            if collecting:
                gc.enable()


class _PartCompiler(CompilerBase):
    """numba's own passes, the last of which leaves out machine code."""

    def define_pipelines(self) -> list[Any]:
        passes = DefaultPassBuilder.define_nopython_pipeline(self.state)
        passes.passes = [(_PartLowering if each is NativeLowering else each, why) for each, why in passes.passes]
        passes.finalize()
        return [passes]


@register_pass(mutates_CFG=True, analysis_only=False)
class _PartLowering(NativeLowering):
    _name = "qubolearn_part_lowering"

    def run_pass(self, state: Any) -> bool:
        state.library = _PartLibrary(state.targetctx.codegen(), state.func_id.func_qualname)
        state.flags.no_compile = True
        super().run_pass(state)
        described, library = state.cr.fndesc, state.library
        # callers know a function by an object like this; its address is 0, since nobody calls it from Python
        name = described.qualname
        key = _dynfunc.make_function(described.lookup_module(), name, name, 0, state.cr.env, (library,))
        state.targetctx.insert_user_function(key, described, [library])
        state.cr = state.cr._replace(cfunc=key)
        return True


class _PartLibrary(JITCodeLibrary):
    """Code that waits to be optimised as a part of a kernel."""

    def finalize(self) -> None:
        for library in dict.fromkeys(self._linking_libraries):
            self._final_module.link_in(library._get_module_for_linking(), preserve=True)
        self._finalize_dynamic_globals()
        self._finalized = True
