"""The decisions of one compile as a policy, which answers the same places alike."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mlgo_gym.episode.placed_compile import PlacedCompile


class RecordedPolicy:
    """Answers as a compile did where that stood at the same place, and as clang would elsewhere.

    It needs no foretelling of calls, which takes longer than a compile, and stays what it is while a search changes
    decisions around it.

    Args:
        compiled: the compile.
    """

    def __init__(self, compiled: PlacedCompile) -> None:
        self._answers = {decision[:3]: decision.answer for decision in compiled.decisions}

    def act(self, observation: Any, info: Mapping[str, Any]) -> Any:
        """Return what was answered at the place that the info tells: `context`, `visit` and `position`."""
        del observation
        place = info["context"], info["visit"], info["position"]
        return self._answers.get(place, info["default_action"])
