"""The policy `default`: what clang itself would do."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


class DefaultPolicy:
    """Takes clang's own choice at every decision."""

    def act(self, observation: Any, info: Mapping[str, Any]) -> Any:  # noqa: ARG002 - the interface of a policy
        """Return `info["default_action"]`."""
        return info["default_action"]
