"""Runs what README.md shows: each block of Python, and each command, in a folder of its own.

    python benchmarks/readme.py             # what needs no network
    python benchmarks/readme.py --network   # the rest too

It runs with the Python that it is started with, and the commands beside that, so that it proves an installation too.
Commands that work on whole datasets get two modules, and what they need is laid ready: the policy of the examples as
`my_policy.py`, and a small project with a Makefile. What is not run here is listed, with the reason. The exit status is
1 where something fails.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
README = ROOT / "README.md"

ELSEWHERE = {
    "pip install": "the installation that this runs in",
    "make demo": "`make release-check` and `.ci/run` run it",
    "make test": "`.ci/run` runs it",
}
"""Commands that are not run here, by their beginning."""

DATASETS = re.compile(r"(--corpus|importance) [\w@,]*(zstd|lz4|sentencepiece)|corpus fetch")
"""What needs the sources of a dataset, which come from a package index."""

INSTALLED = re.compile(r"llvm-config-\d+|clang(\+\+)?-\d+|libmlgo_inline")
"""What needs the LLVM of a distribution, and what is built by it."""

LLVM_PROGRAMS = ("llvm-config-22", "clang-22")

SHORTER = {
    "mlgo-gym evaluate ": "--limit 2",
    "mlgo-gym search ": "--module lib/common/pool.o --module lib/common/zstd_common.o",
}
"""What commands that work on whole datasets are given beside what the page has, by their beginning."""

BESIDE_BUILTIN = re.compile(r"--corpus [\w@,]+,builtin\b")
"""Without a network the builtin corpus stands for those beside it."""

MAKEFILE = ".PHONY: all\nall:\n\t$(CC) $(CFLAGS) -Oz -c hello.c -o hello.o\n"
"""It compiles each time: the page builds more than once, and a recording sees nothing where all is made already."""

SOURCE = "static int twice(int x) { return 2 * x; }\nint hello(int x) { return twice(x) + twice(x + 1); }\n"


@dataclass(frozen=True, slots=True)
class Step:
    """One thing that the page shows.

    Attributes:
        text: the code or the command, as it stands there.
        words: how it is run; empty where it is not.
        why_not: why it is not run; empty where it is.
    """

    text: str
    words: tuple[str, ...]
    why_not: str = ""


def python_blocks(text: str) -> list[str]:
    """Return the blocks of Python in a page."""
    return re.findall(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def commands(text: str) -> list[str]:
    """Return the indented commands of a page, each on one line and without what is behind `#`."""
    without_code = re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)
    found = []
    for block in re.findall(r"(?:^    .*\n)+", without_code, re.MULTILINE):
        whole = re.sub(r"\\\n\s*", "", block)
        found += [re.sub(r"\s+# .*", "", line).strip() for line in whole.splitlines()]
    return [command for command in found if command]


def steps(text: str, *, network: bool) -> list[Step]:
    """Return what a page shows, in order: code first."""
    found = [Step(block, (sys.executable, "-W", "error", "-c", block)) for block in python_blocks(text)]
    for command in commands(text):
        why_not = next((why for begin, why in ELSEWHERE.items() if command.startswith(begin)), "")
        if not why_not and not network and DATASETS.search(command):
            why_not = "needs the network: --network"
        elif INSTALLED.search(command) and not all(map(shutil.which, LLVM_PROGRAMS)):
            why_not = f"needs {' and '.join(LLVM_PROGRAMS)}: on Debian llvm-22-dev and clang-22"
        run = " ".join([command, *(more for begin, more in SHORTER.items() if command.startswith(begin))])
        if not network and BESIDE_BUILTIN.search(run):
            run, why_not = BESIDE_BUILTIN.sub("--corpus builtin", run), ""
        found.append(Step(command, () if why_not else ("bash", "-c", run), why_not))
    return found


def prepare(folder: Path) -> None:
    """Lay ready what the commands name."""
    shutil.copy(ROOT / "examples" / "my_policy.py", folder)
    (folder / "Makefile").write_text(MAKEFILE)
    (folder / "hello.c").write_text(SOURCE)


def main() -> None:
    """Run the page, and tell of each step."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--network", action="store_true", help="run what fetches sources, too")
    arguments = parser.parse_args()
    failed = 0
    with tempfile.TemporaryDirectory(prefix="mlgo-gym-readme-") as temporary:
        folder = Path(temporary)
        prepare(folder)
        path = os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))
        for step in steps(README.read_text(encoding="utf-8"), network=arguments.network):
            title = step.text.splitlines()[0] if "\n" in step.text else step.text
            if not step.words:
                print(f"not run   {title}\n          ({step.why_not})", flush=True)
                continue
            start = time.perf_counter()
            done = subprocess.run(
                step.words, cwd=folder, env={**os.environ, "PATH": path}, capture_output=True, text=True, check=False
            )
            failed += done.returncode != 0
            outcome = "failed" if done.returncode else "ran"
            print(f"{outcome:9} {title}  ({time.perf_counter() - start:.1f} s)", flush=True)
            if done.returncode:
                print(done.stdout[-2000:], done.stderr[-4000:], flush=True)
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
