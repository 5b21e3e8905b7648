"""What a submission says of itself, and what was found when it was made again."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from mlgo_gym.errors import MlgoError
from mlgo_gym.storage.cache import write_atomically
from mlgo_gym.storage.foreign_file import read_foreign
from mlgo_gym.storage.json_text import check_fields, parse_json

FORMAT = 1
MANIFEST = "manifest.json"
VERIFICATION = "verification.json"


@dataclass(frozen=True, slots=True)
class Manifest:
    """What a submission says of itself.

    Attributes:
        name: what it is called on the board.
        date: the day it was added, as `2026-01-31`.
        protocol: the version of the protocol.
        level: the optimisation level, one of the protocol's.
        environment: the environment's id.
        clang: the compiler's version.
        policy: the policy's name in the results.
        identity: what tells the policy from others of its name, with the SHA-256 of its file where it has one.
        authors: who made it.
        method: how, in a line.
        budget: what the training took: compiles or labels, and hours of which machine.
        policy_sha256: the SHA-256 of the policy's file, where it was shown.
    """

    name: str
    date: str
    protocol: int
    level: str
    environment: str
    clang: str
    policy: str
    identity: str
    authors: str = ""
    method: str = ""
    budget: str = ""
    policy_sha256: str | None = None


@dataclass(frozen=True, slots=True)
class Verification:
    """What was found when the results of a submission were made again.

    Attributes:
        results: the SHA-256 of the results that were made again: others have not been.
        modules: how many modules were.
        of: how many there are.
        clang: the compiler's version.
        clang_sha256: the SHA-256 of its program.
        failed: plain clang's bytes of the modules that the policy failed on, which count as its own.
        missing: the modules of the protocol's datasets that there ought to be, and are not.
    """

    results: str
    modules: int
    of: int
    clang: str
    clang_sha256: str
    failed: Mapping[str, float] = field(default_factory=dict)
    missing: tuple[str, ...] = ()


_Record = TypeVar("_Record", Manifest, Verification)


def write_record(path: Path, record: Manifest | Verification) -> None:
    """Write a manifest or a verification to its file."""
    write_atomically(path, (json.dumps({"format": FORMAT, **asdict(record)}, indent=2) + "\n").encode())


def read_manifest(folder: Path) -> Manifest:
    """Return the manifest of a submission.

    Raises:
        MlgoError: there is none, or it is of another form.
    """
    try:
        return _read(folder / MANIFEST, Manifest)
    except FileNotFoundError:
        raise MlgoError(
            f"{folder} was to be a submission, and has no {MANIFEST}; add it with `leaderboard add`"
        ) from None


def read_verification(folder: Path) -> Verification | None:
    """Return what was found when a submission was made again; None where that was never done.

    Raises:
        MlgoError: the file is of another form.
    """
    try:
        return _read(folder / VERIFICATION, Verification)
    except FileNotFoundError:
        return None


def _read(path: Path, record: type[_Record]) -> _Record:
    try:
        value: dict[str, Any] = dict(check_fields(record, parse_json(read_foreign(path))))
        if value.pop("format") != FORMAT:
            raise KeyError("format")
        return record(**value)
    except FileNotFoundError:
        raise
    except (OSError, KeyError, TypeError, ValueError) as error:
        raise MlgoError(f"{path} is of another form ({error!r}); add the submission again") from error
