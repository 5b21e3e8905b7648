"""A corpus from any bitcode files: they are copied, with one set of flags for all. As LLVM's `make_corpus` does."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from mlgo_gym.corpus.description import write_description
from mlgo_gym.errors import CorpusError
from mlgo_gym.llvm.bitcode import parse_bitcode
from mlgo_gym.storage.cache import write_atomically


@dataclass(slots=True)
class Making:
    """What became of making a corpus.

    Attributes:
        modules: the names of its modules, sorted.
        skipped: for each `.bc` file that is no module: which it is, and why.
    """

    modules: list[str] = field(default_factory=list)
    skipped: list[tuple[str, str]] = field(default_factory=list)


def make_corpus(
    source: Path,
    output: Path,
    *,
    default_args: Sequence[str] = (),
    progress: Callable[[], object] = lambda: None,
) -> Making:
    """Copy every `.bc` file below a folder, nested as it is, and describe the copies as a corpus.

    Args:
        source: the folder with the bitcode.
        output: the corpus folder; if it is `source`, nothing is copied.
        default_args: the flags of every module, the description's `global_command_override`.
        progress: called after each file.

    Raises:
        CorpusError: `source` is no folder, or holds no bitcode.
    """
    if not source.is_dir():
        raise CorpusError(f"{source}: a folder of .bc files was wanted, and it is none; check --input_dir")
    making = Making()
    inside = output.resolve()
    in_place = inside == source.resolve()
    for path in sorted(source.rglob("*.bc")):
        if not path.is_file() or (not in_place and inside in path.resolve().parents):
            continue
        name = path.relative_to(source).as_posix().removesuffix(".bc")
        data = path.read_bytes()
        try:
            parse_bitcode(data, path)
        except CorpusError as error:
            making.skipped.append((name, str(error)))
        else:
            if not in_place:
                write_atomically(output / f"{name}.bc", data)
            making.modules.append(name)
        progress()
    if not making.modules:
        raise CorpusError(f"{source}: .bc files with LLVM bitcode were wanted, and there are none; check --input_dir")
    write_description(output, making.modules, global_command_override=default_args)
    return making
