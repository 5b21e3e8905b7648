"""Preoptimisation: the optimised bitcode of a module is kept on disk, and episodes only generate code from it.

A compile of that bitcode with `-disable-llvm-passes` gives the same object byte for byte.
"""

from __future__ import annotations

from dataclasses import replace

from mlgo_gym.compiler.coroutine import CompilerCoroutine
from mlgo_gym.corpus.compilation import Compilation
from mlgo_gym.storage.cache import UNWRITABLE, cache_directory, write_atomically

_EMIT_OBJECT = "-emit-obj"


def preoptimize(compilation: Compilation) -> CompilerCoroutine[Compilation]:
    """Return, as a coroutine, the compile that starts from the module's optimised bitcode, which is made if need be.

    A module with a ThinLTO index is always compiled in full: the optimiser also performs its imports.
    """
    if compilation.module.thinlto_index is not None or _EMIT_OBJECT not in compilation.flags:
        return compilation
    key = compilation.key("optimized", "uselists")
    path = cache_directory() / "optimized" / key[:2] / f"{key}.bc"
    if not path.is_file():
        flags = ["-emit-llvm-bc" if flag == _EMIT_OBJECT else flag for flag in compilation.flags]
        # Loop strength reduction depends on the order of uses, which bitcode drops by default.
        emitting = replace(compilation, flags=(*flags, "-emit-llvm-uselists"))
        with emitting.session() as session:
            yield session
            optimized = session.finish(0.0).object_bytes
        try:
            write_atomically(path, optimized)
        except OSError as error:
            if error.errno not in UNWRITABLE:
                raise
            return compilation  # in full each time, since nothing can be kept
    return replace(
        compilation,
        module=replace(compilation.module, bitcode=path),
        flags=(*compilation.flags, "-disable-llvm-passes"),
        inputs=("-x", "ir", str(path)),
    )
