"""The metric `estimated-linked`: the bytes of one object that survive a link, without linking it.

A linker keeps one copy of each shared function (COMDAT), so each of n copies counts 1/n of its bytes. The copies are
those of plain clang's objects; a function that plain clang drops everywhere counts by the modules that define it before
optimisation. All other functions count fully. A shared library has a stub for each function that it calls by name, and
each of n callers counts 1/n of it. The sum over the modules of a build estimates its linked files, if one policy
compiles all of them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from mlgo_gym.compiler.limits import Limits
from mlgo_gym.corpus.corpus import Corpus
from mlgo_gym.corpus.recording.links import Link
from mlgo_gym.llvm.bitcode import shared_definitions
from mlgo_gym.llvm.function_sizes import FunctionSizes, function_sizes
from mlgo_gym.llvm.object_file import STUB_BYTES, linked_symbols, read_elf, read_symbol_table
from mlgo_gym.llvm.toolchain import Toolchain
from mlgo_gym.storage.cache import JsonCache
from mlgo_gym.tasks.metrics.linked_size import BuildLinks
from mlgo_gym.tasks.metrics.plain_objects import PlainObjects

_memory = JsonCache("unlinked")


@dataclass(frozen=True, slots=True)
class LinkedTogether:
    """Modules that are linked together.

    Attributes:
        copies: Number of plain objects with each shared function.
        definitions: Number of modules that define each shared function before optimisation.
        dropped: Functions of plain objects that are not in the linked file.
        callers: Number of plain objects that call each function by name; None if calls need no stub.
    """

    copies: Counter[str]
    definitions: Counter[str]
    dropped: frozenset[str]
    callers: Counter[str] | None

    def share(self, function: str, *, is_shared: bool) -> float:
        """Return the share of the copies of a function that survives."""
        if function in self.dropped:
            return 0.0
        if not is_shared and not self.copies[function]:
            return 1.0
        return 1.0 / (self.copies[function] or self.definitions[function] or 1)

    def stub_share(self, function: str) -> float:
        """Return the share of the stub of a called function that one caller counts."""
        if self.callers is None:
            return 0.0
        return 1.0 / (self.callers[function] or self.definitions[function] or 1)


class EstimatedLinkedSize:
    """The estimated bytes of one module's object in the linked files that contain it.

    With the link steps of a recorded build, the modules of a link share functions, and functions that the linker drops
    from plain clang's file count nothing. Without, the modules of a project share functions, as one linked file.

    Args:
        corpus: The corpus.
        toolchain: The compiler, whose driver links.
        plain: Objects by plain clang; those of the project are compiled at the first use, their functions kept on disk.
        trust: Whether to run link arguments unchecked.
        limits: Limits of each program of a link.
    """

    unit = 1000
    counts_calls = False
    modules = None

    def __init__(
        self, corpus: Corpus, toolchain: Toolchain, plain: PlainObjects, *, trust: bool, limits: Limits
    ) -> None:
        self._corpus = corpus
        self._plain = plain
        self._build = BuildLinks(corpus, toolchain, plain, trust=trust, limits=limits)
        self._together: dict[object, LinkedTogether] = {}

    @cached_property
    def _projects(self) -> dict[tuple[str, str], list[str]]:
        """The modules of each project of each corpus."""
        whole = self._corpus.whole()
        projects: dict[tuple[str, str], list[str]] = {}
        for name in () if whole.infinite else whole.names:
            projects.setdefault(self._project(name), []).append(name)
        return projects

    def _project(self, module: str) -> tuple[str, str]:
        project, local = self._corpus.origin(module)
        return module.removesuffix(local), project

    def linked_together(self, module: str) -> list[LinkedTogether]:
        """Return the groups of modules that a module is linked with: one for each link, else its project.

        Raises:
            CompilerError: A plain compile or a plain link fails.
        """
        links = self._build.of_module(module)
        if links:
            return [self._group(link.output, link.modules, link) for link in links]
        project = self._project(module)
        return [self._group(project, self._projects.get(project, [module]), None)]

    def _group(self, key: object, modules: Sequence[str], link: Link | None) -> LinkedTogether:
        if key not in self._together:
            copies, definitions, callers = (Counter[str]() for _ in range(3))
            names: set[str] = set()
            for name in modules:
                functions, symbols = self._plain.symbols(name)
                names.update(functions)
                copies.update(symbols.shared)
                callers.update(symbols.called)
                definitions.update(shared_definitions(self._corpus.whole().module(name).bitcode))
            dropped = frozenset[str]() if link is None else self._dropped(link, names)
            has_stubs = link is not None and _calls_by_name(link)
            self._together[key] = LinkedTogether(copies, definitions, dropped, callers if has_stubs else None)
        return self._together[key]

    def _dropped(self, link: Link, names: set[str]) -> frozenset[str]:
        """Return the functions of plain objects that the linker drops; none if the linked file has no symbols."""
        key = self._build.key(link, {})
        known = _memory.get(key)
        if known is None:
            table = read_symbol_table(read_elf(self._build.linked_file(link, {})))
            kept = names if table is None else set(table.names(table.symbols[table.functions]))
            known = {"dropped": sorted(names - kept)}
            _memory.put(key, known)
        return frozenset(known["dropped"])

    def cost(self, module: str, object_bytes: bytes | None = None) -> float:
        """Return the estimated bytes of an object of a module; None is that of plain clang.

        Raises:
            CompilerError: A plain compile or a plain link fails.
        """
        return self.functions(module, object_bytes).text / self.unit

    def functions(self, module: str, object_bytes: bytes | None = None) -> FunctionSizes:
        """Return the estimated bytes of each function and of the stubs for calls of it, in thousandths.

        Raises:
            CompilerError: A plain compile or a plain link fails.
        """
        data = self._plain.object(module) if object_bytes is None else object_bytes
        sizes, symbols = function_sizes(data), linked_symbols(data)
        groups = self.linked_together(module)
        estimated = {
            name: round(self.unit * size * sum(group.share(name, is_shared=name in symbols.shared) for group in groups))
            for name, size in sizes.functions.items()
        }
        for name in symbols.called:
            stub = round(self.unit * STUB_BYTES * sum(group.stub_share(name) for group in groups))
            if stub:
                function = sizes.name(name) or name
                estimated[function] = estimated.get(function, 0) + stub
        unnamed = self.unit * sizes.unnamed * len(groups)
        return FunctionSizes(estimated, sizes.aliases, unnamed, sum(estimated.values()) + unnamed)


def _calls_by_name(link: Link) -> bool:
    """Return whether a link makes a shared library whose calls of its own functions can be replaced."""
    binding = ("-Bsymbolic", "--version-script", "--dynamic-list")
    return "-shared" in link.arguments and not any(word in argument for argument in link.arguments for word in binding)
