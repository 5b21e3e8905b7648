"""Helpers that the programs of this folder share: command line, tables, JSON files, CPU time, default episodes."""

from __future__ import annotations

import argparse
import json
import re
import resource
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import gymnasium as gym


def command_line(docstring: str | None) -> argparse.ArgumentParser:
    """Return a parser that shows a program's docstring as its help."""
    return argparse.ArgumentParser(description=docstring, formatter_class=argparse.RawDescriptionHelpFormatter)


class Table:
    """A table that is printed row by row.

    Args:
        columns: a format with alignment and width for each title, for instance `{"module": "<30", "seconds": ">8.2f"}`.
    """

    def __init__(self, columns: Mapping[str, str]) -> None:
        self._formats = list(columns.values())
        widths = [re.sub(r"[^<>]*?([<>])\D*(\d+).*", r"\1\2", each) for each in self._formats]
        print("  ".join(f"{title:{width}}" for title, width in zip(columns, widths, strict=True)))

    def row(self, *cells: object) -> None:
        """Print a row."""
        texts = (str(cell) if isinstance(cell, bool) else cell for cell in cells)
        print("  ".join(f"{cell:{each}}" for cell, each in zip(texts, self._formats, strict=True)), flush=True)


def write_json(path: Path | None, value: object) -> None:
    """Write a value as JSON; write nothing if `path` is None."""
    if path is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(value, indent=1) + "\n")


def cpu_seconds() -> float:
    """Return the CPU time of this process and of the children that it has waited for."""
    usages = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


def play_default(env: gym.Env[Any, Any], seed: int | None = None, **options: Any) -> dict[str, Any]:
    """Run one episode with clang's own choices, and return its last info.

    Args:
        env: the environment.
        seed: the seed of `reset()`.
        options: the options of `reset()`, for instance `module`.

    Raises:
        SystemExit: the compile failed.
    """
    _, info = env.reset(seed=seed, options=options or None)
    terminated = False
    while not terminated:
        *_, terminated, truncated, info = env.step(info["default_action"])
        if truncated:
            raise SystemExit(f"{info['module']}: {info['error']['message']}")
    return info
