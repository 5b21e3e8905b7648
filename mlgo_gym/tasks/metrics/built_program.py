"""Small C sources of this package, compiled once by the bundled compiler and kept in the cache."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path

from mlgo_gym.compiler.bounded_run import run_bounded
from mlgo_gym.errors import ToolchainError
from mlgo_gym.llvm.toolchain import bundled_command
from mlgo_gym.storage.cache import cache_directory, write_atomically
from mlgo_gym.storage.temporary_folders import temporary_folder


def built_program(source: Path, name: str, options: Sequence[str], suffix: str = "") -> Path:
    """Return the executable file that options make of a source; its name in the cache has the digest of the source.

    Raises:
        ToolchainError: the source cannot be compiled.
    """
    digest = hashlib.sha256(source.read_bytes()).hexdigest()[:16]
    path = cache_directory() / "programs" / f"{name}-{digest}{suffix}"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        with temporary_folder() as folder:
            built = folder / "built"
            command = [*bundled_command("cc"), *options, str(source), "-o", str(built)]
            answer = run_bounded(command, writable=None, name="the bundled compiler")
            if answer.returncode != 0:
                raise ToolchainError(f"{source.name} cannot be compiled: {answer.stderr.strip()[-2000:]}")
            write_atomically(path, built.read_bytes())
            path.chmod(0o755)
    return path
