"""Runs every command of docs/tutorial.md, in the order in which they stand there, in a folder of its own.

Everything between ```sh and ``` is a command; the shell ends at the first that fails. Prints each command, what it
says, and how long it took.

    python benchmarks/tutorial.py --work /tmp/tutorial
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

TUTORIAL = Path(__file__).parent.parent / "docs" / "tutorial.md"


def commands(text: str) -> list[str]:
    """Return the blocks of commands in a page."""
    return [block.strip() for block in re.findall(r"^```sh\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)]


def script(blocks: list[str]) -> str:
    """Return a script that runs them one after another in one shell, and shows each before it runs."""
    lines = ["set -eu", "TIMEFORMAT='(%U s of processor time)'"]
    for block in blocks:
        lines += [f"cat <<'END_OF_COMMANDS'\n\n$ {block}\nEND_OF_COMMANDS", f"time {{\n{block}\n}}"]
    return "\n".join(lines) + "\n"


def main() -> int:
    """Run the tutorial; return the exit status of its shell."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", type=Path, help="where to run; a new folder that is removed afterwards if left out")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        work: Path = options.work or Path(temporary)
        work.mkdir(parents=True, exist_ok=True)
        path = os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))
        variables = {**os.environ, "PATH": path, "MLGO_CACHE": str(work / "cache")}
        program = script(commands(TUTORIAL.read_text(encoding="utf-8")))
        return subprocess.run(["bash", "-c", program], cwd=work, env=variables, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
