"""Fuzz the readers: `python -m tests.fuzz [FORMAT …] --inputs 1000000 --output runs/fuzz`.

Each format has its own processes, one after the other, of at most 250,000 inputs each: atheris leaks a kilobyte per
comparison of arrays. Coverage guides the inputs where atheris is installed and the reader is Python; elsewhere they are
random changes of real files. The output keeps the corpus that coverage found, and the next run starts with it. A
finding is an input that raises anything but the typed error, takes over a second or 200 MB, or ends the process. The
shortest input of each cause is kept; `--keep` copies it to `tests/fuzz/found`, which the tests read.

The exit status is 1 if there is a finding.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from tests.fuzz.formats import FOLDER, FORMATS, Format, memory
from tests.fuzz.worker import BAD_SEED, FINDS, INPUT, REPORT

FOUND = Path(__file__).parent / "found"
PIECE = 250_000
"""Maximum number of inputs of one process."""

MAX_DEATHS = 20
"""Number of inputs that end the process after which a format is stopped."""


def fuzz(tested: Format, inputs: int, seed: int, output: Path) -> dict[str, Any]:
    """Fuzz one format, and return its report."""
    place = (output / tested.name).absolute()
    (place / FINDS).mkdir(parents=True, exist_ok=True)
    engine = "mutations" if tested.native or find_spec("atheris") is None else "atheris"
    total: dict[str, Any] = {"engine": engine, "seconds": 0.0, "cpu_seconds": 0.0, "findings": {}}
    total |= dict.fromkeys(("inputs", "refused", "ended", "slowest", "grown_mb", "processes", "deaths"), 0)
    while total["inputs"] < inputs and total["deaths"] < MAX_DEATHS:
        piece = min(PIECE, inputs - total["inputs"])
        _run(tested.name, [tested.name, engine, str(piece), str(seed + total["processes"]), str(place)], place, total)
        total["processes"] += 1
    (output / f"{tested.name}.json").write_text(json.dumps(total, indent=1) + "\n")
    return total


def _run(name: str, words: list[str], place: Path, total: dict[str, Any]) -> None:
    """Let one process read inputs, and add its report to the total."""
    for left in (REPORT, INPUT):
        (place / left).unlink(missing_ok=True)
    start = time.monotonic()
    # The folder in memory is removed however the process ends.
    scratch = tempfile.TemporaryDirectory(prefix="mlgo-fuzz-", dir=memory(), ignore_cleanup_errors=True)
    with scratch as folder, (place / "log").open("ab") as log:
        command = [sys.executable, "-m", "tests.fuzz.worker", *words]
        worker = subprocess.run(command, stderr=log, check=False, env={**os.environ, FOLDER: folder})
    report = _take(place, total)
    if worker.returncode == 0:
        total["inputs"] += report["inputs"]
        return
    total["deaths"] += 1
    if worker.returncode == BAD_SEED or not (place / INPUT).exists():
        sys.exit(f"{name}: no input was read; see the end of {place / 'log'}")
    current = (place / INPUT).read_bytes()
    count, size = (int.from_bytes(current[at : at + 8], "little") for at in (0, 8))
    data = current[16 : 16 + size]
    total["inputs"] += count + 1
    total["seconds"] += max(0.0, time.monotonic() - start - report.get("seconds", 0))
    key = f"death-{-worker.returncode}-{hashlib.sha256(data).hexdigest()[:8]}"
    total["findings"][key] = f"the process ended with {worker.returncode}"
    (place / FINDS / key).write_bytes(data)


def _take(place: Path, total: dict[str, Any]) -> dict[str, Any]:
    """Add the report of a process to the total, without its inputs; remove and return the report."""
    report: dict[str, Any] = json.loads((place / REPORT).read_bytes()) if (place / REPORT).exists() else {}
    (place / REPORT).unlink(missing_ok=True)
    for name in ("seconds", "cpu_seconds", "refused", "ended"):
        total[name] += report.get(name, 0)
    for name in ("slowest", "grown_mb"):
        total[name] = max(total[name], report.get(name, 0))
    total["findings"] |= report.get("findings", {})
    return report


def keep(tested: Format, output: Path) -> None:
    """Copy the findings to the inputs of the tests."""
    for path in sorted((output / tested.name / FINDS).iterdir()):
        folder = FOUND / tested.name
        folder.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, folder / hashlib.sha256(path.read_bytes()).hexdigest()[:12])


def main() -> None:
    """Fuzz the formats, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("formats", nargs="*", metavar="FORMAT", help=f"one of {', '.join(FORMATS)}; default: all")
    parser.add_argument("--inputs", type=int, default=20_000, help="number of inputs per format")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--output", type=Path, default=Path("runs/fuzz"))
    parser.add_argument("--keep", action="store_true")
    arguments = parser.parse_args()
    unknown = sorted(set(arguments.formats) - set(FORMATS))
    if unknown:
        parser.error(f"expected one of {', '.join(FORMATS)}, got {unknown[0]!r}")
    print(f"{'format':22} {'engine':>9} {'inputs':>9} {'CPU':>9} {'refused':>7} {'slowest':>8} {'grown':>7}  findings")
    failed = False
    for name in arguments.formats or FORMATS:
        tested = FORMATS[name]
        missing = [module for module in tested.needs if find_spec(module) is None]
        if missing:
            print(f"{name:22} skipped: {', '.join(missing)} is not installed", flush=True)
            continue
        total = fuzz(tested, arguments.inputs, arguments.seed, arguments.output)
        share = total["refused"] / max(total["inputs"], 1)
        print(
            f"{name:22} {total['engine']:>9} {total['inputs']:>9} {total['cpu_seconds']:>7.0f} s {share:>7.0%} "
            f"{total['slowest']:>6.3f} s {total['grown_mb']:>4.0f} MB  {len(total['findings'])}",
            flush=True,
        )
        for finding in total["findings"].values():
            print(f"    {finding}", flush=True)
        if arguments.keep:
            keep(tested, arguments.output)
        failed = failed or bool(total["findings"])
    sys.exit(failed)


if __name__ == "__main__":
    main()
