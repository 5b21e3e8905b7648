"""Amalgamations are split into the files that they were made of."""

from __future__ import annotations

import pytest

from mlgo_gym.corpus.datasets.sources import split_amalgamation
from mlgo_gym.errors import CorpusError


def test_an_amalgamation_comes_apart_into_its_files() -> None:
    text = (
        "dropped\n/**** start inlining common/a.c ****/\nbefore\n/**** start inlining a.h ****/\nint a;\n"
        "/**** ended inlining a.h ****/\nafter\n/**** skipping file: ../b.h ****/\n"
        "/**** ended inlining common/a.c ****/\n"
    )
    assert split_amalgamation(text) == {
        "common/a.c": 'before\n#include "a.h"\nafter\n#include "../b.h"\n',
        "common/a.h": "int a;\n",
    }


@pytest.mark.parametrize("text", ["int a;\n", "/**** start inlining a.c ****/\n", "/**** ended inlining a.c ****/\n"])
def test_an_incomplete_amalgamation_is_refused(text: str) -> None:
    with pytest.raises(CorpusError, match="amalgamation"):
        split_amalgamation(text)
