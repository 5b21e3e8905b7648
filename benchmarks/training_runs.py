"""Training runs that are kept in a JSON file: a program that is started again does only those that the file lacks."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from benchmarks.measuring import write_json
from mlgo_gym.scheduling import Execution, ItemQueue, SequentialRunner, WorkerFailure

Run = tuple[str, int]
"""A setting that is compared, and a seed."""

Start = Callable[[int], SequentialRunner[Run, dict[str, Any]]]


def complete_runs(
    path: Path | None, settings: dict[str, Any], names: tuple[str, str], runs: Sequence[Run], start: Start, jobs: int
) -> list[dict[str, Any]]:
    """Do the runs that a file lacks, write each as it ends, and return all.

    Args:
        path: the JSON file; None keeps nothing.
        settings: settings of all runs, which the file contains.
        names: names of the two parts of a run, by which the file has them.
        runs: the runs to do.
        start: makes a runner, for a worker.
        jobs: number of processes.

    Raises:
        SystemExit: the file has runs with other settings, or a worker died.
    """
    settings = json.loads(json.dumps(settings))
    exists = path is not None and path.exists()
    data: dict[str, Any] = json.loads(path.read_text()) if path is not None and exists else {**settings, "runs": []}
    differing = [name for name, value in settings.items() if data.get(name) != value]
    if differing:
        raise SystemExit(f"expected the settings of {path}, got another {', '.join(differing)}; choose another file")
    done = {tuple(run[name] for name in names) for run in data["runs"]}
    with Execution(jobs).workers(start) as workers:
        for run, result in workers.run(ItemQueue([run for run in runs if run not in done])):
            if isinstance(result, WorkerFailure):
                raise SystemExit(f"the process of run {run} died: {result.how}")
            data["runs"].append({**dict(zip(names, run, strict=True)), **result})
            write_json(path, data)
    found: list[dict[str, Any]] = data["runs"]
    return found
