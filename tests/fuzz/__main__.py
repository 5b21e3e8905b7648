"""Fuzz the readers with atheris: `python -m tests.fuzz [FORMAT …] --inputs 1000000 --output runs/fuzz`.

Each format has its own processes, one after the other, of at most 250,000 inputs each: atheris leaks a kilobyte per
comparison of arrays. The output keeps the corpus that coverage found, and the next run starts with it.

A finding is an input that raises anything but the typed error, takes over a second or 200 MB, or ends the process. It
ends the fuzzing of its format, and its path is printed. `python -m tests.fuzz.worker FORMAT PATH` reads it alone. The
tests read all files in `tests/fuzz/found/FORMAT`.

The exit status is 1 if there is a finding.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from importlib.util import find_spec
from pathlib import Path

from tests.fuzz.formats import FORMATS, FOUND, INPUT, Format

PIECE = 250_000
"""Maximum number of inputs of one process."""


def fuzz(fuzzed: Format, inputs: int, seed: int, output: Path) -> Path | None:
    """Fuzz a format, and print a line; return the path of a finding."""
    place = (output / fuzzed.name).absolute()
    corpus, seeds, findings = folders = [place / name for name in ("corpus", "seeds", "findings")]
    for folder in folders:
        folder.mkdir(parents=True, exist_ok=True)
    for number, data in enumerate(fuzzed.seeds()):
        (seeds / str(number)).write_bytes(data)
    tokens = ('"' + "".join(f"\\x{byte:02x}" for byte in token) + '"\n' for token in fuzzed.tokens)
    (place / "tokens").write_text("".join(["\n", *tokens]))  # libFuzzer refuses an empty file
    corpora = [str(folder) for folder in (corpus, seeds, FOUND / fuzzed.name) if folder.exists()]
    options = [f"-dict={place / 'tokens'}", "-timeout=60", "-keep_seed=1"]
    start = time.monotonic()
    for first in range(0, inputs, PIECE):
        # The folder is removed however the process ends.
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as scratch, (place / "log").open("wb") as log:
            pace = [f"-runs={min(PIECE, inputs - first)}", f"-seed={seed and seed + first}"]
            command = [sys.executable, "-m", "tests.fuzz.worker", fuzzed.name, *corpora, *options, *pace]
            command.append(f"-artifact_prefix={scratch}/")
            environment = {**os.environ, "TMPDIR": scratch}
            if subprocess.run(command, stderr=log, check=False, env=environment).returncode:
                finding = findings / f"{time.time_ns()}"
                shutil.copy(Path(scratch, INPUT), finding)
                print(f"{fuzzed.name:22} {finding}", flush=True)
                return finding
    print(f"{fuzzed.name:22} {inputs:>9} inputs in {time.monotonic() - start:.0f} s", flush=True)
    return None


def main() -> None:
    """Fuzz the formats, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("formats", nargs="*", metavar="FORMAT", help=f"one of {', '.join(FORMATS)}; default: all")
    parser.add_argument("--inputs", type=int, default=20_000, help="number of inputs per format (≥ 1)")
    parser.add_argument("--seed", type=int, default=0, help="seed of the mutations (≥ 0); 0: another one each time")
    parser.add_argument("--output", type=Path, default=Path("runs/fuzz"))
    arguments = parser.parse_args()
    if unknown := sorted(set(arguments.formats) - set(FORMATS)):
        parser.error(f"expected one of {', '.join(FORMATS)}, got {unknown[0]!r}")
    if arguments.inputs < 1 or arguments.seed < 0:
        parser.error(f"expected --inputs ≥ 1 and --seed ≥ 0, got {arguments.inputs} and {arguments.seed}")
    if find_spec("atheris") is None:
        parser.error("expected atheris, got a Python without it; pip install 'mlgo-gym[fuzz]'")
    tested = [FORMATS[name] for name in arguments.formats or FORMATS]
    findings = [fuzz(fuzzed, arguments.inputs, arguments.seed, arguments.output) for fuzzed in tested]
    sys.exit(any(findings))


if __name__ == "__main__":
    main()
