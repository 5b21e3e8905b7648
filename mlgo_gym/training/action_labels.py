"""Labels of the actions of decisions other than inlining.

By flips of evictions: one compile takes another action at one decision of every function. Registers are allocated
function by function, so the price of each function is the exact effect of its flip.

By look-ahead, for every task with discrete actions: other actions are tried in forks of the compile, with the policy
behind them. Each fork is one compile and labels one action.
"""

from __future__ import annotations

import math
import sys
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from mlgo_gym.compiler.decision import Decision, DecisionSite
from mlgo_gym.env import CompilerEnv
from mlgo_gym.episode.allocation_compile import AllocationCompile, Eviction, legal_answer, run_allocation_compile
from mlgo_gym.errors import MlgoError
from mlgo_gym.policies.features import flat_part
from mlgo_gym.policies.protocol import Policy
from mlgo_gym.tasks.infos import decision_info
from mlgo_gym.training.labels import ActionLabel, ModuleLabels, action_columns, cpu_seconds

MAX_PER_FUNCTION = 400
"""Maximum number of tried actions per function."""

_LEFT_ALONE = 0.3
"""Share of the flips that evict nothing, where that is legal."""


def label_evictions(
    env: CompilerEnv,
    policy: Policy,
    module: str,
    *,
    compiles: int = 40,
    seconds: float = math.inf,
    seed: int = 0,
) -> ModuleLabels:
    """Label evictions of a module around a policy.

    The policy compiles the module once. In each further compile one decision of every function is flipped: another
    legal column is chosen at random, and the policy decides behind it. Where the policy deviates from clang's own
    choice, the flip takes clang's choice first.

    The metric of the environment is `estimated-instructions`. At most `compiles` compiles have flips, and none starts
    after `seconds` of CPU time. The counts are decisions, compiles, failed compiles, tried actions (`flips`) and CPU
    seconds.

    Raises:
        CompilerError: the compile under the policy failed.
        MlgoError: the object cannot be measured.
    """
    work = _Labelling(env, policy, module, np.random.default_rng([seed, *module.encode(errors="surrogateescape")]))
    started, done = cpu_seconds(), 0
    while done < compiles and cpu_seconds() - started < seconds and work.flip():
        done += 1
    return work.labels({"compiles": done + 1, "seconds": cpu_seconds() - started})


class _Labelling:
    def __init__(self, env: CompilerEnv, policy: Policy, module: str, chance: np.random.Generator) -> None:
        self._env, self._task, self._policy, self._module, self._chance = env, env.task, policy, module, chance
        self._compilation = env.compilation(env.corpus.module(module))
        self._known: Mapping[str, list[Eviction]] = {}
        self._unflipped = self._compile({})
        self._known = self._unflipped.functions
        self._size = int(env.action_space.n)  # type: ignore[attr-defined]
        self._counts = Counter(decisions=sum(map(len, self._known.values())), flips=0, failed=0)
        self._labels: dict[DecisionSite, ActionLabel] = {}
        self._waiting = {
            name: self._flips(evictions) for name, evictions in self._known.items() if self._price(name) > 0
        }

    def _price(self, function: str) -> float:
        return self._unflipped.costs.get(function, 0.0) * self._unflipped.entries.get(function, 0.0)

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
                observation, default = flat_part(self._task.observe(decision)), int(self._task.default_action(decision))
                self._labels[decision.site] = ActionLabel(observation, name, index, answer, costs, default)
            self._labels[decision.site].costs[column] = self._unflipped.change(name, compiled)
            self._counts["flips"] += 1
        return True

    def labels(self, counts: Mapping[str, float]) -> ModuleLabels:
        """Return the labels in the order of the decisions, and the counts."""
        labels = [self._labels[site] for site in sorted(self._labels)]
        columns = action_columns(self._env.feature_names, labels, self._unflipped.cost, self._counts["decisions"])
        if labels:
            columns["default"] = np.array([label.default for label in labels])
            columns["price"] = np.array([self._price(label.context) for label in labels])
        return ModuleLabels(columns, {**self._counts, **counts})


def label_by_look_ahead(
    env: CompilerEnv,
    policy: Policy,
    module: str,
    *,
    compiles: int = 40,
    actions: int = 4,
    seconds: float = math.inf,
    seed: int = 0,
) -> ModuleLabels:
    """Label decisions of a module around a policy, drawn at random from all.

    The cost of an action is the reward of the episode under the policy minus the reward with that action at this
    decision and the policy everywhere else.

    The actions of the environment are discrete. With `scope="function"` an episode, and so a fork, is one function. At
    most `compiles` forks run, but at least one decision is labelled, and no episode starts after `seconds` of CPU time.
    At most `actions` other legal actions per decision are tried. The counts are decisions, compiles and CPU seconds.

    Raises:
        CompilerError: the compile under the policy failed.
    """
    chance = np.random.default_rng([seed, *module.encode(errors="surrogateescape")])
    contexts = env.decisions(env.corpus.module(module))
    decisions = sum(contexts.values())
    episodes = contexts if env.setup.options.scope == "function" else {None: decisions}
    sites = [(function, index) for function, count in episodes.items() for index in range(count)]
    drawn: dict[str | None, set[int]] = defaultdict(set)
    for number in chance.permutation(len(sites))[: max(1, compiles // actions)]:
        function, index = sites[number]
        drawn[function].add(index)
    started, forks = cpu_seconds(), 0
    labels: list[ActionLabel] = []
    for function, indices in drawn.items():
        if cpu_seconds() - started >= seconds:
            break
        options = {"module": module} | ({} if function is None else {"function": function})
        episode = _label_episode(env, policy, options, indices, actions, chance)
        forks += sum(int(np.isfinite(label.costs).sum()) - 1 for label in episode)
        labels += episode
    counts = {"decisions": decisions, "compiles": forks, "seconds": cpu_seconds() - started}
    return ModuleLabels(action_columns(env.feature_names, labels, 1.0, decisions), counts)


def _label_episode(
    env: CompilerEnv,
    policy: Policy,
    options: dict[str, Any],
    indices: set[int],
    actions: int,
    chance: np.random.Generator,
) -> list[ActionLabel]:
    """Return the labels of one episode of the policy; none if it fails."""
    observation, info = env.reset(options=options)
    labels: list[ActionLabel] = []
    index, reward, over = 0, 0.0, False
    while not over:
        answer = _legal_action(policy, observation, info)
        if index in indices:
            mask = np.asarray(env.action_masks(), np.bool_)
            others = np.flatnonzero(mask & (np.arange(len(mask)) != answer))
            tried = others if len(others) <= actions else np.sort(chance.choice(others, actions, replace=False))
            rewards = np.where(mask, np.nan, -np.inf)
            rewards[tried] = [_rollout(env, policy, int(action)) for action in tried]
            context = str(info.get("context", ""))
            labels.append(ActionLabel(flat_part(observation).copy(), context, index, answer, -rewards))
        observation, reward, terminated, truncated, info = env.step(answer)
        over = terminated or truncated
        index += 1
    if info["error"]:
        return []
    for label in labels:
        label.costs[:] += float(reward)
        label.costs[label.answer] = 0.0
    return labels


def _rollout(env: CompilerEnv, policy: Policy, action: int) -> float:
    """Return the reward of the episode with an action at this decision and the policy behind it; NaN if it fails."""
    fork = env.fork()
    try:
        observation, reward, terminated, truncated, info = fork.step(action)
        while not (terminated or truncated):
            observation, reward, terminated, truncated, info = fork.step(_legal_action(policy, observation, info))
    finally:
        fork.close()
    return math.nan if info["error"] else float(reward)


def _legal_action(policy: Policy, observation: Any, info: Mapping[str, Any]) -> int:
    action, mask = int(policy.act(observation, info)), info.get("action_mask")
    return action if mask is None or mask[action] else int(info["default_action"])
