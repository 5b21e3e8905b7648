"""The files of a submission: the manifest of its authors, and the record of its verification."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from mlgo_gym.errors import MlgoError
from mlgo_gym.storage.cache import write_atomically
from mlgo_gym.storage.json_text import check_fields, parse_json
from mlgo_gym.storage.untrusted_file import read_untrusted

FORMAT = 1
MANIFEST = "manifest.json"
VERIFICATION = "verification.json"


@dataclass(frozen=True, slots=True)
class Manifest:
    """Description of a submission.

    Attributes:
        name: Name on the board.
        date: Day on which it was added, as `2026-01-31`.
        protocol: Version of the protocol.
        level: Optimisation level, one of the protocol's.
        environment: Id of the environment.
        clang: Version of the compiler.
        policy: Name of the policy in the results.
        identity: Identity of the policy, with the SHA-256 of its file if it has one.
        authors: Names of the authors.
        method: One-line description of the method.
        budget: Training budget: compiles or labels, hours, machine.
        policy_sha256: SHA-256 of the policy's file; None if it was not given.
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
    """Record of a reproduced submission.

    Attributes:
        results: SHA-256 of the reproduced results; the record holds for no others.
        modules: Number of reproduced modules.
        of: Number of modules in the results.
        clang: Version of the compiler.
        clang_sha256: SHA-256 of the compiler.
        failed: Plain clang's bytes of the modules on which the policy failed; they count as the policy's.
        missing: Modules of the evaluated datasets without results.
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
    """Write a manifest or a verification."""
    write_atomically(path, (json.dumps({"format": FORMAT, **asdict(record)}, indent=2) + "\n").encode())


def read_record(path: Path, record: type[_Record]) -> _Record | None:
    """Return a manifest or a verification; None if there is no such file.

    Raises:
        MlgoError: The file has another form.
    """
    try:
        value: dict[str, Any] = dict(check_fields(record, parse_json(read_untrusted(path))))
        if value.pop("format") != FORMAT:
            raise KeyError("format")
        return record(**value)
    except FileNotFoundError:
        return None
    except (OSError, KeyError, TypeError, ValueError) as error:
        raise MlgoError(f"{path} has another form ({error!r}); add the submission again") from error
