"""A trace on disk: `meta.json`, `episodes.jsonl`, and the training logs in `logs/`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from mlgo_gym.errors import MlgoError
from mlgo_gym.storage.foreign_file import read_foreign
from mlgo_gym.storage.json_text import check_fields, parse_json

FORMAT = 1
META = "meta.json"
EPISODES = "episodes.jsonl"
LOGS = "logs"


@dataclass(frozen=True, slots=True)
class TraceMeta:
    """What a trace is of.

    Attributes:
        environment: the environment's id.
        arguments: its arguments, but for corpus and compiler.
        corpus: the corpus as it was given.
        policy: what tells the policy from others.
        clang: the compiler's version.
        seed: what random policies and the choice of modules depend on.
    """

    environment: str
    arguments: Mapping[str, Any]
    corpus: str
    policy: str
    clang: str
    seed: int


@dataclass(frozen=True, slots=True)
class TracedEpisode:
    """One line of `episodes.jsonl`.

    Attributes:
        module: the module's name.
        logs: the training log of each advisor, relative to the folder, in the order of the task's advisors; none where
            the compile failed before its first decision.
        decisions: how many decisions the policy took.
        handed_over: how many clang took because the budget was spent.
        reward: the episode's reward.
        measures: what was measured, by name: the policy's value and that of plain clang.
        error: how the compile failed, as in `info["error"]`; None where it did not.
    """

    module: str
    logs: tuple[str, ...]
    decisions: int
    handed_over: int
    reward: float
    measures: dict[str, tuple[float, float]]
    error: dict[str, Any] | None = None

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> TracedEpisode:
        """Build an episode from one decoded line.

        Raises:
            KeyError, TypeError: it is of another form.
        """
        check_fields(cls, value)
        measures = {name: (first, second) for name, (first, second) in value["measures"].items()}
        return cls(**{**value, "logs": tuple(value["logs"]), "measures": measures})


def log_name(module: str, advisor: str | None = None) -> str:
    """Return the place of a module's log in the folder.

    Args:
        module: its name; parts of it between slashes are folders.
        advisor: whose log, where the task has several.

    Raises:
        MlgoError: the name leads out of the folder.
    """
    if module.startswith("/") or ".." in module.split("/"):
        raise MlgoError(f"a module's name that stays in the trace's folder was wanted, found {module!r}; rename it")
    return f"{LOGS}/{module}{'' if advisor is None else f'.{advisor}'}.log"


def write_meta(folder: Path, meta: TraceMeta) -> None:
    """Write `meta.json`."""
    (folder / META).write_text(json.dumps({"format": FORMAT, **asdict(meta)}, indent=2) + "\n")


def read_trace(folder: Path) -> tuple[TraceMeta, list[TracedEpisode]]:
    """Return what a trace is of, and its episodes.

    Raises:
        MlgoError: there is no trace, or it is damaged.
    """
    try:
        value = parse_json(read_foreign(folder / META))
        if check_fields(TraceMeta, value).pop("format") != FORMAT:
            raise KeyError("format")
        lines = read_foreign(folder / EPISODES).decode().splitlines()
        return TraceMeta(**value), [TracedEpisode.from_json(parse_json(line)) for line in lines]
    except FileNotFoundError as error:
        raise MlgoError(
            f"{folder} holds no trace ({error.filename} is missing); give the --output of `trace`"
        ) from None
    except (OSError, KeyError, TypeError, ValueError, AttributeError) as error:
        raise MlgoError(f"{folder} was to hold a trace, and is of another form ({error!r}); trace it again") from error
