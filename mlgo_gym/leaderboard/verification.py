"""Reproduces submissions: every recorded size must come out again."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from mlgo_gym.corpus.modules.corpus import Corpus
from mlgo_gym.env import CompilerEnv
from mlgo_gym.episode.baseline import measure_baseline
from mlgo_gym.errors import MlgoError, NoDecisionError
from mlgo_gym.evaluation.episode_result import DONE, NO_DECISIONS, EpisodeResult
from mlgo_gym.evaluation.protocol import ENVIRONMENT, SPLIT
from mlgo_gym.evaluation.result import EvaluationResult, load_result
from mlgo_gym.evaluation.result_folder import EPISODES
from mlgo_gym.evaluation.summary import TEXT
from mlgo_gym.leaderboard.manifest import Verification
from mlgo_gym.leaderboard.rules import missing_modules
from mlgo_gym.make_env import make_environment
from mlgo_gym.storage.untrusted_file import open_untrusted, sha256_of
from mlgo_gym.trajectories.replay import Verdict, check_version, validate

Progress = Callable[[Verdict], object]


@dataclass(frozen=True, slots=True)
class Reproduction:
    """Reproduced results, with the verdicts on the modules that were not, and the protocol's modules."""

    verification: Verification
    problems: tuple[Verdict, ...]
    corpus: Corpus


def results_digest(folder: Path) -> str:
    """Return the SHA-256 of the episodes in a folder of results."""
    with open_untrusted(folder / EPISODES) as file:
        return sha256_of(file)


def reproduce(
    folder: Path, *, clang: str | None = None, sample: int | None = None, progress: Progress = lambda _: None
) -> Reproduction:
    """Reproduce the results of one policy with the recorded version of the compiler.

    Finished episodes are reproduced by their recorded actions. Modules without decisions are checked. For failed
    episodes the size of plain clang is measured, of which they count as a multiple.

    Args:
        folder: Results with a configuration that follows the protocol.
        clang: Compiler of the recorded version. Default: as for a new environment.
        sample: Number of modules to reproduce, drawn by the digest of the results. Default: all.
        progress: Called with each verdict.

    Raises:
        MlgoError: The compiler has another version, the corpus cannot be opened, or a module is not of the protocol.
    """
    result = load_result(folder)
    configuration = result.configuration
    env = make_environment(ENVIRONMENT, {"corpus": configuration.corpus, "clang": clang})
    try:
        check_version(env, configuration.clang)
        corpus = env.corpus.split(SPLIT)
        missing = missing_modules(result, corpus)
        digest = results_digest(folder)
        names = _draw(result, sample, digest)
        verdicts = validate(folder, clang=clang, modules=names, progress=progress)
        failed = {}
        for episode in result.episodes:
            if episode.status == NO_DECISIONS and episode.module in names:
                verdicts.append(Verdict(episode.policy, episode.module, _check_no_decisions(env, episode)))
                progress(verdicts[-1])
            elif episode.status not in (DONE, NO_DECISIONS):
                failed[episode.module] = _plain_size(env, episode.module)
    finally:
        env.close()
    verification = Verification(
        digest,
        len(verdicts),
        len(result.episodes) - len(failed),
        configuration.clang,
        env.toolchain.digest(),
        failed,
        missing,
    )
    return Reproduction(verification, tuple(verdict for verdict in verdicts if verdict.problem), corpus)


def _draw(result: EvaluationResult, sample: int | None, digest: str) -> frozenset[str]:
    names = sorted({each.module for each in result.episodes if each.status in (DONE, NO_DECISIONS)})
    if sample is None or sample >= len(names):
        return frozenset(names)
    return frozenset(random.Random(digest).sample(names, sample))  # noqa: S311 # reproducible, not secret


def _check_no_decisions(env: CompilerEnv, episode: EpisodeResult) -> str:
    try:
        env.reset(options={"module": episode.module})
    except NoDecisionError:
        return ""
    except MlgoError as error:
        return str(error)
    return "expected no decisions, got some"


def _plain_size(env: CompilerEnv, module: str) -> float:
    compilation = env.compilation(env.corpus.module(module))
    return float(measure_baseline(compilation, env.setup.timeout).sizes_by_metric()[TEXT])
