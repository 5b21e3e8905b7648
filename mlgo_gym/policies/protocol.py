"""The interface of policies, and how a policy fits an environment: its features by name, its outputs as actions.

By LLVM's rule for versions of models, a policy may use fewer features than the compiler computes. A policy that needs a
feature that the compiler lacks is refused.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import gymnasium as gym
import numpy as np

from mlgo_gym.compiler.callee_features import uses_callee_features
from mlgo_gym.compiler.decision import Decision
from mlgo_gym.compiler.decision_code import EDGE_COLUMNS
from mlgo_gym.env import CompilerEnv
from mlgo_gym.errors import MlgoError, PolicyError
from mlgo_gym.llvm.advisors import Advisor
from mlgo_gym.policies.network import Floats, feature_columns
from mlgo_gym.tasks.infos import decision_info
from mlgo_gym.tasks.task import Task


class Policy(Protocol):
    """Makes the decisions of an environment, one after the other.

    A policy with a state resets it where `info["decision_index"]` is 0, at the first decision of an episode.
    """

    def act(self, observation: Any, info: Mapping[str, Any]) -> Any:
        """Return the action for a decision, an element of the environment's action space.

        Args:
            observation: the observation of the environment's `reset()` or `step()`.
            info: its info, with `module`, `context` (the function, for register allocation), `decision_index` (the
                decision's number in the episode, from 0), `default_action` (clang's own choice), and `action_mask` if
                the task has one. With `ir=True` or `observation="graph"`, `code` is the `PendingCode` of an inlining
                decision: `info["code"].ir()` and `info["code"].call_graph()`.
        """


def decide(policy: Policy, task: Task, decision: Decision, module: str, index: int) -> Any:
    """Return a policy's action at the decision with an index of a compile outside an environment."""
    return policy.act(task.observe(decision), decision_info(task, decision, module, index))


def run_episode(
    env: gym.Env[Any, Any], choose: Callable[[Any, Mapping[str, Any]], Any], **reset: Any
) -> dict[str, Any]:
    """Run an episode whose actions `choose` returns, and return the last info."""
    observation, info = env.reset(**reset)
    over = False
    while not over:
        observation, _, terminated, truncated, info = env.step(choose(observation, info))
        over = terminated or truncated
    return info


MASK = "action_mask"

Chooser = Callable[[Floats, Any], Any]
"""Takes outputs of shape (outputs,) and the action mask or None, and returns an action."""


def feature_vector(policy: str, env: CompilerEnv, names: Sequence[str]) -> Callable[[Any], Floats]:
    """Return a function from an observation of any form to some of its features, float32 of shape (names,).

    The names are those of `feature_names`, `action_mask[0]`, `action_mask[1]`, … for the mask, and in `mlgo/Joint-v0`
    `task_inlining` and so on for the kind of decision.

    Raises:
        PolicyError: the environment lacks some of the features.
    """
    missing = [name for name in names if name not in env.feature_names]
    if uses_callee_features(missing):
        raise PolicyError(
            f"{policy} needs callee features, which this environment does not compute; make it with "
            "callee_features=True"
        )
    space = env.observation_space
    uses_mask = any(name.startswith(f"{MASK}[") for name in missing)
    mask = [f"{MASK}[{action}]" for action in range(mask_size(env))] if uses_mask else []
    joint = missing and isinstance(space, gym.spaces.Dict) and "task" in space.spaces
    kinds = [f"task_{advisor.name}" for advisor in env.task.advisors] if joint else []
    try:
        columns = feature_columns(f"the policy {policy!r}", names, [*mask, *kinds, *env.feature_names])
    except MlgoError as error:
        raise PolicyError(str(error)) from None
    if mask or kinds:
        one_hot = np.eye(len(kinds), dtype=np.float32)

        def joined(observation: Any) -> Floats:
            parts = [observation[MASK]] if mask else []
            parts += [one_hot[observation["task"]]] if kinds else []
            vector: Floats = np.concatenate([*parts, observation["observations"]])
            return vector[columns]

        return joined
    if np.array_equal(columns, np.arange(len(env.feature_names))):
        return flat_part
    return lambda observation: flat_part(observation)[columns]


def mask_size(env: CompilerEnv) -> int:
    """Return the length of the action mask in observations; 0 without one."""
    space = env.observation_space
    return len(space[MASK].sample()) if isinstance(space, gym.spaces.Dict) and MASK in space.spaces else 0


def flat_part(observation: Any) -> Floats:
    """Return the flat vector of an observation that may also have an action mask, or is a call graph."""
    if isinstance(observation, gym.spaces.GraphInstance):
        observation = observation.edges[0, len(EDGE_COLUMNS) :]  # type: ignore[index] # such graphs have edges
    vector: Floats = observation["observations"] if isinstance(observation, dict) else observation
    return vector


def misfit(policy: str, needed: str, actual: str) -> PolicyError:
    """Return the error of a policy that does not fit an environment."""
    return PolicyError(
        f"the policy {policy!r} needs an environment with {needed}, got one with {actual}; use another policy, for "
        "instance `default` or `random`, which fit every environment"
    )


def check_binary(policy: str, env: CompilerEnv) -> None:
    """Raise a PolicyError unless the actions of an environment are 0 and 1."""
    space = env.action_space
    if not (isinstance(space, gym.spaces.Discrete) and space.n == 2 and space.start == 0):
        raise misfit(policy, "the actions 0 and 1", f"the actions {space}")


def check_advisor(policy: str, env: CompilerEnv, advisor: Advisor) -> None:
    """Raise a PolicyError unless the decisions of an environment are those of one advisor."""
    if env.task.advisors != (advisor,):
        names = " and ".join(other.name for other in env.task.advisors)
        raise misfit(policy, f"decisions on {advisor.name}", f"decisions on {names}")


def chooser(policy: str, env: CompilerEnv, outputs: int) -> Chooser:
    """Return a function from a model's outputs to an action.

    | action space | outputs | action |
    |---|---|---|
    | `Discrete(n)` | n | index of the largest legal output |
    | `Discrete(2)` | 1 | 1 if the output is above 0 |
    | `Box` of shape (n,) | n | the outputs, clipped to the bounds |

    Raises:
        PolicyError: the action space needs another number of outputs.
    """
    space = env.action_space
    if isinstance(space, gym.spaces.Discrete) and space.start == 0:
        if outputs == 1 and space.n == 2:
            return lambda values, _mask: int(values[0] > 0)
        if outputs == space.n:
            return lambda values, mask: int((values if mask is None else np.where(mask, values, -np.inf)).argmax())
    if isinstance(space, gym.spaces.Box) and space.shape == (outputs,):
        low, high, dtype = space.low, space.high, space.dtype
        return lambda values, _mask: np.clip(values, low, high).astype(dtype)
    raise misfit(policy, f"actions for its {outputs} outputs", f"the actions {space}")
