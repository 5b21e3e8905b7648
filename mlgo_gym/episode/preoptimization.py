"""Optimise once: the optimised bitcode of a module, kept on disk, from which episodes only generate code.

A compile that starts from it with `-disable-llvm-passes` gives the same object byte for byte; `verify()` proves it.
"""

from __future__ import annotations

from dataclasses import replace

from mlgo_gym.corpus.compilation import Compilation
from mlgo_gym.errors import ToolchainError
from mlgo_gym.session.session import Session
from mlgo_gym.session.work import Work, complete
from mlgo_gym.storage.cache import UNWRITABLE, cache_directory, write_atomically

_EMIT_OBJECT = "-emit-obj"


def preoptimized(compilation: Compilation, timeout: float) -> Compilation:
    """Return the compile that starts from the module's optimised bitcode, which is made if it is not there yet.

    A module with a ThinLTO index is compiled in full every time: its imports are part of the optimiser's work.

    Raises:
        CompilerError: the compiler fails on the module.
    """
    return complete(preoptimize(compilation), timeout)


def preoptimize(compilation: Compilation) -> Work[Compilation]:
    """Do what `preoptimized()` does, as work for an event loop too."""
    if compilation.module.thinlto_index is not None or _EMIT_OBJECT not in compilation.flags:
        return compilation
    key = compilation.key("optimized", "uselists")
    path = cache_directory() / "optimized" / key[:2] / f"{key}.bc"
    if not path.is_file():
        flags = ["-emit-llvm-bc" if flag == _EMIT_OBJECT else flag for flag in compilation.flags]
        # Loop strength reduction looks at uses in their order, which bitcode only keeps when told to.
        command = [*compilation.toolchain.command, *flags, "-emit-llvm-uselists", *compilation.inputs]
        with Session(command, confined=compilation.confined, limits=compilation.limits) as session:
            yield session
            optimized = session.finish(0.0).object_bytes
        try:
            write_atomically(path, optimized)
        except OSError as error:
            if error.errno not in UNWRITABLE:
                raise
            return compilation  # in full every time, where nothing can be kept
    return replace(
        compilation,
        module=replace(compilation.module, bitcode=path),
        flags=(*compilation.flags, "-disable-llvm-passes"),
        inputs=("-x", "ir", str(path)),
    )


def verify(full: Compilation, optimized: Compilation, timeout: float) -> None:
    """Prove that a compile in full and one from optimised bitcode give the same object.

    Raises:
        ToolchainError: the objects differ.
        CompilerError: a compile fails.
    """
    complete(prove(full, optimized), timeout)


def prove(full: Compilation, optimized: Compilation) -> Work[None]:
    """Do what `verify()` does, as work for an event loop too."""
    objects = []
    for compilation in (full, optimized):
        with Session(compilation.command, confined=compilation.confined, limits=compilation.limits) as session:
            yield session
            objects.append(session.finish(0.0).object_bytes)
    if objects[0] != objects[1]:
        raise ToolchainError(
            f"module {full.module.name!r} was to give the same object from its optimised bitcode as in full, and did "
            f"not ({len(objects[0])} and {len(objects[1])} bytes): use preoptimize=False for it"
        )
