"""One line for one error."""

from __future__ import annotations

from collections.abc import Callable

import pytest


def refused(error: type[Exception], message: str, call: Callable[..., object], *arguments: object, **named: object) -> None:
    """Fail unless a call with these arguments raises an error with a message (a regular expression)."""
    with pytest.raises(error, match=message):
        call(*arguments, **named)
