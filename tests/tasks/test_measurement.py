"""Costs of one compile."""

from __future__ import annotations

import pytest

from mlgo_gym.envs.inline import InlineTask
from mlgo_gym.errors import MlgoError
from mlgo_gym.tasks.measurement import Measurement


def test_a_compile_that_was_ended_early_has_no_size() -> None:
    with pytest.raises(MlgoError, match=r"expected a compile that went to its end for 'text', got one .* ended early"):
        InlineTask().outcome(Measurement(None, {}), "text")
