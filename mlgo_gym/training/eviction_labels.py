"""Labels of evictions: the change of the module's cost with another action, for many decisions of few compiles.

One compile takes another action at one decision of every function. Registers are allocated function by function, so the
price of each function is the exact effect of its flip.
"""

from __future__ import annotations

import math
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from mlgo_gym.compiler.decision import Decision, DecisionSite
from mlgo_gym.env import CompilerEnv
from mlgo_gym.episode.allocation_compile import AllocationCompile, Eviction, legal_answer, run_allocation_compile
from mlgo_gym.errors import MlgoError
from mlgo_gym.policies.features import flat_part
from mlgo_gym.policies.protocol import Policy
from mlgo_gym.tasks.infos import decision_info
from mlgo_gym.training.labels import ModuleLabels, cpu_seconds

MAX_PER_FUNCTION = 400
"""Maximum number of tried actions per function."""

_LEFT_ALONE = 0.3
"""Share of the flips that evict nothing, where that is legal."""


def label_evictions(
    env: CompilerEnv, policy: Policy, module: str, *, compiles: int = 40, seconds: float = math.inf, seed: int = 0
) -> ModuleLabels:
    """Label evictions of a module around a policy.

    The policy compiles the module once. In each further compile one decision of every function is flipped: another
    legal column is chosen at random, and the policy decides behind it. Where the policy deviates from clang's own
    choice, the flip takes clang's choice first.

    The metric of the environment is a sum over functions (`can_split()`). At most `compiles` compiles have flips, and
    none starts after `seconds` of CPU time. The counts are decisions, compiles, failed compiles, tried actions
    (`flips`) and CPU seconds.

    Raises:
        CompilerError: the compile under the policy failed.
        MlgoError: the object cannot be measured.
    """
    work = _Labelling(env, policy, module, np.random.default_rng([seed, *module.encode(errors="surrogateescape")]))
    started, done = cpu_seconds(), 0
    while done < compiles and cpu_seconds() - started < seconds and work.flip():
        done += 1
    return work.labels({"compiles": done + 1, "seconds": cpu_seconds() - started})


class _Label(NamedTuple):
    decision: Decision
    answer: int
    costs: npt.NDArray[np.float64]  # a row of `Labels.costs`


class _Labelling:
    def __init__(self, env: CompilerEnv, policy: Policy, module: str, chance: np.random.Generator) -> None:
        self._env, self._task, self._policy, self._module, self._chance = env, env.task, policy, module, chance
        self._compilation = env.compilation(env.corpus.module(module))
        self._known: Mapping[str, list[Eviction]] = {}
        self._unflipped = self._compile({})
        self._known = self._unflipped.functions
        self._size = int(env.action_space.n)  # type: ignore[attr-defined]  # Discrete, as its task says
        self._counts = Counter(decisions=sum(map(len, self._known.values())), flips=0, failed=0)
        self._labels: dict[DecisionSite, _Label] = {}
        self._waiting = {
            name: self._flips(evictions) for name, evictions in self._known.items() if self._price(name) > 0
        }

    def _price(self, function: str) -> float:
        return self._unflipped.costs.get(function, 0.0) * self._unflipped.entries.get(function, 1.0)

    def _flips(self, evictions: Sequence[Eviction]) -> list[tuple[int, int]]:
        """Return the flips of a function, each a decision and a column, in the reverse of the order of trial."""
        preferred, others, nothing = [], [], []
        seen = set()
        for index, (decision, answer, columns) in enumerate(evictions):
            if decision.payload in seen:
                continue
            seen.add(decision.payload)
            default = int(self._task.default_action(decision))
            legal = [column for column in columns if column != answer]
            if default != answer:
                preferred.append((index, default))
                legal.remove(default)
            if legal and legal[-1] == self._size - 1:
                nothing.append((index, legal.pop()))
            # A second decision tells more than a third column of the first.
            others += [(index, int(column)) for column in self._chance.permutation(legal)[:2]]
        for part in (preferred, others, nothing):
            self._chance.shuffle(part)
        others, nothing = others[:MAX_PER_FUNCTION], nothing[:MAX_PER_FUNCTION]
        ordered = []
        while others or nothing:
            takes_nothing = bool(nothing) and (not others or self._chance.random() < _LEFT_ALONE)
            ordered.append((nothing if takes_nothing else others).pop())
        return [*reversed(ordered), *preferred]

    def _compile(self, flips: Mapping[str, tuple[int, int]]) -> AllocationCompile:
        """Compile the module with a flip, a decision and a column, in some functions."""
        task = self._task

        def choose(decision: Decision, number: int) -> int:
            context, _, index = decision.site
            flipped, column = flips.get(context, (sys.maxsize, -1))
            if index == flipped:
                return column
            known = self._known.get(context, ())
            # No decision before the flip changes.
            if index < min(flipped, len(known)):
                return known[index].answer
            info = decision_info(task, decision, self._module, number)
            return legal_answer(task, decision, self._policy.act(task.observe(decision), info))

        return run_allocation_compile(self._env.setup, self._compilation, choose)

    def flip(self) -> bool:
        """Make one compile with a flip in every function that has one left; return whether any has."""
        flips = {name: waiting.pop() for name, waiting in self._waiting.items() if waiting}
        if not flips:
            return False
        try:
            compiled = self._compile(flips)
        except MlgoError:
            self._counts["failed"] += 1
            return True
        for name, (index, column) in flips.items():
            decision, answer, legal = self._known[name][index]
            if decision.site not in self._labels:
                costs = np.full(self._size, np.inf)
                costs[list(legal)] = np.nan
                costs[answer] = 0.0
                self._labels[decision.site] = _Label(decision, answer, costs)
            self._labels[decision.site].costs[column] = self._unflipped.change(name, compiled)
            self._counts["flips"] += 1
        return True

    def labels(self, counts: Mapping[str, float]) -> ModuleLabels:
        """Return the labels in the order of the decisions, and the counts."""
        all_counts = {**self._counts, **counts}
        labels = [self._labels[site] for site in sorted(self._labels)]
        if not labels:
            return ModuleLabels({}, all_counts)
        rows = np.stack([flat_part(self._task.observe(label.decision)) for label in labels])
        columns: dict[str, Any] = {}
        # The features `NAME[0]`, `NAME[1]`, … become one column of lists.
        names = self._env.feature_names
        for name, places in groupby(range(len(names)), lambda place: names[place].partition("[")[0]):
            values = rows[:, list(places)]
            columns[name] = values[:, 0] if values.shape[1] == 1 else list(values)
        columns |= {
            "answer": np.array([label.answer for label in labels]),
            "costs": [label.costs for label in labels],
            "text": np.full(len(labels), self._unflipped.cost),
            "decisions": np.full(len(labels), self._counts["decisions"]),
            "context": [label.decision.context for label in labels],
            "position": np.array([label.decision.site.index for label in labels]),
            "default": np.array([int(self._task.default_action(label.decision)) for label in labels]),
            "price": np.array([self._price(label.decision.context) for label in labels]),
        }
        return ModuleLabels(columns, all_counts)
