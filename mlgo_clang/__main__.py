"""Entry points: `python -m mlgo_clang` is `mlgo-clang`."""

from __future__ import annotations

import sys

from mlgo_clang.driver import run


def c() -> int:
    """Run `mlgo-clang`, for C."""
    return run("gcc", sys.argv[1:])


def cxx() -> int:
    """Run `mlgo-clang++`, for C++."""
    return run("g++", sys.argv[1:])


if __name__ == "__main__":
    sys.exit(c())
