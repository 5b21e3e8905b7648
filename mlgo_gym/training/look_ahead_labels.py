"""Labels of decisions by look-ahead: other actions are tried in forks of the compile, with the policy behind them.

This works for every task with discrete actions, such as register allocation. Each fork is one compile and labels one
action; a compile with many flips (`mlgo_gym.training.flip_labels`) labels many inlining decisions.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping
from typing import Any

import numpy as np

from mlgo_gym.env import CompilerEnv
from mlgo_gym.policies.features import flat_part
from mlgo_gym.policies.protocol import Policy
from mlgo_gym.training.labels import ActionLabel, ModuleLabels, action_columns, cpu_seconds


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

    Args:
        env: The environment; its actions are discrete. With `scope="function"` an episode, and so a fork, is one
            function.
        policy: The policy that the labels are taken around.
        module: Name of the module.
        compiles: Maximum number of forks (≥ 1); at least one decision is labelled.
        actions: Maximum number of other actions per decision (≥ 1), drawn at random from the legal ones.
        seconds: CPU time after which no further episode starts.
        seed: Selects the decisions and the actions.

    Returns:
        The labels, with the counts of decisions, compiles and CPU seconds.

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
