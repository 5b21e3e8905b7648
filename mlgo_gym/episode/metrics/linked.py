"""The metrics `linked` and `estimated-linked`: bytes of linked files with another object of one module.

`linked` repeats the links of a recorded build. `estimated-linked` estimates the bytes of an object that survive a link.
A linker keeps one copy of each shared function (COMDAT), so each of n copies counts 1/n of its bytes. The copies are
those of plain clang's objects; a function that plain clang drops everywhere counts by the modules that define it before
optimisation. Link facts have the copies in objects outside of the corpus. All other functions count fully. A shared
library has a stub for each function that it calls by name, and each of n callers counts 1/n of it. The sum over the
modules of a build estimates its linked files, if one policy compiles all of them.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property, partial
from pathlib import Path

from mlgo_gym.cache import JsonCache, key_of, sha256_of
from mlgo_gym.compiler.limits import Limits
from mlgo_gym.corpus.compilation import Compilation
from mlgo_gym.corpus.corpus import Corpus
from mlgo_gym.corpus.recording.links import Link, read_links, relink
from mlgo_gym.errors import CompilerError, CorpusError, MlgoError, UntrustedError
from mlgo_gym.llvm.bitcode import shared_definitions
from mlgo_gym.llvm.link_facts import LinkFacts
from mlgo_gym.llvm.object_file import STUB_BYTES, LinkedSymbols, linked_symbols, read_elf, read_symbol_table
from mlgo_gym.llvm.sizes import FunctionSizes, function_sizes, object_sizes
from mlgo_gym.llvm.toolchain import Toolchain
from mlgo_gym.storage.temporary_folders import temporary_folder


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
        """Return the object of a module; raise `CompilerError` if the compile fails."""
        if module not in self._objects:
            with self.compilation(module).session() as session:
                self._objects[module] = session.finish(self._timeout).object_bytes
        return self._objects[module]

    def symbols(self, module: str) -> tuple[frozenset[str], LinkedSymbols]:
        """Return the functions of a module's object by all their names, and its symbols; kept on disk."""

        def compute() -> dict[str, list[str]]:
            data = self.object(module)
            sizes, symbols = function_sizes(data), linked_symbols(data)
            names = {*sizes.functions, *sizes.aliases}
            return {"functions": sorted(names), "shared": sorted(symbols.shared), "called": sorted(symbols.called)}

        record = JsonCache("symbols").remembered(self.compilation(module).key("symbols"), compute)
        functions, shared, called = (frozenset[str](record[name]) for name in ("functions", "shared", "called"))
        return functions, LinkedSymbols(shared, called)


@dataclass
class BuildLinks:
    """The links of a recorded build, by the modules in them.

    A link runs without link time optimisation, also one that the build made with it: the objects are native code.

    Attributes:
        toolchain: The compiler, whose driver links.
        plain: Objects by plain clang.
        trust: Whether to run link arguments unchecked.
        limits: Limits of each program of a link.
        facts: Link facts of the build, for the estimate: copies of functions in objects outside of the corpus.
    """

    corpus: Corpus
    toolchain: Toolchain
    plain: PlainObjects
    trust: bool
    limits: Limits
    facts: LinkFacts | None = None

    counts_calls = False

    def __post_init__(self) -> None:
        folder = self.corpus.path
        self._links = read_links(folder) if folder is not None and folder.is_dir() else ()
        self._libraries: dict[str, bytes] = {}

    def _links_of(self, module: str) -> tuple[Link, ...]:
        return tuple(link for link in self._links if module in link.modules)

    def _linked_file(self, link: Link, objects: Mapping[str, bytes]) -> bytes:
        """Return the linked file with objects by module, and those of plain clang for the others."""
        try:
            with temporary_folder() as scratch:
                files: dict[str, Path] = {}
                for number, name in enumerate(link.modules):
                    files[name] = scratch / f"{number}.o"
                    files[name].write_bytes(objects.get(name) or self.plain.object(name))
                libraries: dict[str, Path] = {}
                for number, output in enumerate(entry.link for entry in link.inputs if entry.link is not None):
                    libraries[output] = scratch / f"library-{number}"
                    libraries[output].write_bytes(self._library(output))
                relink(
                    link,
                    self.corpus.path or Path(),
                    files,
                    scratch / "linked",
                    self.toolchain,
                    libraries=libraries,
                    trust_flags=self.trust,
                    limits=self.limits,
                )
                return (scratch / "linked").read_bytes()
        except (CompilerError, UntrustedError):
            raise
        except MlgoError as error:
            raise CompilerError(str(error), kind="link") from error

    def _library(self, output: str) -> bytes:
        if output not in self._libraries:
            (link,) = (link for link in self._links if link.output == output)
            self._libraries[output] = self._linked_file(link, {})
        return self._libraries[output]

    def _key(self, link: Link, objects: Mapping[str, bytes]) -> str:
        digests = [
            hashlib.sha256(objects[name]).hexdigest() if name in objects else self.plain.compilation(name).key("object")
            for name in link.modules
        ]
        files = [sha256_of((self.corpus.path or Path()) / part.file) for part in link.parts if part.file is not None]
        outputs = {entry.link for entry in link.inputs} - {None}
        libraries = [self._key(library, {}) for library in self._links if library.output in outputs]
        return key_of("linked", self.toolchain.identity, asdict(link), digests, files, libraries)

    @cached_property
    def identity(self) -> str:
        """Digest of the links with their files, and of all modules of the corpus."""
        modules = [(module.name, module.contents(), module.flags) for module in self.corpus.whole()]
        return key_of([self._key(link, {}) for link in self._links], modules)


class LinkedSize(BuildLinks):
    """The bytes of the executable sections of the linked files that contain a module, added up; a `ProjectCost`.

    Raises `CorpusError` if the corpus has no link steps. A link that fails is a `CompilerError` of kind `link`.
    """

    unit = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self._links:
            raise CorpusError(
                f"expected a corpus with link steps for metric='linked', got {self.corpus.name!r}; record a build with "
                "`mlgo-gym corpus record` and name its folder alone, or use metric='estimated-linked'"
            )

    @cached_property
    def modules(self) -> frozenset[str]:
        """Names of the modules in links."""
        return frozenset(name for link in self._links for name in link.modules)

    def cost(self, module: str, object_bytes: bytes | None = None) -> float:
        """Return the bytes with an object of a module; None is that of plain clang. Kept on disk."""
        objects = {} if object_bytes is None else {module: object_bytes}

        def text(link: Link) -> dict[str, int]:
            return {"text": object_sizes(self._linked_file(link, objects)).text}

        sizes, links = JsonCache("linked"), self._links_of(module)
        return float(sum(sizes.remembered(self._key(link, objects), partial(text, link))["text"] for link in links))

    def functions(self, module: str, object_bytes: bytes | None = None) -> FunctionSizes:
        """Return the bytes of each function of the linked files; `MlgoError` if the build strips them."""
        objects = {} if object_bytes is None else {module: object_bytes}
        functions: Counter[str] = Counter()
        aliases: dict[str, str] = {}
        unnamed = text = 0
        for link in self._links_of(module):
            sizes = function_sizes(self._linked_file(link, objects))
            functions.update(sizes.functions)
            aliases |= sizes.aliases
            unnamed += sizes.unnamed
            text += sizes.text
        return FunctionSizes(functions, aliases, unnamed, text)


@dataclass(frozen=True, slots=True)
class _LinkedTogether:
    """Modules that are linked together.

    Attributes:
        copies, definitions: Number of plain objects with each shared function, and of modules that define it.
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


class EstimatedLinkedSize(BuildLinks):
    """The estimated bytes of one module's object in the linked files that contain it.

    With the link steps of a recorded build, the modules of a link share functions, and functions that the linker drops
    from plain clang's file count nothing. Without, the modules of a project share functions, as one linked file. The
    arguments are those of `BuildLinks`; the objects of the project are compiled at the first use. Where link facts say
    that the linked file keeps a function without this module, its copy costs the same whether the module has it or not.
    """

    unit = 1000
    modules = None

    @cached_property
    def _projects(self) -> dict[tuple[str, str], list[str]]:
        whole = self.corpus.whole()
        projects: dict[tuple[str, str], list[str]] = {}
        for name in whole.names:
            projects.setdefault(self._project(name), []).append(name)
        return projects

    @cached_property
    def _together(self) -> dict[object, _LinkedTogether]:
        return {}

    @cached_property
    def _kept(self) -> dict[str, dict[str, int]]:
        return {}

    def _project(self, module: str) -> tuple[str, str]:
        project, local = self.corpus.origin(module)
        return module.removesuffix(local), project

    def _groups(self, module: str) -> list[_LinkedTogether]:
        """Return the groups of modules that a module is linked with: one for each link, else its project."""
        links = self._links_of(module)
        if links:
            return [self._group(link.output, link.modules, link) for link in links]
        project = self._project(module)
        return [self._group(project, self._projects.get(project, [module]), None)]

    def _group(self, key: object, modules: Sequence[str], link: Link | None) -> _LinkedTogether:
        if key not in self._together:
            copies, definitions, callers = (Counter[str]() for _ in range(3))
            names: set[str] = set()
            for name in modules:
                functions, symbols = self.plain.symbols(name)
                names.update(functions)
                copies.update(symbols.shared)
                callers.update(symbols.called)
                definitions.update(shared_definitions(self.corpus.whole().module(name).bitcode))
            if self.facts is not None:
                copies |= Counter({name: count for name, (count, _) in self.facts.counts.items()})
            dropped = frozenset[str]() if link is None else self._dropped(link, names)
            has_stubs = link is not None and _calls_by_name(link)
            self._together[key] = _LinkedTogether(copies, definitions, dropped, callers if has_stubs else None)
        return self._together[key]

    def _dropped(self, link: Link, names: set[str]) -> frozenset[str]:
        """Return the functions of plain objects that the linker drops; none if the linked file has no symbols."""

        def compute() -> dict[str, list[str]]:
            table = read_symbol_table(read_elf(self._linked_file(link, {})))
            kept = names if table is None else set(table.names(table.symbols[table.functions]))
            return {"dropped": sorted(names - kept)}

        return frozenset(JsonCache("unlinked").remembered(self._key(link, {}), compute)["dropped"])

    def cost(self, module: str, object_bytes: bytes | None = None) -> float:
        """Return the estimated bytes of an object of a module; None is that of plain clang."""
        return self.functions(module, object_bytes).text / self.unit

    def _shares(self, module: str, sizes: FunctionSizes, symbols: LinkedSymbols) -> dict[str, int]:
        """Return the surviving share of each function of an object, in thousandths of a byte."""
        groups = self._groups(module)
        return {
            name: round(self.unit * size * sum(group.share(name, is_shared=name in symbols.shared) for group in groups))
            for name, size in sizes.functions.items()
        }

    def _is_kept(self, name: str, symbols: LinkedSymbols) -> bool:
        """Return whether the linked file keeps a function of an object without this object."""
        return self.facts is not None and name in symbols.shared and self.facts.keeps(name)

    def _kept_elsewhere(self, module: str) -> Mapping[str, int]:
        """Return the shares of those functions of the plain object that the linked file keeps without it."""
        if self.facts is None:
            return {}
        if module not in self._kept:
            data = self.plain.object(module)
            sizes, symbols = function_sizes(data), linked_symbols(data)
            shares = self._shares(module, sizes, symbols)
            self._kept[module] = {name: share for name, share in shares.items() if self._is_kept(name, symbols)}
        return self._kept[module]

    def functions(self, module: str, object_bytes: bytes | None = None) -> FunctionSizes:
        """Return the estimated bytes of each function and of the stubs for calls of it, in thousandths."""
        data = self.plain.object(module) if object_bytes is None else object_bytes
        sizes, symbols = function_sizes(data), linked_symbols(data)
        groups, kept = self._groups(module), self._kept_elsewhere(module)
        shares = self._shares(module, sizes, symbols).items()
        estimated = {**kept, **{name: n for name, n in shares if name in kept or not self._is_kept(name, symbols)}}
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
