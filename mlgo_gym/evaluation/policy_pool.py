"""A policy for each episode that runs: what a policy keeps between decisions is that of one episode."""

from __future__ import annotations

import warnings

from mlgo_gym.errors import MlgoWarning
from mlgo_gym.evaluation.contestants import Contestants
from mlgo_gym.policies import Policy, load_policy
from mlgo_gym.policies.batching import is_batched


class PolicyPool:
    """Lends policies to episodes.

    One with a batched form serves any number of episodes. Of others each episode has its own, made by the same
    specification; where that makes no second one, the first serves one episode at a time.

    Args:
        contestants: the environment, and the first of each policy.
    """

    def __init__(self, contestants: Contestants) -> None:
        self._contestants = contestants
        self._known = {name: [policy] for name, policy in contestants.policies.items()}
        self._free = {name: [policy] for name, policy in contestants.policies.items()}
        self._only_one: set[str] = set()

    def take(self, name: str) -> Policy | None:
        """Return a policy for one episode; None while the only one is busy."""
        known, free = self._known[name], self._free[name]
        if is_batched(known[0]):
            return known[0]
        if free:
            return free.pop()
        another = None if name in self._only_one else self._another(name)
        if another is None or any(another is other for other in known):
            self._only_one.add(name)
            return None
        known.append(another)
        return another

    def _another(self, name: str) -> Policy | None:
        spec = self._contestants.settings.policies[name]
        if not isinstance(spec, str):
            return None
        try:
            return load_policy(spec, self._contestants.env, seed=self._contestants.settings.seed)
        except Exception as error:  # noqa: BLE001 - the user's code may allow one only; that one is there
            warnings.warn(
                f"the policy {name} was to be made once more, and one serves one episode at a time now: "
                f"{type(error).__name__}: {error}",
                MlgoWarning,
                stacklevel=2,
            )
            return None

    def give_back(self, name: str, policy: Policy) -> None:
        """Take a policy back at the end of its episode."""
        if not is_batched(policy):
            self._free[name].append(policy)
