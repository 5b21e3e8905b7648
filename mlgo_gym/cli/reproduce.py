"""`mlgo-gym reproduce`: see a crash, or a wrong result, again."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from mlgo_gym.cli.compiler import ClangOption
from mlgo_gym.cli.output import FAILED, JsonOption, show
from mlgo_gym.cli.trust import TrustOption


def reproduce(
    folder: Annotated[Path, typer.Argument(help="A reproducer, as info['error']['reproducer'] names it.")],
    *,
    clang: ClangOption = None,
    module: Annotated[Path | None, typer.Option(help="Bitcode to compile in the place of its own.")] = None,
    reduce: Annotated[bool, typer.Option("--reduce", help="Make the module as small as it still goes wrong.")] = False,
    timeout: Annotated[float, typer.Option(help="Seconds that clang may compute without a sign of life.")] = 60.0,
    trust: TrustOption = False,
    as_json: JsonOption = False,
) -> None:
    """Compile the module of a reproducer again with the decisions that it keeps.

    A crash of a compiler under an agent is kept in $MLGO_REPRODUCERS, by default
    in the folder reproducers of the cache. Where one advisor asked,
    reproduce.sh in it does the same by clang alone, for a report to LLVM.
    With --reduce, llvm-reduce makes the module smaller; where that was
    interrupted, --module FOLDER/reduced.bc goes on.

    Exit status 1: it does not happen again.
    """
    from mlgo_gym.episode.reproducer import MODULE
    from mlgo_gym.episode.reproduction import reduce_module
    from mlgo_gym.episode.reproduction import reproduce as see_again
    from mlgo_gym.llvm.toolchain import find_toolchain

    toolchain = find_toolchain(clang)
    if reduce:
        smaller = reduce_module(folder, toolchain, bitcode=module, timeout=timeout, trust=trust)
        size, before = smaller.stat().st_size, (folder / MODULE).stat().st_size
        show(as_json, {"module": smaller, "bytes": size, "before": before}, f"{smaller}: {size} bytes, of {before}")
        return
    found = see_again(folder, toolchain, bitcode=module, timeout=timeout, trust=trust)
    text = f"{'it happens again' if found.again else 'it does not happen again'}: {found.what}"
    show(as_json, {"again": found.again, "what": found.what}, text)
    if not found.again:
        raise typer.Exit(FAILED)
