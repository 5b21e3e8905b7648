"""The objects of modules by plain clang, and the functions in them that other objects may define too."""

from __future__ import annotations

from collections.abc import Callable

from mlgo_gym.corpus.commands.compilation import Compilation
from mlgo_gym.llvm.function_sizes import function_sizes
from mlgo_gym.llvm.shared_functions import shared_functions
from mlgo_gym.storage.cache import JsonCache

_memory = JsonCache("functions")


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

    def functions(self, module: str) -> dict[str, bool]:
        """Return the functions of a module's object by all their names, and whether each is shared; kept on disk.

        Raises:
            CompilerError: The compile fails.
        """
        key = self.compilation(module).key("functions")
        found = _memory.get(key)
        if found is None:
            data = self.object(module)
            sizes, shared = function_sizes(data), shared_functions(data)
            found = {name: name in shared for name in (*sizes.functions, *sizes.aliases)}
            _memory.put(key, found)
        return found
