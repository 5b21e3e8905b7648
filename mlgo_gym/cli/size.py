"""`mlgo-gym size`: the sizes of programs, libraries and objects, and a gate for continuous integration."""

import json
import math
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from mlgo_gym.cli import options
from mlgo_gym.cli.interface import aligned, echo, print_result
from mlgo_gym.errors import MlgoError
from mlgo_gym.llvm.sizes import object_sizes

_GATED = ("text", "loaded")


def size(
    files: Annotated[list[Path], Argument(help="Programs, libraries or objects: ELF or WebAssembly.")],
    *,
    against: Annotated[Path | None, Option(help="Earlier output of `mlgo-gym size --json`.")] = None,
    tolerance: Annotated[float, Option(help="Allowed growth in percent (≥ 0).")] = 0.0,
    as_json: options.Json = False,
) -> None:
    """Print the sizes of files in bytes.

    `text` are the executable sections, `loaded` is the memory that the file fills, `llvm_size` is the column `text` of
    the program `size`, and `object` is the whole file.

    Exit status 1: with `--against`, `text` or `loaded` of a file grew by more than the tolerance.
    """
    if not 0 <= tolerance < math.inf:
        raise MlgoError(f"expected --tolerance ≥ 0, got {tolerance}; give percent, such as 0.5")
    sizes = {str(file): asdict(object_sizes(_contents(file))) for file in files}
    grown = []
    for file, earlier in ({} if against is None else _earlier(against, list(sizes))).items():
        for metric in _GATED:
            before, now = earlier[metric], sizes[file][metric]
            if now > before * (1 + tolerance / 100):
                grown.append(f"{file}: {metric} grew from {before:,} to {now:,} bytes, {now / before - 1:+.2%}")
    for line in grown:
        echo(line, err=True)
    names = ("text", "loaded", "llvm_size", "object")
    rows = [(*(row[name] for name in names), file) for file, row in sizes.items()]
    print_result(as_json, sizes, aligned([(*names, "file"), *rows]), grown)


def _contents(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError as error:
        raise MlgoError(f"expected a program or an object, got {file}: {error.strerror}; check the path") from error


def _earlier(path: Path, files: list[str]) -> dict[str, dict[str, int]]:
    try:
        content = json.loads(path.read_bytes())
        return {file: {metric: int(content[file][metric]) for metric in _GATED} for file in files}
    except (OSError, ValueError, LookupError, TypeError) as error:
        raise MlgoError(
            f"expected sizes of {', '.join(files)} in {path}, got {error!r}; write them with "
            f"mlgo-gym size {' '.join(files)} --json > {path}"
        ) from error
