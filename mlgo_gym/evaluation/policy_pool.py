"""A policy for each episode that runs: what a policy keeps between decisions is that of one episode."""

from __future__ import annotations

from mlgo_gym.evaluation.episode_runner import EpisodeRunner
from mlgo_gym.policies import BatchedPolicy, Policy, load_policy


class PolicyPool:
    """Lends policies to episodes.

    One with a batched form serves any number of episodes. Of others each episode has its own, made by the same
    specification; where there is only one object, it serves one episode at a time.

    Args:
        runner: the environment, and the first of each policy.
    """

    def __init__(self, runner: EpisodeRunner) -> None:
        self._runner = runner
        self._known = {name: [policy] for name, policy in runner.policies.items()}
        self._free = {name: [policy] for name, policy in runner.policies.items()}

    def take(self, name: str) -> Policy | None:
        """Return a policy for one episode; None while the only one is busy.

        Raises:
            PolicyError: another one cannot be made.
        """
        known, free = self._known[name], self._free[name]
        if isinstance(known[0], BatchedPolicy):
            return known[0]
        if free:
            return free.pop()
        spec = self._runner.settings.policies[name]
        if not isinstance(spec, str):
            return None
        policy = load_policy(spec, self._runner.env, seed=self._runner.settings.seed)
        if any(policy is other for other in known):
            return None
        known.append(policy)
        return policy

    def give_back(self, name: str, policy: Policy) -> None:
        """Take a policy back at the end of its episode."""
        if not isinstance(policy, BatchedPolicy):
            self._free[name].append(policy)
