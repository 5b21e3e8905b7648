"""Whether a corpus is whole: digests, readable bitcode, and flags that the chosen compiler understands."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from mlgo_gym.corpus.compilation import default_flags, plan
from mlgo_gym.corpus.corpus import Corpus
from mlgo_gym.corpus.dataset import incomplete
from mlgo_gym.corpus.flags import split_flags
from mlgo_gym.corpus.module import Module
from mlgo_gym.errors import MlgoError
from mlgo_gym.llvm.bitcode import read_bitcode
from mlgo_gym.llvm.toolchain import Toolchain
from mlgo_gym.session.bounded_run import run_bounded

_ACTIONS = ("-emit-obj", "-emit-llvm", "-emit-llvm-bc", "-emit-llvm-only", "-emit-codegen-only", "-S")


@dataclass(frozen=True, slots=True)
class Problem:
    """What is wrong with a module, in one line."""

    module: str
    text: str


def verify(
    corpus: Corpus, toolchain: Toolchain, *, jobs: int | None = None, progress: Callable[[], object] = lambda: None
) -> list[Problem]:
    """Return the problems of a corpus, in its order; none when every module can be used with this clang.

    Each module's bitcode is compared with its recorded digest, read, and given to clang together with its flags, up to
    but without optimisation.

    Args:
        corpus: the corpus.
        toolchain: the clang.
        jobs: how many modules to look at in parallel; all processors if None.
        progress: called after each module.
    """

    flagless: dict[str, str] = {}

    def look(name: str) -> Problem | None:
        try:
            module = corpus.module(name)
            text = _problem_of(module, toolchain)
            if text is None and module.flags is None:
                flagless[name] = (
                    f"it has no recorded flags and is compiled with {' '.join(default_flags(module))}, as the "
                    "attributes of its functions show; make it again, or open the corpus with flags="
                )
        except MlgoError as error:
            text = str(error)
        progress()
        return None if text is None else Problem(name, " ".join(text.split()))

    with ThreadPoolExecutor(jobs or os.cpu_count()) as pool:
        problems = [problem for problem in pool.map(look, corpus.names) if problem is not None]
    lacks = [] if corpus.path is None else incomplete(corpus.path)
    problems += [Problem(name, "the dataset is to hold it, and lacks it; fetch the dataset again") for name in lacks]
    if len(flagless) == len(corpus):
        return problems  # it never had any, and opening it has said so
    return [*problems, *(Problem(name, flagless[name]) for name in sorted(flagless))]


def _problem_of(module: Module, toolchain: Toolchain) -> str | None:
    recorded = module.metadata.get("bitcode_sha256")
    if isinstance(recorded, str) and recorded != module.digest():
        return f"the bitcode's SHA-256 was {recorded} when it was made, and is {module.digest()}; make it again"
    read_bitcode(module.bitcode)
    compilation = plan(module, toolchain)
    flags = [word for unit in split_flags(compilation.flags) if unit[0] not in _ACTIONS for word in unit]
    arguments = [*flags, *compilation.inputs, "-emit-llvm-bc", "-disable-llvm-passes", "-o", os.devnull]
    writable = () if compilation.confined else None
    answer = run_bounded([*toolchain.command, *arguments], writable=writable, timeout=120)
    if answer.returncode == 0:
        return None
    words = answer.stderr.strip().splitlines() or [f"no message, exit status {answer.returncode}"]
    return f"clang {toolchain.version_text} refuses it: {next((line for line in words if 'error' in line), words[0])}"
