"""Size of the firmware example by level and policy, with its output in qemu; writes docs/results/firmware.json.

    python -m benchmarks.firmware

Each build is `make` with `mlgo-clang` in a folder of its own. All builds must print the same in `qemu-system-arm`.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.measuring import Table, command_line, write_json
from mlgo_gym.llvm.function_sizes import function_sizes

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "docs" / "results" / "firmware.json"

BUILDS = {
    "plain clang": "--mlgo-policy=default",
    "fast bundled policy": "--mlgo-policy=inline-fast",
    "bundled policy": "--mlgo-policy={level}",
    "smallest of four": "--mlgo-policy=smallest",
    "search, 50 compiles": "--mlgo-policy=default --mlgo-recipes=recipes --mlgo-search=50",
}
"""Options of `mlgo-clang` by build."""


def build(options: str, level: str, folder: Path) -> dict[str, Any]:
    """Build and run the example in a folder; return the bytes of its functions and its output."""
    shutil.copytree(ROOT / "examples" / "firmware", folder)
    wrapper = Path(sys.executable).with_name("mlgo-clang")
    policy = options.format(level=f"inline-{level.lower()}")
    command = ["make", f"CC={wrapper} --mlgo-strict {policy}", f"CFLAGS=-{level}"]
    subprocess.run(command, cwd=folder, check=True, stdout=subprocess.DEVNULL)
    size = sum(function_sizes((folder / "firmware.elf").read_bytes()).functions.values())
    ran = subprocess.run([*command, "run"], cwd=folder, check=True, capture_output=True, text=True, timeout=60)
    return {"size": size, "output": ran.stderr}


def main() -> None:
    """Build, run, compare, print, write."""
    parser = command_line(__doc__)
    parser.add_argument("--output", type=Path, default=RESULTS, help="path of the results")
    options = parser.parse_args()
    results: dict[str, dict[str, int]] = {}
    outputs = set()
    table = Table({"level": "<5", "build": "<20", "bytes": ">8,"})
    for level in ("Oz", "Os"):
        for name, words in BUILDS.items():
            with tempfile.TemporaryDirectory() as folder:
                found = build(words, level, Path(folder) / "firmware")
            results.setdefault(level, {})[name] = found["size"]
            outputs.add(found["output"])
            table.row(level, name, found["size"])
    if len(outputs) != 1:
        sys.exit(f"expected one output of all builds, got {len(outputs)}")
    write_json(options.output, results)


if __name__ == "__main__":
    main()
