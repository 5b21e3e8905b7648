"""What a policy is: anything that answers one decision at a time, and perhaps several at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, runtime_checkable


class Policy(Protocol):
    """Answers the decisions of an environment, one after the other.

    A policy that keeps something between decisions starts afresh where `info["decision"]` is 0: that is the first
    decision of an episode.
    """

    def act(self, observation: Any, info: Mapping[str, Any]) -> Any:
        """Return the action for a decision, an element of the environment's action space.

        Args:
            observation: what the environment's `reset()` or `step()` returned.
            info: what came with it: `module`, `context` (the function, for register allocation), `decision` (the
                number of the decision, from 0), `default_action` (clang's own choice), and `action_mask` where the
                task has one.
        """


@runtime_checkable
class BatchedPolicy(Policy, Protocol):
    """A policy that also answers decisions of several episodes at once, faster than one by one.

    Where episodes run at the same time, a policy of this kind must tell them apart by itself if it keeps something
    between decisions; of others there is one for each episode.
    """

    def act_batch(self, observations: Any, infos: Sequence[Mapping[str, Any]]) -> Sequence[Any]:
        """Return an action for each decision.

        Args:
            observations: those of the decisions, in the form of a vector environment: an array with one row for each,
                or a dictionary of such arrays.
            infos: what came with each.
        """
