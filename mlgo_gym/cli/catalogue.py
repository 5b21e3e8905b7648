"""`mlgo-gym corpus catalogue`: the page that tells of every dataset."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from mlgo_gym.corpus.catalogue_page import made_reports, page, with_totals
from mlgo_gym.llvm.toolchain import find_toolchain
from mlgo_gym.storage.cache import write_atomically


def catalogue(
    *,
    output: Annotated[Path, typer.Option(help="The page.")] = Path("docs/datasets.md"),
    readme: Annotated[
        Path, typer.Option(exists=True, dir_okay=False, help="The file that quotes the totals between two marks.")
    ] = Path("README.md"),
    optimize: Annotated[str, typer.Option(help="The level that the datasets were made at.")] = "Oz",
    clang: Annotated[str | None, typer.Option(help="The clang that made them; the bundled one if left out.")] = None,
) -> None:
    """Write the page of all datasets: sources, licences, and modules, lines, failures and time as they were made.

    What was measured comes from the cache, where `corpus fetch --all` has put it.
    """
    toolchain = find_toolchain(clang)
    reports = made_reports(toolchain, optimize)
    texts = {
        output: page(reports, toolchain, optimize),
        readme: with_totals(readme.read_text(encoding="utf-8"), reports),
    }
    for path, text in texts.items():
        write_atomically(path, text.encode())
        typer.echo(f"written: {path}")
