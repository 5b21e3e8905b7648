"""The link view of a corpus: modules with the linkages that their functions have after the link.

A module cannot see what the linker does with its `linkonce_odr` functions, the inline functions and templates of C++.
In the view, those that one module alone defines and calls are `internal`, as `mlgo-clang` makes them with the same
facts. Of those that the objects of several modules define, the first module of the link owns the function (`weak_odr`):
it always emits it. The others may inline it, and never emit it (`available_externally`). If the program
refers to the function once, the owner emits it only while it calls it (`linkonce_odr`, as before the link). No module
emits a function that the linker drops, or merges with another one.
"""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, cast

from mlgo_clang.internal_linkage import AVAILABLE_EXTERNALLY, INTERNAL, WEAK_ODR, change_linkage, changeable_functions
from mlgo_clang.invocation import folding_of_link
from mlgo_clang.link_facts import OWN, own_functions, read_lines
from mlgo_gym.cache import FileCache, JsonCache, errors_name_cache, key_of, sha256_of
from mlgo_gym.corpus.compilation import plan
from mlgo_gym.corpus.corpus import Corpus, Module
from mlgo_gym.corpus.recording.links import Link as RecordedLink
from mlgo_gym.corpus.recording.links import read_links, roots_of_link
from mlgo_gym.errors import CorpusError, PolicyError
from mlgo_gym.llvm.link_facts import LinkFacts, objects_of
from mlgo_gym.llvm.linker import Folding, Link, Place
from mlgo_gym.llvm.object_file import SymbolTable, read_elf, read_symbol_table
from mlgo_gym.llvm.toolchain import Toolchain

_REVISION = 5
_bitcode, _facts, _linked = FileCache("link-view", ".bc"), FileCache("link-facts"), JsonCache("link-view-linked")


@dataclass
class LinkView:
    """Changes the modules of a corpus to those of its link view, when they are loaded.

    Attributes:
        toolchain: The compiler of the plain objects, whose symbols are the facts.
        facts: File of link facts. Then all modules are one program, unless the corpus has recorded links.
        trust: Whether plain objects are compiled with unchecked flags; None for what each module says.

    Raises:
        CorpusError: The corpus has neither recorded links nor facts. Modules raise it on loading if their bitcode is no
            such from before the link.
    """

    plain: Corpus
    toolchain: Toolchain
    facts: str | os.PathLike[str] | None = None
    trust: bool | None = None

    def __post_init__(self) -> None:
        folder = self.plain.path
        self._links = read_links(folder) if folder is not None and folder.is_dir() else ()
        # Corpora without a folder are those of workers, whose modules are in the view.
        if self.facts is None and not self._links and folder is not None:
            raise CorpusError(
                f"expected a corpus with recorded links for link_view=True, got {self.plain.name!r}; record a build "
                "with `mlgo-gym corpus record` and name its folder, or give link_facts="
            )

    @property
    def corpus(self) -> Corpus:
        """The corpus in the view."""
        return self.plain.changed(self)

    def __call__(self, module: Module) -> Module:
        """Return a module in the view, where it stays as it is."""
        if module.link_facts is not None:
            return module
        if module.thinlto_index is not None:
            raise CorpusError(
                f"expected bitcode from before the link for link_view=True, got module {module.name!r} with a ThinLTO "
                "index, which has the linkages of its link; omit link_view"
            )
        # A copy in the view is a copy of the source.
        metadata = {**module.metadata, "source_sha256": module.source_digest()}
        metadata.pop("bitcode_sha256", None)
        bitcode = _changed(module, key_of(self._key, module.name, module.digest()), self._linkages)
        return replace(module, bitcode=bitcode, link_facts=self._facts_file, plain=module.bitcode, metadata=metadata)

    @cached_property
    def _modules(self) -> list[Module]:
        return list(self.plain.whole())

    @cached_property
    def _key(self) -> str:
        modules = [(module.name, module.contents(), module.flags) for module in self._modules]
        facts = None if self.facts is None else sha256_of(self.facts)
        return key_of(_REVISION, self.toolchain.identity, modules, list(map(repr, self._links)), facts)

    @cached_property
    def _facts_file(self) -> Path:
        if self.facts is not None:
            return Path(self.facts).absolute()
        path = _facts.get(self._key)
        if path is None:
            foldings = {_folding(link) for link in self._links}
            folding = foldings.pop() if len(foldings) == 1 else "none"
            facts = LinkFacts.of_objects(self._plain_objects.values(), folding)
            with errors_name_cache():
                path = _facts.put(self._key, facts.encoded())
        return path

    @cached_property
    def _plain_objects(self) -> dict[str, bytes]:
        return self._objects()

    @cached_property
    def _objects_without_inlining(self) -> dict[str, bytes]:
        return self._objects("-mllvm", "-inline-threshold=-1000000")

    def _objects(self, *flags: str) -> dict[str, bytes]:
        def compiled(module: Module) -> bytes:
            module = module if self.trust is None else replace(module, trusted=self.trust)
            return plan(module, self.toolchain, flags).plain_object()

        with ThreadPoolExecutor(os.cpu_count()) as pool:
            return dict(zip((module.name for module in self._modules), pool.map(compiled, self._modules), strict=True))

    @cached_property
    def _read_facts(self) -> LinkFacts:
        return LinkFacts.read(self._facts_file)

    @cached_property
    def _linked(self) -> dict[str, dict[str, Any]]:
        """By module, the `owners` of functions that several modules define, and the names of those `not_emitted`."""
        found: dict[str, dict[str, Any]] = _linked.remembered(self._key, self._find_linked)
        return found

    def _linkages(self, module: str) -> dict[bytes, int]:
        linkages = {name: INTERNAL for name, use in self._read_facts.uses.items() if use == OWN}
        owners = self._linked["owners"].get(module, {}).items()
        kept = {name for name, (_, references) in self._read_facts.counts.items() if references > 1}
        linkages |= {name: AVAILABLE_EXTERNALLY for name, owner in owners if owner != module}
        linkages |= {name: WEAK_ODR for name, owner in owners if owner == module and name in kept}
        linkages |= dict.fromkeys(self._linked["not_emitted"].get(module, ()), AVAILABLE_EXTERNALLY)
        return {name.encode(errors="surrogateescape"): linkage for name, linkage in linkages.items()}

    def _find_linked(self) -> dict[str, dict[str, Any]]:
        everything = tuple(module.name for module in self._modules)
        owners, missing = self._find_owners(), dict[str, set[str]]()
        for program in self._links or (None,):
            modules = everything if program is None else program.modules
            names, merged_into = self._lost_functions(modules, program)
            for module in modules:
                missing[module] = missing.get(module, names) & names
            for name, module in merged_into.items():
                owners.setdefault(module, {}).setdefault(name, module)
        return {"owners": owners, "not_emitted": {module: sorted(names) for module, names in missing.items() if names}}

    def _find_owners(self) -> dict[str, dict[str, str]]:
        """Return, by module, the owner of each function that several modules of the same programs share.

        The linker keeps the function of the first object, in the order of the link, that has it.
        """
        facts, linked = self._read_facts, dict.fromkeys(name for link in self._links for name in link.modules)
        shared = {name for name, (copies, _) in facts.counts.items() if copies - facts.twins.get(name, 0) > 1}
        emitted, definers = dict[str, set[str]](), dict[tuple[tuple[str, ...], str], list[str]]()
        modules = {module.name: module for module in self._modules}
        for module in map(modules.__getitem__, linked or modules):
            programs = tuple(link.output for link in self._links if module.name in link.modules)
            with _errors_name(module):
                functions = changeable_functions(module.bitcode.read_bytes())
            for table in _tables([self._plain_objects[module.name]] if linked else []):
                emitted[module.name] = set(table.names(table.symbols[table.functions]))
            for function in functions:
                name = function.decode(errors="surrogateescape")
                if name in shared:
                    definers.setdefault((programs, name), []).append(module.name)
        owners: dict[str, dict[str, str]] = {}
        for (_, name), members in definers.items():
            owner = next((member for member in members if name in emitted.get(member, ())), members[0])
            for member in members if len(members) > 1 else ():
                owners.setdefault(member, {})[name] = owner
        return owners

    def _lost_functions(self, modules: Sequence[str], program: RecordedLink | None) -> tuple[set[str], dict[str, str]]:
        """Return the functions that a linked file lacks, and those with which others were merged, by module.

        It lacks a function that nothing refers to before clang inlines, or that is merged with an equal one.
        """
        folding, roots, others = self._read_facts.folding, None, list[bytes]()
        if program is not None:
            folding, roots = "none" if program.lto else _folding(program), roots_of_link(program)
            folder = cast("Path", self.plain.path)
            others = list(objects_of([folder / part.file for part in program.parts if part.file is not None]))
        missing, merged_into = set[str](), dict[str, str]()
        if roots is not None:
            link = Link(_tables([*map(self._objects_without_inlining.__getitem__, modules), *others]))
            reached = link.reached_sections(roots)
            missing.update(name for place, names in link.functions_of.items() if place not in reached for name in names)
        if folding != "none":
            link = Link(_tables([*map(self._plain_objects.__getitem__, modules), *others]))
            groups: dict[int, list[Place]] = {}
            for place, number in sorted(link.folded_sections(folding).items()):
                if not link.functions_of.get(place, set()) <= missing:
                    groups.setdefault(number, []).append(place)
            for first, *places in groups.values():
                missing.update(name for place in places for name in link.functions_of[place])
                if places and first[0] < len(modules):
                    merged_into.update(dict.fromkeys(link.functions_of[first], modules[first[0]]))
        return missing, merged_into


def _tables(objects: Sequence[bytes]) -> list[SymbolTable]:
    tables = [read_symbol_table(read_elf(data)) for data in objects]
    return [table for table in tables if table is not None]


def _folding(link: RecordedLink) -> Folding:
    return cast("Folding", folding_of_link(link.arguments))


def merged_functions(module: Module) -> frozenset[str]:
    """Return the functions of a program that its linker merges with others; none for a module without the view."""
    return frozenset(LinkFacts.read(module.link_facts).twins if module.link_facts is not None else ())


def as_built(module: Module) -> Module:
    """Return a module of the view as a build with its facts compiles it: clang emits the functions that it shares, too.

    Other modules stay as they are.
    """
    if module.plain is None or module.link_facts is None:
        return module
    plain, facts = replace(module, bitcode=module.plain), module.link_facts
    key = key_of(_REVISION, *plain.contents())
    bitcode = _changed(plain, key, lambda _: dict.fromkeys(own_functions(read_lines(str(facts))), INTERNAL))
    return replace(module, bitcode=bitcode)


def _changed(module: Module, key: str, linkages: Callable[[str], Mapping[bytes, int]]) -> Path:
    """Return the bitcode of a module with the linkages of its functions, stored under a key."""
    path = _bitcode.get(key)
    if path is None:
        with _errors_name(module):
            data, _ = change_linkage(module.bitcode.read_bytes(), linkages(module.name))
        with errors_name_cache():
            path = _bitcode.put(key, data)
    return path


@contextmanager
def _errors_name(module: Module) -> Iterator[None]:
    try:
        yield
    except PolicyError as error:
        raise CorpusError(f"module {module.name!r}: {error}; omit link_view") from error
