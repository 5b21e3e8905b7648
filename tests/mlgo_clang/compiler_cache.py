"""A compiler cache for cargo in the manner of sccache.

Its key covers the arguments, the sources and the environment variables that a crate's dep-info names. It keeps
libraries, and prints `hit` or `miss` with the crate's name to `$CACHE/log`.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path


def main(program: str, *arguments: str) -> int:
    """Compile a crate, or copy its outputs from the cache."""
    command = [program, *arguments]
    if "lib" not in arguments or "--out-dir" not in arguments:
        return subprocess.run(command, check=False).returncode
    cache, folder = Path(os.environ["CACHE"]), Path(arguments[arguments.index("--out-dir") + 1])
    name = arguments[arguments.index("--crate-name") + 1]
    suffix = next(word.removeprefix("extra-filename=") for word in arguments if word.startswith("extra-filename="))
    entry = cache / _key(program, arguments)
    with (cache / "log").open("a") as log:
        log.write(f"{'hit' if entry.exists() else 'miss'} {name}\n")
    if entry.exists():
        shutil.copytree(entry, folder, dirs_exist_ok=True)
        return 0
    status = subprocess.run(command, check=False).returncode
    if status == 0:
        entry.mkdir()
        for path in folder.glob(f"*{name}{suffix}*"):
            shutil.copy(path, entry)
    return status


def _key(program: str, arguments: tuple[str, ...]) -> str:
    with tempfile.TemporaryDirectory() as scratch:
        listing = Path(scratch, "deps.d")
        words = [word for word in arguments if not word.startswith("--emit")]
        subprocess.run([program, *words, "--emit=dep-info", "-o", str(listing)], check=True, capture_output=True)
        lines = listing.read_text().splitlines()
    sources = sorted(line[:-1] for line in lines if line.endswith(":") and not line.startswith("#"))
    variables = sorted(line for line in lines if line.startswith("# env-dep:"))
    content = [Path(source).read_text() for source in sources]
    return hashlib.sha256(json.dumps([arguments, content, variables]).encode()).hexdigest()


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
