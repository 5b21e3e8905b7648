"""The metric `linked`: the links of a recorded build, repeated with another object of one module."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict
from functools import cached_property
from pathlib import Path

from mlgo_gym.compiler.limits import Limits
from mlgo_gym.corpus.corpus import Corpus
from mlgo_gym.corpus.recording.links import Link, read_links, relink
from mlgo_gym.errors import CompilerError, CorpusError, MlgoError, UntrustedError
from mlgo_gym.llvm.function_sizes import FunctionSizes, function_sizes
from mlgo_gym.llvm.object_file import object_sizes
from mlgo_gym.llvm.toolchain import Toolchain
from mlgo_gym.storage.cache import JsonCache, key_of
from mlgo_gym.storage.temporary_folders import temporary_folder
from mlgo_gym.tasks.metrics.plain_objects import PlainObjects

_memory = JsonCache("linked")


class BuildLinks:
    """The links of a recorded build, by the modules in them.

    A link runs without link time optimisation, also one that the build made with it: the objects are native code.

    Args:
        corpus: The corpus.
        toolchain: The compiler, whose driver links.
        plain: Objects by plain clang.
        trust: Whether to run link arguments unchecked.
        limits: Limits of each program of a link.
    """

    def __init__(
        self, corpus: Corpus, toolchain: Toolchain, plain: PlainObjects, *, trust: bool, limits: Limits
    ) -> None:
        self.links = read_links(corpus.path) if corpus.path is not None and corpus.path.is_dir() else ()
        self._folder = corpus.path or Path()
        self._toolchain = toolchain
        self._plain = plain
        self._trust = trust
        self._limits = limits
        self._libraries: dict[str, bytes] = {}

    def of_module(self, module: str) -> tuple[Link, ...]:
        """Return the links that contain a module."""
        return tuple(link for link in self.links if module in link.modules)

    def linked_file(self, link: Link, given: Mapping[str, bytes]) -> bytes:
        """Return the linked file with the given objects by module, and those of plain clang for the others.

        Raises:
            CompilerError: Of kind `link`: the link fails. A plain compile may also fail.
            UntrustedError: An argument of the link may do more than shape its result.
        """
        try:
            with temporary_folder() as scratch:
                objects: dict[str, Path] = {}
                for number, name in enumerate(link.modules):
                    objects[name] = scratch / f"{number}.o"
                    objects[name].write_bytes(given.get(name) or self._plain.object(name))
                libraries: dict[str, Path] = {}
                for number, output in enumerate(each.link for each in link.inputs if each.link is not None):
                    libraries[output] = scratch / f"library-{number}"
                    libraries[output].write_bytes(self._library(output))
                relink(
                    link,
                    self._folder,
                    objects,
                    scratch / "linked",
                    self._toolchain,
                    libraries=libraries,
                    trust_flags=self._trust,
                    limits=self._limits,
                )
                return (scratch / "linked").read_bytes()
        except (CompilerError, UntrustedError):
            raise
        except MlgoError as error:
            raise CompilerError(str(error), kind="link") from error

    def _library(self, output: str) -> bytes:
        if output not in self._libraries:
            (link,) = (link for link in self.links if link.output == output)
            self._libraries[output] = self.linked_file(link, {})
        return self._libraries[output]

    def key(self, link: Link, given: Mapping[str, bytes]) -> str:
        """Return a key of all that decides the linked file."""
        objects = [
            hashlib.sha256(given[name]).hexdigest() if name in given else self._plain.compilation(name).key("object")
            for name in link.modules
        ]
        return key_of("linked", self._toolchain.identity, asdict(link), objects)


class LinkedSize:
    """The bytes of the executable sections of the linked files that contain a module, added up.

    Args:
        corpus: A recorded build with link steps.
        toolchain: The compiler, whose driver links.
        plain: Objects by plain clang.
        trust: Whether to run link arguments unchecked.
        limits: Limits of each program of a link.

    Raises:
        CorpusError: The corpus has no link steps.
    """

    unit = 1
    counts_calls = False

    def __init__(
        self, corpus: Corpus, toolchain: Toolchain, plain: PlainObjects, *, trust: bool, limits: Limits
    ) -> None:
        self._build = BuildLinks(corpus, toolchain, plain, trust=trust, limits=limits)
        if not self._build.links:
            raise CorpusError(
                f"expected a corpus with link steps for metric='linked', got {corpus.name!r}; record a build with "
                "`mlgo-gym corpus record` and name its folder alone, or use metric='estimated-linked'"
            )

    @cached_property
    def modules(self) -> frozenset[str]:
        """Names of the modules in links."""
        return frozenset(name for link in self._build.links for name in link.modules)

    def cost(self, module: str, object_bytes: bytes | None = None) -> float:
        """Return the bytes with an object of a module; None is that of plain clang. Kept on disk.

        Raises:
            CompilerError: Of kind `link`: a link fails.
        """
        given = {} if object_bytes is None else {module: object_bytes}
        total = 0
        for link in self._build.of_module(module):
            key = self._build.key(link, given)
            known = _memory.get(key)
            if known is None:
                known = {"text": object_sizes(self._build.linked_file(link, given)).text}
                _memory.put(key, known)
            total += known["text"]
        return float(total)

    def functions(self, module: str, object_bytes: bytes | None = None) -> FunctionSizes:
        """Return the bytes of each function of the linked files.

        Raises:
            CompilerError: Of kind `link`: a link fails.
            MlgoError: The build strips its files.
        """
        given = {} if object_bytes is None else {module: object_bytes}
        functions: Counter[str] = Counter()
        aliases: dict[str, str] = {}
        unnamed = text = 0
        for link in self._build.of_module(module):
            found = function_sizes(self._build.linked_file(link, given))
            functions.update(found.functions)
            aliases |= found.aliases
            unnamed += found.unnamed
            text += found.text
        return FunctionSizes(functions, aliases, unnamed, text)
