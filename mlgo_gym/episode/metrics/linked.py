"""The metric `linked`: bytes of the linked files with another object of one module."""

import hashlib
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from functools import cached_property, partial
from pathlib import Path

from mlgo_gym.cache import JsonCache, key_of, sha256_of
from mlgo_gym.compiler.limits import Limits
from mlgo_gym.corpus.compilation import Compilation
from mlgo_gym.corpus.corpus import Corpus
from mlgo_gym.corpus.recording.links import Link, read_links, relink
from mlgo_gym.errors import CompilerError, CorpusError, MlgoError, UntrustedError
from mlgo_gym.llvm.sizes import FunctionSizes, function_sizes, object_sizes
from mlgo_gym.llvm.toolchain import Toolchain
from mlgo_gym.storage.temporary_folders import temporary_folder


class PlainObjects:
    """Compiles each module of a corpus by plain clang at most once, at its first use."""

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


@dataclass
class LinkedSize:
    """The bytes of the executable sections of the linked files that contain a module, added up; a `ProjectCost`.

    A link runs without link time optimisation, also one that the build made with it: the objects are native code.

    The driver of the compiler links, with `limits` for each program; `trust` runs link arguments unchecked. Raises
    `CorpusError` if the corpus has no link steps. A link that fails is a `CompilerError` of kind `link`.
    """

    corpus: Corpus
    toolchain: Toolchain
    plain: PlainObjects
    trust: bool
    limits: Limits

    counts_calls = False

    def __post_init__(self) -> None:
        folder = self.corpus.path
        self._links = read_links(folder) if folder is not None and folder.is_dir() else ()
        self._libraries: dict[str, bytes] = {}
        if not self._links:
            raise CorpusError(
                f"expected a corpus with link steps for metric='linked', got {self.corpus.name!r}; record a build with "
                "`mlgo-gym corpus record` and name its folder alone, or use metric='text'"
            )

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
