"""Verification of a corpus: digests, readable bitcode, and flags that the chosen compiler accepts."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from mlgo_gym.corpus.commands.compilation import default_flags, plan
from mlgo_gym.corpus.commands.flags import split_flags
from mlgo_gym.corpus.corpus import Corpus
from mlgo_gym.corpus.datasets.dataset import missing_in_folder
from mlgo_gym.corpus.information import read_error
from mlgo_gym.corpus.module import Module
from mlgo_gym.errors import MlgoError
from mlgo_gym.llvm.bitcode import read_bitcode
from mlgo_gym.llvm.toolchain import Toolchain

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
    optimisation. `progress` is called after each module, and `jobs` is the number of threads.
    """
    without_flags: list[Problem] = []

    def check(name: str) -> Problem | None:
        try:
            module = corpus.module(name)
            text = _problem_of(module, toolchain)
            if text is None and module.flags is None:
                flags = f"it has no recorded flags and is compiled with {' '.join(default_flags(module))}, as the "
                flags += "attributes of its functions show; record it again, or open the corpus with flags="
                without_flags.append(Problem(name, flags))
        except MlgoError as error:
            text = str(error)
        progress()
        return None if text is None else Problem(name, " ".join(text.split()))

    with ThreadPoolExecutor(jobs or os.cpu_count()) as pool:
        problems = [problem for problem in pool.map(check, corpus.names) if problem is not None]
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
