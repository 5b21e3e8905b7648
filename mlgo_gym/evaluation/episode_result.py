"""What one policy did on one module: one line of a result file."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

from mlgo_gym.storage.json_text import check_fields

DONE = "done"
NO_DECISIONS = "no-decisions"
FAILED = "failed"


@dataclass(frozen=True, slots=True)
class EpisodeResult:
    """What one policy did on one module.

    Attributes:
        policy: the policy's name.
        module: the module's name.
        project: the project that it belongs to.
        status: `DONE`; `NO_DECISIONS`, when there was nothing to decide; or `FAILED`.
        measures: what was measured, by name, such as `text_size`: the policy's value and that of plain clang.
        reward: the sum of the rewards; None for a plain compile, which has none.
        decisions: how many decisions the policy took.
        handed_over: how many clang took because the budget was spent.
        illegal_actions: how many of the policy's actions were illegal and replaced by clang's own choice.
        actions: those actions, as `mlgo_gym.evaluation.actions` packs them; None for a plain compile.
        seconds: the time from the start of the episode to its end, with that of the baseline where this was not known.
            Where several run at once in a process they share it.
        policy_seconds: the processor time in which the policy answered, without that of clang and of the environment.
            Decisions that were answered together share it.
        error: what went wrong, when `FAILED`: `kind` and `message`, and `exit_status` and `stderr` where known.
    """

    policy: str
    module: str
    project: str
    status: str
    measures: dict[str, tuple[float, float]] = field(default_factory=dict)
    reward: float | None = None
    decisions: int = 0
    handed_over: int = 0
    illegal_actions: int = 0
    actions: str | None = None
    seconds: float = 0.0
    error: dict[str, Any] | None = None
    policy_seconds: float = 0.0

    def to_json(self) -> dict[str, Any]:
        """Return JSON-able data."""
        return asdict(self)

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> EpisodeResult:
        """Build a result from the data of `to_json()`.

        Raises:
            KeyError, TypeError, ValueError: the data are of another form.
        """
        check_fields(cls, value)
        if value["status"] not in (DONE, NO_DECISIONS, FAILED):
            raise ValueError(f"the status {value['status'][:80]!r}")
        if any(number < 0 for pair in value["measures"].values() for number in pair):
            raise ValueError("a measure is a number of at least 0")
        measures = {name: (pair[0], pair[1]) for name, pair in value["measures"].items()}
        return cls(**{**value, "measures": measures})
