"""Runs every command of docs/tutorials/smaller_program.md in order; prints each with its output and its time.

    apt-get source --download-only yaml-cpp; apt-get install cmake make g++ googletest
    python benchmarks/tutorial.py --source yaml-cpp_0.7.0+dfsg.orig.tar.xz --work /tmp/tutorial

The commands are the blocks between ```sh and ```. One shell runs them, and ends at the first that fails. The section of
the plugin is skipped where `llvm-config-22` is not installed. `--output` writes the sizes and the CPU seconds.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

TUTORIAL = Path(__file__).parent.parent / "docs" / "tutorials" / "smaller_program.md"
GOOGLETEST = Path("/usr/src/googletest")
LLVM_CONFIG = "llvm-config-22"
LIBRARY = "libyaml-cpp.so.0.7.0"


def commands(text: str, *, plugin: bool = True) -> list[str]:
    """Return the blocks of commands in a page; without `plugin`, those that need no installed LLVM."""
    blocks = [block.strip() for block in re.findall(r"^```sh\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)]
    return [block for block in blocks if plugin or LLVM_CONFIG not in block]


def script(blocks: list[str]) -> str:
    """Return a shell script that prints and runs each block, and writes its CPU seconds to `seconds`."""
    lines = ["set -eu", ": > seconds"]
    for block in blocks:
        lines += [
            f"cat <<'END_OF_COMMANDS'\n\n$ {block}\nEND_OF_COMMANDS",
            "times >> seconds",
            block,
            "times >> seconds",
        ]
    return "\n".join(lines) + "\n"


def seconds(text: str) -> list[float]:
    """Return the CPU seconds of each block from what `times` wrote before and after it: shell, then its children."""
    lines = text.splitlines()[1::2]
    totals = [
        sum(60 * int(minutes) + float(rest) for minutes, rest in re.findall(r"(\d+)m([\d.]+)s", line)) for line in lines
    ]
    return [round(after - before, 1) for before, after in zip(totals[::2], totals[1::2], strict=True)]


def unpack(archive: Path, work: Path) -> None:
    """Unpack the sources as the folder `yaml-cpp`; Debian's archive lacks GoogleTest, and a link replaces it."""
    with tarfile.open(archive) as opened:
        opened.extractall(work / "unpacked", filter="tar")
    (source,) = (work / "unpacked").iterdir()
    source.rename(work / "yaml-cpp")
    googletest = work / "yaml-cpp" / "test" / "gtest-1.10.0"
    if not googletest.exists():
        googletest.symlink_to(GOOGLETEST)


def results(work: Path, blocks: list[str]) -> dict[str, dict[str, float]]:
    """Return the size of each library, and the CPU seconds of the block that configured and built it."""
    spent = dict(zip(blocks, seconds((work / "seconds").read_text()), strict=False))
    found: dict[str, dict[str, float]] = {}
    for library in sorted(work.glob(f"*/{LIBRARY}")):
        printed = subprocess.run(["size", str(library)], capture_output=True, text=True, check=True).stdout
        name = library.parent.name
        (block,) = (block for block in blocks if f"-B {name}\n" in block)
        found[name] = {"text": int(printed.splitlines()[1].split()[0]), "seconds": spent[block]}
    plain = found["plain"]
    for row in found.values():
        row |= {"change": row["text"] / plain["text"] - 1, "ratio": round(row["seconds"] / plain["seconds"], 2)}
    return found


def main() -> int:
    """Run the tutorial; return the exit status of its shell."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--source", type=Path, required=True, metavar="TAR", help="archive of yaml-cpp 0.7.0")
    parser.add_argument("--work", type=Path, help="empty folder to run in (default: a temporary one)")
    parser.add_argument("--output", type=Path, help="JSON file for sizes and CPU seconds")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        work: Path = (options.work or Path(temporary)).absolute()
        work.mkdir(parents=True, exist_ok=True)
        unpack(options.source, work)
        path = os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))
        variables = {**os.environ, "PATH": path, "MLGO_CACHE": str(work / "cache")}
        blocks = commands(TUTORIAL.read_text(encoding="utf-8"), plugin=shutil.which(LLVM_CONFIG) is not None)
        done = subprocess.run(["bash", "-c", script(blocks)], cwd=work, env=variables, check=False)
        if done.returncode == 0 and options.output is not None:
            text = json.dumps(results(work, blocks), indent=1)
            options.output.write_text(f"{text}\n", encoding="utf-8")
    return done.returncode


if __name__ == "__main__":
    sys.exit(main())
