"""A folder of submissions: adds, reads and checks them."""

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
from mlgo_gym.evaluation.result_folder import EPISODES, write_configuration
from mlgo_gym.evaluation.tables import DEFAULT
from mlgo_gym.leaderboard.manifest import MANIFEST, VERIFICATION, Manifest, Verification, read_record, write_record
from mlgo_gym.leaderboard.rules import Coverage, check_policy, coverage_by_name
from mlgo_gym.leaderboard.training_digests import digests_of_policy, read_digests, trained_on
from mlgo_gym.leaderboard.verification import Progress, reproduce, results_digest
from mlgo_gym.policies.bundled import bundled_file, bundled_policies
from mlgo_gym.policies.loading import policy_identity
from mlgo_gym.policies.model_files import file_digest
from mlgo_gym.storage.cache import write_atomically

RESULTS = "results"
"""Folder of a submission with its results."""

TRAINING = "training_digests.txt"
"""File of a submission with the digests of the modules it was trained on."""


@dataclass(frozen=True, slots=True)
class Submission:
    """A submission on a board.

    Attributes:
        verification: Record of its reproduction; None if these results were never reproduced.
        coverage: Missing modules of the protocol.
        trained: Names of its modules that the policy was trained on; None if unknown.
    """

    folder: Path
    manifest: Manifest
    result: EvaluationResult
    verification: Verification | None
    coverage: Coverage
    trained: tuple[str, ...] | None


def add(
    run: Path,
    board: Path,
    name: str,
    *,
    policy: str | None = None,
    authors: str = "",
    method: str = "",
    budget: str = "",
    policy_file: Path | None = None,
    training: frozenset[str] | None = None,
    partial: bool = False,
    sample: int | None = None,
    clang: str | None = None,
    progress: Progress = lambda _: None,
) -> Submission:
    """Reproduce a policy's results and add them to a board.

    Args:
        run: Output of `evaluate`.
        board: Folder of submissions; made if it does not exist.
        name: Name on the board, which is the name of a folder.
        policy: Name of the policy in the run. Default: the only one except `default`.
        authors: Names of the authors.
        method: One-line description of the method.
        budget: Training budget: compiles or labels, hours, machine.
        policy_file: File of the policy, which is not copied. Default: the file of a bundled policy.
        training: Digests of the modules that the policy was trained on, in addition to those that its file has.
        partial: Whether modules of the protocol may be missing.
        sample: Number of modules to reproduce. Default: all.
        clang: Compiler of the recorded version. Default: as for a new environment.
        progress: Called with the verdict on each module.

    Raises:
        NotReproducedError: A size was not reproduced; nothing is added.
        MlgoError: The name is taken, or the results deviate from the protocol; nothing is added.
    """
    target = board / _checked(name)
    if target.exists():
        raise MlgoError(f"expected a new name, got {name!r}, which {board} has; choose another, or delete that folder")
    result = load_result(run)
    chosen = _choose_policy(result, policy)
    identity = result.configuration.policies[chosen]
    check_policy(identity)
    if policy_file is None and chosen in bundled_policies() and identity == policy_identity(chosen):
        policy_file = bundled_file(chosen)
    if policy_file is not None and (digests := digests_of_policy(policy_file)) is not None:
        training = digests | (training or frozenset())
    coverage = coverage_by_name(result.configuration)
    _check_coverage(coverage, partial)
    board.mkdir(parents=True, exist_ok=True)
    pending = Path(mkdtemp(prefix=f".{name}.", dir=board))
    try:
        _copy(result, chosen, pending / RESULTS)
        reproduction = reproduce(pending / RESULTS, clang=clang, sample=sample, progress=progress)
        if reproduction.problems:
            lines = "".join(f"\n  {each.module}: {each.problem}" for each in reproduction.problems)
            raise NotReproducedError(f"{name} is refused: sizes were not reproduced with the recorded compiler{lines}")
        coverage = replace(coverage, modules=reproduction.verification.missing)
        _check_coverage(coverage, partial)
        evaluated = {episode.module for episode in result.episodes if episode.policy == chosen}
        modules = (module for module in reproduction.corpus if module.name in evaluated)
        write_modules(pending / RESULTS, map(ModuleFacts.of, modules))
        manifest = Manifest(
            name=name,
            date=datetime.now(timezone.utc).date().isoformat(),
            protocol=VERSION,
            level=coverage.level,
            environment=result.configuration.environment,
            clang=result.configuration.clang,
            policy=chosen,
            identity=identity,
            authors=authors,
            method=method,
            budget=budget,
            policy_sha256=None if policy_file is None else file_digest(policy_file),
        )
        write_record(pending / MANIFEST, manifest)
        write_record(pending / VERIFICATION, reproduction.verification)
        if training is not None:
            write_atomically(pending / TRAINING, "".join(f"{each}\n" for each in sorted(training)).encode())
        pending.chmod(0o755)
        pending.rename(target)
    except BaseException:
        shutil.rmtree(pending, ignore_errors=True)
        raise
    return load_submission(target)


def load_submission(folder: Path) -> Submission:
    """Return a submission.

    Raises:
        MlgoError: The folder has no submission, or its manifest contradicts its results.
    """
    manifest = read_record(folder / MANIFEST, Manifest)
    if manifest is None:
        raise MlgoError(f"expected a submission in {folder}, got no {MANIFEST}; add it with `leaderboard add`")
    result = load_result(folder / RESULTS)
    configuration = result.configuration
    coverage = coverage_by_name(configuration)
    stated = (manifest.environment, manifest.clang, manifest.level, {manifest.policy: manifest.identity})
    found = (configuration.environment, configuration.clang, coverage.level, dict(configuration.policies))
    if stated != found:
        raise MlgoError(f"{folder}: expected results of {stated} as its manifest states, got {found}; add it again")
    verification = read_record(folder / VERIFICATION, Verification)
    if verification is not None:
        coverage = replace(coverage, modules=tuple(verification.missing))
        if verification.results != results_digest(folder / RESULTS):
            verification = None
    training = folder / TRAINING
    trained = tuple(trained_on(read_digests(training), result.modules)) if training.exists() else None
    return Submission(folder, manifest, result, verification, coverage, trained)


def load_board(board: Path, names: Iterable[str] = ()) -> list[Submission]:
    """Return all submissions of a board sorted by name, or those with given names.

    Raises:
        MlgoError: The board has no submission, or not that one, or one is damaged.
    """
    folders = [board / _checked(name) for name in names] or sorted(
        folder for folder in (board.iterdir() if board.is_dir() else ()) if (folder / MANIFEST).exists()
    )
    if not folders:
        raise MlgoError(f"expected submissions in {board}, got none; add one with `mlgo-gym leaderboard add`")
    return [load_submission(folder) for folder in folders]


def _check_coverage(coverage: Coverage, partial: bool) -> None:
    if not coverage.complete and not partial:
        raise MlgoError(
            f"expected all modules of the protocol, got none of {coverage}; evaluate them or pass --partial"
        )


def _checked(name: str) -> str:
    if not name or name.startswith(".") or not name.isprintable() or "/" in name or "\\" in name:
        raise MlgoError(f"expected the name of a folder, got {name!r}; use no slashes and no leading dot")
    return name


def _choose_policy(result: EvaluationResult, name: str | None) -> str:
    others = [each for each in result.policies if each != DEFAULT] or list(result.policies)
    if name is None and len(others) == 1:
        return others[0]
    if name not in result.policies:
        raise MlgoError(f"expected --policy as one of {', '.join(result.policies)}, got {name!r}; name one policy")
    return name


def _copy(result: EvaluationResult, policy: str, folder: Path) -> None:
    """Write the results of one policy."""
    configuration = replace(result.configuration, policies={policy: result.configuration.policies[policy]})
    write_configuration(folder, configuration)
    lines = (json.dumps(each.to_json()) + "\n" for each in result.episodes if each.policy == policy)
    write_atomically(folder / EPISODES, "".join(lines).encode())
    if result.modules:
        write_modules(folder, result.modules.values())
