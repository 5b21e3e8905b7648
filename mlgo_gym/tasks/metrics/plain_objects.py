"""The objects of modules by plain clang, and their symbols."""

from __future__ import annotations

from collections.abc import Callable

from mlgo_gym.corpus.compilation import Compilation
from mlgo_gym.llvm.function_sizes import function_sizes
from mlgo_gym.llvm.object_file import LinkedSymbols, linked_symbols
from mlgo_gym.storage.cache import JsonCache

_memory = JsonCache("symbols")


class PlainObjects:
    """Compiles each module of a corpus by plain clang at most once, at its first use.

    Args:
        compilation: Returns the compile of a module.
        timeout: Longest silence of clang, in seconds.
    """

    def __init__(self, compilation: Callable[[str], Compilation], timeout: float) -> None:
        self.compilation = compilation
        self._timeout = timeout
        self._objects: dict[str, bytes] = {}

    def object(self, module: str) -> bytes:
        """Return the object of a module.

        Raises:
            CompilerError: The compile fails.
        """
        if module not in self._objects:
            with self.compilation(module).session() as session:
                self._objects[module] = session.finish(self._timeout).object_bytes
        return self._objects[module]

    def symbols(self, module: str) -> tuple[frozenset[str], LinkedSymbols]:
        """Return the functions of a module's object by all their names, and its symbols; kept on disk.

        Raises:
            CompilerError: The compile fails.
        """
        key = self.compilation(module).key("symbols")
        known = _memory.get(key)
        if known is None:
            data = self.object(module)
            sizes, symbols = function_sizes(data), linked_symbols(data)
            groups = {
                "functions": {*sizes.functions, *sizes.aliases},
                "shared": symbols.shared,
                "called": symbols.called,
            }
            known = {name: sorted(group) for name, group in groups.items()}
            _memory.put(key, known)
        functions, shared, called = (frozenset[str](known[name]) for name in ("functions", "shared", "called"))
        return functions, LinkedSymbols(shared, called)
