"""Making a submission again: every size has to come out as it was said."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from mlgo_gym.corpus.corpus import Corpus
from mlgo_gym.env import CompilerEnv
from mlgo_gym.episode.baseline import measure_baseline
from mlgo_gym.errors import MlgoError, NoDecisionError
from mlgo_gym.evaluation.environment import make_environment
from mlgo_gym.evaluation.episode_result import DONE, NO_DECISIONS, EpisodeResult
from mlgo_gym.evaluation.protocol import ENVIRONMENT, SPLIT
from mlgo_gym.evaluation.result import EvaluationResult, load_result
from mlgo_gym.evaluation.result_folder import EPISODES
from mlgo_gym.evaluation.summary import TEXT
from mlgo_gym.leaderboard.manifest import Verification
from mlgo_gym.leaderboard.rules import missing_modules
from mlgo_gym.storage.foreign_file import open_foreign
from mlgo_gym.storage.hashing import sha256_of
from mlgo_gym.trajectories.replay import Verdict, check_version
from mlgo_gym.trajectories.validation import validate

Note = Callable[[Verdict], object]


@dataclass(frozen=True, slots=True)
class Remade:
    """Results that were made again.

    Attributes:
        verification: how much of them, and by what.
        problems: the modules that did not come out as they were said.
        corpus: the protocol's modules, of the datasets that the results are about.
    """

    verification: Verification
    problems: tuple[Verdict, ...]
    corpus: Corpus


def results_digest(folder: Path) -> str:
    """Return the SHA-256 of the episodes in a folder of results."""
    with open_foreign(folder / EPISODES) as file:
        return sha256_of(file)


def make_again(
    folder: Path, *, clang: str | None = None, sample: int | None = None, progress: Note = lambda _: None
) -> Remade:
    """Make the results of one policy again, with the compiler that they state.

    Compiles that were finished are made by their recorded decisions; a module that was said to have none is asked; of
    those that failed, plain clang's size is measured, which they count as.

    Args:
        folder: the results, whose configuration follows the protocol.
        clang: the compiler, of the stated version; by default as for a new environment.
        sample: make so many modules again, drawn by the digest of the results; by default all.
        progress: called with each verdict.

    Raises:
        MlgoError: the compiler is another one, the corpus cannot be had, or a module is not of the protocol.
    """
    result = load_result(folder)
    configuration = result.configuration
    env = make_environment(ENVIRONMENT, {"corpus": configuration.corpus, "clang": clang})
    try:
        check_version(env, configuration.clang)
        corpus = env.corpus.split(SPLIT)
        missing = missing_modules(result, corpus)
        digest = results_digest(folder)
        names = _drawn(result, sample, digest)
        verdicts = validate(folder, clang=clang, modules=names, progress=progress)
        failed = {}
        for episode in result.episodes:
            if episode.status == NO_DECISIONS and episode.module in names:
                verdicts.append(Verdict(episode.policy, episode.module, _has_none(env, episode)))
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
    return Remade(verification, tuple(verdict for verdict in verdicts if verdict.problem), corpus)


def _drawn(result: EvaluationResult, sample: int | None, digest: str) -> frozenset[str]:
    names = sorted({each.module for each in result.episodes if each.status in (DONE, NO_DECISIONS)})
    if sample is None or sample >= len(names):
        return frozenset(names)
    return frozenset(random.Random(digest).sample(names, sample))  # noqa: S311 # no secret: all can draw the same


def _has_none(env: CompilerEnv, episode: EpisodeResult) -> str:
    try:
        env.reset(options={"module": episode.module})
    except NoDecisionError:
        return ""
    except MlgoError as error:
        return str(error)
    return "it was said to have no decision, and has"


def _plain_size(env: CompilerEnv, module: str) -> float:
    compilation = env.compilation(env.corpus.module(module))
    measured = measure_baseline(compilation, env.setup.settings.timeout)
    return float(measured.named_sizes()[TEXT])
