"""What the programs of this folder share: command lines, tables, JSON files, CPU time, statistics, resumable work."""

from __future__ import annotations

import argparse
import datetime
import hashlib
import json
import re
import resource
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import gymnasium as gym

from mlgo_clang.files import write_atomically
from mlgo_gym.errors import MlgoError
from mlgo_gym.evaluation.statistics import Change
from mlgo_gym.policies.protocol import run_episode
from mlgo_gym.policies.rules import RuleText
from mlgo_gym.storage.json_files import JsonLines, read_json_lines

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "docs" / "results"
MEASURED = RESULTS / "measured.json"
"""Command, tables, days of the oldest and the newest row, and digest of the bundled rule, by file of results; figures
without a file are last."""

SOURCES = Path(__file__).parent / "sources"

Pairs = Sequence[tuple[float, float]]
"""Value and baseline of each module."""

Sizes = dict[str, tuple[float, float]]
"""Bytes of each module, and bytes by plain clang."""


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
        widths = [re.sub(r"[^<>]*?([<>])\D*(\d+).*", r"\1\2", column) for column in self._formats]
        print("  ".join(f"{title:{width}}" for title, width in zip(columns, widths, strict=True)))

    def row(self, *cells: object) -> None:
        """Print a row."""
        texts = (str(cell) if isinstance(cell, bool) else cell for cell in cells)
        print("  ".join(f"{cell:{form}}" for cell, form in zip(texts, self._formats, strict=True)), flush=True)


def read_json(path: Path, missing: Any) -> Any:
    """Return the content of a JSON file; `missing` if there is none."""
    return json.loads(path.read_bytes()) if path.exists() else missing


def write_json(path: Path, value: object) -> None:
    """Write a value as JSON."""
    write_result(path, json.dumps(value, indent=1) + "\n")


def rule_digest() -> str:
    """Return the start of the SHA-256 of the condition of `last-call`."""
    rule = RuleText.load(ROOT / "mlgo_gym" / "policies" / "bundled" / "last-call.rule")
    return hashlib.sha256(rule.text.encode()).hexdigest()[:8]


def write_result(path: Path, text: str) -> None:
    """Write a file of results; below docs/results, note the day and the rule in `measured.json`."""
    write_atomically(str(path), text.encode())
    if path.parent == RESULTS:
        today = datetime.date.today().isoformat()
        new = {"command": f"python -m benchmarks.{Path(sys.argv[0]).stem}", "tables": [], "oldest": today}
        notes = read_json(MEASURED, {})
        notes[path.stem] = {**notes.get(path.stem, new), "newest": today, "rule": rule_digest()}
        write_atomically(str(MEASURED), (json.dumps(notes, indent=1) + "\n").encode())


def cpu_seconds(processes: Sequence[int] = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)) -> float:
    """Return the CPU time of this process and of the children that it has waited for, or of one of the two."""
    usages = [resource.getrusage(who) for who in processes]
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


def facts(pairs: Pairs, projects: Sequence[str] = ()) -> dict[str, Any]:
    """Return counts of modules, relative changes, and the 95 % interval of the geometric mean.

    Args:
        pairs: value and baseline of each module.
        projects: project of each module; means weigh projects equally. Default: each module is one.
    """
    change = Change(tuple(pairs), tuple(projects))
    counts = {"modules": len(pairs), "projects": change.projects, "better": change.better, "worse": change.worse}
    return {**counts, "mean": change.mean, "interval": change.estimate.interval, "total": change.total}


def play_default(env: gym.Env[Any, Any], **options: Any) -> dict[str, Any]:
    """Run one episode with clang's own choices, and return its last info; a failed compile raises SystemExit.

    The options are those of `reset()`, for instance `module`.
    """
    info = run_episode(env, lambda _, info: info["default_action"], options=options)
    if info.get("error"):
        raise SystemExit(f"{info['module']}: {info['error']['message']}")
    return info


def own_decisions(env: gym.Env[Any, Any], module: str) -> Iterator[tuple[Any, dict[str, Any]]]:
    """Run one episode with clang's own choices; yield observation and info at each decision.

    After a failed compile the environment has no pending decision, so the next step raises `ActionError`.
    """
    observation, info = env.reset(options={"module": module})
    terminated = False
    while not terminated:
        yield observation, info
        observation, _, terminated, _, info = env.step(info.get("default_action", 0))


class CheckedModules(JsonLines):
    """Checks of modules that can be interrupted: the result of each is appended to a file of JSON lines.

    Args:
        path: the file; created if it does not exist.
    """

    _KEY = ("environment", "corpus", "module", "clang")

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._done = {tuple(entry[name] for name in self._KEY) for _, entry in read_json_lines(path)}
        super().__init__(path)

    def check(self, environment: str, corpus: str, module: str, clang: str, find: Callable[[], dict[str, Any]]) -> None:
        """Call `find` and write its result, or its error, unless the file has this module."""
        key = (environment, corpus, module, clang)
        if key in self._done:
            return
        try:
            entry = find()
        except MlgoError as error:
            entry = {"error": str(error)[:300]}
        self.append({**dict(zip(self._KEY, key, strict=True)), **entry})
        print(*key, entry, flush=True)
