"""The result of one policy on one module: one line of a result file."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

from mlgo_gym.storage.json_text import check_fields

DONE = "done"
NO_DECISIONS = "no-decisions"
FAILED = "failed"


@dataclass(frozen=True, slots=True)
class EpisodeResult:
    """The result of one policy on one module.

    Attributes:
        policy: Name of the policy.
        module: Name of the module.
        project: Project of the module.
        status: `DONE`; `NO_DECISIONS` if the module has none; or `FAILED`.
        metrics: Value of the policy and of plain clang, by metric.
        reward: Sum of the rewards; None for a plain compile.
        decisions: Number of decisions that the policy took.
        handed_over: Number of decisions that clang took after `max_decisions`.
        illegal_actions: Number of illegal actions, which clang's own choice replaced.
        actions: Actions of the episode as `pack_actions()` packs them; None for a plain compile.
        seconds: Duration of the episode, including the baseline if it had to be compiled. Episodes that run at the
            same time in a process share the time.
        error: Description of a failure: `kind` and `message`, where known `exit_status` and `stderr`.
        policy_seconds: CPU time of the policy. Decisions of one batch share its time.
    """

    policy: str
    module: str
    project: str
    status: str
    metrics: dict[str, tuple[float, float]] = field(default_factory=dict)
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
            KeyError, TypeError, ValueError: The data have another form.
        """
        check_fields(cls, value)
        if value["status"] not in (DONE, NO_DECISIONS, FAILED):
            raise ValueError(f"status {value['status'][:80]!r}")
        if any(number < 0 for pair in value["metrics"].values() for number in pair):
            raise ValueError("a negative metric")
        metrics = {name: (pair[0], pair[1]) for name, pair in value["metrics"].items()}
        return cls(**{**value, "metrics": metrics})
