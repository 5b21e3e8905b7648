"""Statistics of a corpus (sizes, languages, levels), and its verification (digests, flags that the clang accepts)."""

import os
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from hashlib import sha256
from itertools import combinations
from operator import attrgetter, itemgetter
from typing import TypeVar

from mlgo_gym.compiler.process import run_bounded
from mlgo_gym.corpus.compilation import default_flags, plan
from mlgo_gym.corpus.corpus import Corpus, Module
from mlgo_gym.corpus.datasets.dataset import missing_in_folder
from mlgo_gym.corpus.flags import split_flags
from mlgo_gym.errors import MlgoError
from mlgo_gym.llvm.bitcode import BitcodeFacts, read_bitcode
from mlgo_gym.llvm.object_file import function_codes
from mlgo_gym.llvm.toolchain import Toolchain

T = TypeVar("T")


@dataclass
class Information:
    """Statistics of a corpus.

    Attributes:
        functions: number of functions with a body, and of those with `minsize`, `optsize` and `optnone`.
        lines: source lines of all modules with a known number, and the number of these modules.
        languages, licences, targets: modules by name, or `unknown`.
        producers: modules by the LLVM that wrote the bitcode.
        levels: modules by the level that function attributes show, as in `BitcodeFacts.level`.
        unreadable: error message by producer whose bitcode the compiler cannot read.
        problems: one line per module that could not be read.
        missing: files and modules that a dataset lacks.
    """

    modules: int = 0
    bitcode_bytes: int = 0
    functions: Counter[str] = field(default_factory=Counter)
    lines: tuple[int, int] = (0, 0)
    languages: Counter[str] = field(default_factory=Counter)
    licences: Counter[str] = field(default_factory=Counter)
    producers: Counter[str] = field(default_factory=Counter)
    targets: Counter[str] = field(default_factory=Counter)
    levels: Counter[str] = field(default_factory=Counter)
    unreadable: dict[str, str] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)

    def add(self, module: Module, facts: BitcodeFacts, size: int) -> None:
        """Add a module with its bitcode size in bytes."""
        metadata = module.metadata
        self.modules += 1
        self.bitcode_bytes += size
        self.functions.update(
            functions=facts.functions, minsize=facts.minsize, optsize=facts.optsize, optnone=facts.optnone
        )
        lines = metadata.get("lines")
        if isinstance(lines, int):
            self.lines = (self.lines[0] + lines, self.lines[1] + 1)
        self.languages[str(metadata.get("language") or facts.language or "unknown")] += 1
        self.licences[str(metadata.get("licence") or "unknown")] += 1
        self.producers[facts.producer or "unknown"] += 1
        self.targets[facts.triple or "unknown"] += 1
        self.levels[facts.level] += 1


def describe(
    corpus: Corpus, toolchain: Toolchain, *, jobs: int | None = None, progress: Callable[[], object] = lambda: None
) -> Information:
    """Return the statistics of a corpus; a module that cannot be read is reported as a problem.

    The clang reads one module of each producer. `progress` is called after each module, and `jobs` is the number of
    threads.
    """
    information = Information(missing=missing_in_folder(corpus.path))
    smallest: dict[str, tuple[int, Module]] = {}
    for _, result in _over_modules(corpus, lambda module: (module, read_bitcode(module.bitcode)), jobs, progress):
        if isinstance(result, MlgoError):
            information.problems.append(str(result))
            continue
        module, facts = result
        sized = module.bitcode.stat().st_size, module
        information.add(module, facts, sized[0])
        smallest[facts.producer] = min(smallest.get(facts.producer, sized), sized, key=itemgetter(0))
    for producer, (_, module) in smallest.items():
        problem = read_error(toolchain, ["-cc1", "-w", "-x", "ir", str(module.bitcode)])
        if problem is not None:
            information.unreadable[producer] = problem
    return information


def _over_modules(
    corpus: Corpus, work: Callable[[Module], T], jobs: int | None, progress: Callable[[], object]
) -> Iterator[tuple[str, T | MlgoError]]:
    """Yield the name of each module with the result of work on it, or the error."""

    def run(name: str) -> T | MlgoError:
        try:
            return work(corpus.module(name))
        except MlgoError as error:
            return error
        finally:
            progress()

    with ThreadPoolExecutor(jobs or os.cpu_count()) as pool:
        yield from zip(corpus.names, pool.map(run, corpus.names), strict=True)


_SMALLEST_FUNCTION = 64
"""Smallest function in bytes that shows a common source; smaller ones are alike by chance."""

_APART = ("-O1", "-fno-inline", "-ffunction-sections", "-w")
"""Flags with which the code of a function depends least on the rest of its module."""


@dataclass(frozen=True, slots=True)
class Overlap:
    """Functions of at least 64 bytes with equal code that two projects contain, and their bytes."""

    first: str
    second: str
    functions: int
    bytes: int
    first_bytes: int
    second_bytes: int


def overlaps(
    corpus: Corpus, toolchain: Toolchain, *, jobs: int | None = None, progress: Callable[[], object] = lambda: None
) -> tuple[list[Overlap], list["Problem"]]:
    """Return the pairs of projects that contain equal functions, those with the most bytes first; and failed compiles.

    The functions are those of `function_digests()`, and the other arguments those of `describe()`.
    """
    projects, problems = function_digests(corpus, toolchain, jobs=jobs, progress=progress)
    found = []
    for (first, ours), (second, theirs) in combinations(sorted(projects.items()), 2):
        if shared := ours.keys() & theirs.keys():
            sizes = (sum(ours[digest] for digest in shared), sum(ours.values()), sum(theirs.values()))
            found.append(Overlap(first, second, len(shared), *sizes))
    return sorted(found, key=attrgetter("bytes"), reverse=True), problems


def function_digests(
    corpus: Corpus, toolchain: Toolchain, *, jobs: int | None = None, progress: Callable[[], object] = lambda: None
) -> tuple[dict[str, dict[str, int]], list["Problem"]]:
    """Return the size in bytes by SHA-256 of each project's functions of at least 64 bytes; and failed compiles.

    Functions that several objects may define, such as templates of C++, do not count. The other arguments are those of
    `describe()`.
    """

    def codes(module: Module) -> dict[str, int]:
        compilation = plan(module, toolchain)
        compilation = replace(compilation, flags=(*compilation.flags, *_APART))
        functions = function_codes(compilation.plain_object())
        return {sha256(code).hexdigest(): len(code) for code in functions if len(code) >= _SMALLEST_FUNCTION}

    projects: dict[str, dict[str, int]] = {}
    problems: list[Problem] = []
    for name, result in _over_modules(corpus, codes, jobs, progress):
        if isinstance(result, MlgoError):
            problems.append(Problem(name, " ".join(str(result).split())))
        else:
            projects.setdefault(corpus.project(name), {}).update(result)
    return projects, problems


def read_error(toolchain: Toolchain, arguments: Sequence[str], *, confined: bool = True) -> str | None:
    """Return the error message of a clang that cannot read bitcode with these `-cc1` arguments, or None."""
    command = [*toolchain.command, *arguments, "-emit-llvm-bc", "-disable-llvm-passes", "-o", os.devnull]
    completed = run_bounded(command, writable=() if confined else None, timeout=300)
    if completed.returncode == 0:
        return None
    lines = completed.stderr.strip().splitlines() or [f"no message, exit status {completed.returncode}"]
    return next((line for line in lines if "error" in line), lines[0])


_ACTIONS = ("-emit-obj", "-emit-llvm", "-emit-llvm-bc", "-emit-llvm-only", "-emit-codegen-only", "-S")


@dataclass(frozen=True, slots=True)
class Problem:
    """A problem of a module, in one line."""

    module: str
    text: str


def verify(
    corpus: Corpus, toolchain: Toolchain, *, jobs: int | None = None, progress: Callable[[], object] = lambda: None
) -> list[Problem]:
    """Return the problems of a corpus in its order; none if every module can be compiled with this clang.

    Each module's bitcode is compared with its recorded digest, parsed, and read by clang with its flags, without
    optimisation. The other arguments are those of `describe()`.
    """
    problems: list[Problem] = []
    without_flags: list[Problem] = []
    for name, result in _over_modules(corpus, lambda module: (module, _problem_of(module, toolchain)), jobs, progress):
        module, text = (None, str(result)) if isinstance(result, MlgoError) else result
        if text is not None:
            problems.append(Problem(name, " ".join(text.split())))
        elif module is not None and module.flags is None:
            flags = f"it has no recorded flags and is compiled with {' '.join(default_flags(module))}, as the "
            flags += "attributes of its functions show; record it again, or open the corpus with flags="
            without_flags.append(Problem(name, flags))
    missing = missing_in_folder(corpus.path)
    problems += [Problem(name, "the dataset lacks it; fetch the dataset again") for name in missing]
    if len(without_flags) == len(corpus):
        return problems  # the corpus was made without flags
    return problems + sorted(without_flags, key=lambda problem: problem.module)


def _problem_of(module: Module, toolchain: Toolchain) -> str | None:
    recorded = module.metadata.get("bitcode_sha256")
    if isinstance(recorded, str) and recorded != module.digest():
        return f"expected bitcode with SHA-256 {recorded}, got {module.digest()}; record it again"
    read_bitcode(module.bitcode)
    compilation = plan(module, toolchain)
    flags = [word for unit in split_flags(compilation.flags) if unit[0] not in _ACTIONS for word in unit]
    error = read_error(toolchain, [*flags, *compilation.inputs], confined=compilation.confined)
    return None if error is None else f"clang {toolchain.version_text} refuses it: {error}"
