"""What the episodes of a policy add up to."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from mlgo_gym.evaluation.episode_result import DONE, FAILED, NO_DECISIONS, EpisodeResult

TEXT = "text_size"
"""The measure that every evaluation shows: the bytes of the executable sections."""


@dataclass(frozen=True, slots=True)
class Change:
    """How a measure compares with that of plain clang, over modules; smaller is better.

    Attributes:
        pairs: the policy's value and plain clang's, for each module.
        clusters: the project of each module, what intervals are clustered by; by default each is of one of its own.
    """

    pairs: tuple[tuple[float, float], ...]
    clusters: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not self.clusters:
            object.__setattr__(self, "clusters", tuple(map(str, range(len(self.pairs)))))

    @property
    def value(self) -> float:
        """The sum over the modules."""
        return sum(value for value, _ in self.pairs)

    @property
    def baseline(self) -> float:
        """Plain clang's sum."""
        return sum(baseline for _, baseline in self.pairs)

    @property
    def total(self) -> float:
        """The relative change of the sum: -0.02 for 2 % less; 0 where plain clang's is 0."""
        return self.value / self.baseline - 1.0 if self.baseline else 0.0

    @property
    def logarithms(self) -> tuple[float, ...]:
        """The logarithm of (1 + value) / (1 + baseline) for each module.

        The ones keep it finite where a cost is 0; on sizes of hundreds of bytes they do not matter.
        """
        return tuple(math.log((1.0 + value) / (1.0 + baseline)) for value, baseline in self.pairs)

    @property
    def mean(self) -> float:
        """The relative change of the geometric mean over modules: -0.02 for 2 % less."""
        logarithms = self.logarithms
        return math.expm1(math.fsum(logarithms) / len(logarithms)) if logarithms else 0.0

    @property
    def better(self) -> int:
        """On how many modules the value is smaller than plain clang's."""
        return sum(value < baseline for value, baseline in self.pairs)

    @property
    def worse(self) -> int:
        """On how many it is larger."""
        return sum(value > baseline for value, baseline in self.pairs)

    @property
    def equal(self) -> int:
        """On how many it is the same."""
        return sum(value == baseline for value, baseline in self.pairs)


@dataclass(frozen=True, slots=True)
class Summary:
    """What the episodes of a policy add up to.

    Attributes:
        policy: its name.
        names: the modules that it finished, in the order of the pairs of `changes`.
        failures: on how many something went wrong.
        illegal_actions: how many of its actions were illegal.
        seconds: the time of its compiles, together.
        policy_seconds: the processor time in which it answered, together.
        decisions: how many it answered.
        changes: for each measure, how it changed.
    """

    policy: str
    names: tuple[str, ...]
    failures: int
    illegal_actions: int
    seconds: float
    policy_seconds: float
    decisions: int
    changes: dict[str, Change]

    @property
    def modules(self) -> int:
        """On how many modules it finished."""
        return len(self.names)


def without_decisions(episodes: Iterable[EpisodeResult]) -> list[str]:
    """Return the modules in which there is nothing to decide."""
    return sorted({episode.module for episode in episodes if episode.status == NO_DECISIONS})


def summarize(policy: str, episodes: Iterable[EpisodeResult], measures: Sequence[str]) -> Summary:
    """Return what a policy's episodes add up to, over the modules in which there is something to decide.

    Args:
        policy: its name.
        episodes: those of all policies.
        measures: which measures to compare.
    """
    everything: Collection[EpisodeResult] = list(episodes)
    left_out = set(without_decisions(everything))
    ours = [each for each in everything if each.policy == policy and each.module not in left_out]
    done = sorted((each for each in ours if each.status == DONE), key=lambda each: each.module)
    return Summary(
        policy,
        names=tuple(each.module for each in done),
        failures=sum(each.status == FAILED for each in ours),
        illegal_actions=sum(each.illegal_actions for each in ours),
        seconds=math.fsum(each.seconds for each in ours),
        policy_seconds=math.fsum(each.policy_seconds for each in ours),
        decisions=sum(each.decisions for each in ours if each.policy_seconds),
        changes={
            name: Change(tuple(each.measures[name] for each in done), tuple(each.project for each in done))
            for name in measures
        },
    )
