"""What a policy is: anything that answers one decision at a time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol


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
