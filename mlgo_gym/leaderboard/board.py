"""A folder of submissions: taken in, read, and made again."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from pathlib import Path
from tempfile import mkdtemp

from mlgo_gym.errors import MlgoError, NotReproducedError
from mlgo_gym.evaluation.module_facts import ModuleFacts, write_modules
from mlgo_gym.evaluation.protocol import VERSION
from mlgo_gym.evaluation.result import EvaluationResult, load_result
from mlgo_gym.evaluation.result_folder import EPISODES, HEADER
from mlgo_gym.leaderboard.manifest import (
    MANIFEST,
    VERIFICATION,
    Manifest,
    Verification,
    read_manifest,
    read_verification,
    write_record,
)
from mlgo_gym.leaderboard.rules import Coverage, check_policy, coverage_by_name
from mlgo_gym.leaderboard.training_digests import digests_of_policy, read_digests, trained_on
from mlgo_gym.leaderboard.verification import Note, make_again, results_digest
from mlgo_gym.policies.box import box_file, boxed_policies
from mlgo_gym.policies.loading import policy_identity
from mlgo_gym.policies.model_files import file_digest
from mlgo_gym.storage.cache import write_atomically

RESULTS = "results"
"""The folder of a submission that has the results and traces."""

TRAINING = "training_digests.txt"
"""The file of a submission that says what was trained on."""


@dataclass(frozen=True, slots=True)
class Submission:
    """A submission on a board.

    Attributes:
        folder: where it lies.
        manifest: what it says of itself.
        result: the results of its policy.
        verification: what was found when these results were made again; None where they never were, or others.
        coverage: what is missing of the protocol's modules.
        trained: which of its modules the policy was trained on; None where that was not told.
    """

    folder: Path
    manifest: Manifest
    result: EvaluationResult
    verification: Verification | None
    coverage: Coverage
    trained: tuple[str, ...] | None


@dataclass(frozen=True, slots=True)
class About:
    """What only its authors know of a submission.

    Attributes:
        name: what it is called on the board; the name of a folder.
        authors: who made it.
        method: how, in a line.
        budget: what the training took.
        policy_file: the file of the policy, which stays where it is; that of a policy in the box is found by itself.
        training: the digests of the modules that it was trained on, beside those that its file tells; None where that
            is not told.
    """

    name: str
    authors: str = ""
    method: str = ""
    budget: str = ""
    policy_file: Path | None = None
    training: frozenset[str] | None = None


def add(
    run: Path,
    board: Path,
    about: About,
    *,
    policy: str | None = None,
    partial: bool = False,
    sample: int | None = None,
    clang: str | None = None,
    progress: Note = lambda _: None,
) -> Submission:
    """Take a policy's results into a board, once they came out again.

    Args:
        run: the output of `evaluate`.
        board: the folder of submissions; made if need be.
        about: what else is to be said.
        policy: which policy of the run; needed where there are several beside `default`.
        partial: whether modules of the protocol may be missing.
        sample: make so many modules again; by default all.
        clang: the compiler, of the version that made the results.
        progress: called with the verdict on each module.

    Raises:
        NotReproducedError: a size did not come out again; nothing is added.
        MlgoError: the name is taken, or the results do not follow the protocol; nothing is added.
    """
    target = board / _checked(about.name)
    if target.exists():
        raise MlgoError(f"{board} has a submission {about.name!r} already; choose another name, or delete that folder")
    result = load_result(run)
    chosen = _policy(result, policy)
    identity = result.configuration.policies[chosen]
    check_policy(identity)
    about = _with_what_its_file_tells(about, chosen, identity)
    coverage = coverage_by_name(result.configuration)
    _accept(coverage, partial)
    board.mkdir(parents=True, exist_ok=True)
    waiting = Path(mkdtemp(prefix=f".{about.name}.", dir=board))
    try:
        _copy(result, chosen, waiting / RESULTS)
        remade = make_again(waiting / RESULTS, clang=clang, sample=sample, progress=progress)
        if remade.problems:
            lines = "".join(f"\n  {each.module}: {each.problem}" for each in remade.problems)
            raise NotReproducedError(
                f"{about.name} is refused: not every size came out again with the stated compiler{lines}"
            )
        coverage = replace(coverage, modules=remade.verification.missing)
        _accept(coverage, partial)
        there = {episode.module for episode in result.episodes if episode.policy == chosen}
        write_modules(waiting / RESULTS, (ModuleFacts.of(module) for module in remade.corpus if module.name in there))
        manifest = Manifest(
            about.name,
            datetime.now(timezone.utc).date().isoformat(),
            VERSION,
            coverage.level,
            result.configuration.environment,
            result.configuration.clang,
            chosen,
            identity,
            about.authors,
            about.method,
            about.budget,
            None if about.policy_file is None else file_digest(about.policy_file),
        )
        write_record(waiting / MANIFEST, manifest)
        write_record(waiting / VERIFICATION, remade.verification)
        if about.training is not None:
            write_atomically(waiting / TRAINING, "".join(f"{each}\n" for each in sorted(about.training)).encode())
        waiting.chmod(0o755)
        waiting.rename(target)
    except BaseException:
        shutil.rmtree(waiting, ignore_errors=True)
        raise
    return load_submission(target)


def load_submission(folder: Path) -> Submission:
    """Return a submission.

    Raises:
        MlgoError: it is none, or its manifest says something else than its results.
    """
    manifest = read_manifest(folder)
    results = folder / RESULTS
    result = load_result(results)
    configuration = result.configuration
    coverage = coverage_by_name(configuration)
    said = (manifest.environment, manifest.clang, manifest.level, {manifest.policy: manifest.identity})
    found = (configuration.environment, configuration.clang, coverage.level, dict(configuration.policies))
    if said != found:
        raise MlgoError(f"{folder}: its manifest says {said}, and its results {found}; add it again")
    verification = read_verification(folder)
    if verification is not None:
        coverage = replace(coverage, modules=tuple(verification.missing))
    if verification is not None and verification.results != results_digest(results):
        verification = None
    training = folder / TRAINING
    digests = read_digests(training) if training.exists() else None
    trained = None if digests is None else tuple(trained_on(digests, result.modules))
    return Submission(folder, manifest, result, verification, coverage, trained)


def load_board(board: Path, names: Iterable[str] = ()) -> list[Submission]:
    """Return the submissions of a board, sorted by name, or those of some names.

    Raises:
        MlgoError: there is no board, or no such submission, or one is damaged.
    """
    wanted = list(names)
    folders = [board / _checked(name) for name in wanted] or sorted(
        folder for folder in (board.iterdir() if board.is_dir() else ()) if (folder / MANIFEST).exists()
    )
    if not folders:
        raise MlgoError(f"{board} has no submission; `mlgo-gym leaderboard add RUN --board {board}` adds one")
    return [load_submission(folder) for folder in folders]


def _with_what_its_file_tells(about: About, policy: str, identity: str) -> About:
    file = about.policy_file
    if file is None and policy in boxed_policies() and identity == policy_identity(policy):
        file = box_file(policy, calls=True)
    told = None if file is None else digests_of_policy(file)
    if told is not None and about.training is not None:
        told |= about.training
    return replace(about, policy_file=file, training=about.training if told is None else told)


def _accept(coverage: Coverage, partial: bool) -> None:
    if not coverage.complete and not partial:
        raise MlgoError(f"of the protocol's modules are missing {coverage}; evaluate them too, or say --partial")


def _checked(name: str) -> str:
    if not name or name.startswith(".") or not name.isprintable() or "/" in name or "\\" in name:
        raise MlgoError(f"a submission's name is that of a folder, found {name!r}; leave slashes and a first dot out")
    return name


def _policy(result: EvaluationResult, wanted: str | None) -> str:
    others = [name for name in result.policies if name != "default"] or list(result.policies)
    if wanted is None and len(others) == 1:
        return others[0]
    if wanted not in result.policies:
        raise MlgoError(
            f"one policy of the run is submitted, found {wanted or 'none named'}; give --policy, one of "
            f"{', '.join(result.policies)}"
        )
    return wanted


def _copy(result: EvaluationResult, policy: str, folder: Path) -> None:
    """Write the results of one policy, each episode once."""
    configuration = replace(result.configuration, policies={policy: result.configuration.policies[policy]})
    write_atomically(folder / HEADER, (json.dumps(configuration.to_json(), indent=2) + "\n").encode())
    lines = (json.dumps(each.to_json()) + "\n" for each in result.episodes if each.policy == policy)
    write_atomically(folder / EPISODES, "".join(lines).encode())
    if result.modules:
        write_modules(folder, result.modules.values())
