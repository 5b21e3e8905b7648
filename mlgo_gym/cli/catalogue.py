"""`mlgo-gym corpus catalogue`: the page that tells of every dataset."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from mlgo_gym.cli.output import say
from mlgo_gym.corpus.catalogue import dataset_names, find_dataset
from mlgo_gym.corpus.catalogue_page import made_reports, page, with_totals
from mlgo_gym.corpus.dataset import dataset_folder, lacks
from mlgo_gym.corpus.pins import write_pins
from mlgo_gym.corpus.recorder import LEVELS
from mlgo_gym.llvm.toolchain import Toolchain, find_toolchain
from mlgo_gym.storage.cache import write_atomically


def catalogue(
    *,
    output: Annotated[Path, typer.Option(help="The page.")] = Path("docs/datasets.md"),
    readme: Annotated[
        Path, typer.Option(exists=True, dir_okay=False, help="The file that quotes the totals between two marks.")
    ] = Path("README.md"),
    optimize: Annotated[str, typer.Option(help="The level that the datasets were made at.")] = "Oz",
    clang: Annotated[str | None, typer.Option(help="The clang that made them; the bundled one if left out.")] = None,
    pins: Annotated[
        bool, typer.Option(help="Instead write what each dataset has to hold, from those that are in the cache.")
    ] = False,
) -> None:
    """Write the page of all datasets: sources, licences, and modules, lines, failures and time as they were made.

    What was measured comes from the cache, where `corpus fetch --all` has put it.
    """
    toolchain = find_toolchain(clang)
    if pins:
        _write_pins(toolchain)
        return
    reports = made_reports(toolchain, optimize)
    texts = {
        output: page(reports, toolchain, optimize),
        readme: with_totals(readme.read_text(encoding="utf-8"), reports),
    }
    for path, text in texts.items():
        write_atomically(path, text.encode())
        say(f"written: {path}")


def _write_pins(toolchain: Toolchain) -> None:
    for name in dataset_names():
        dataset = find_dataset(name)
        folders = {level: dataset_folder(dataset, level, toolchain) for level in LEVELS}
        there = {level: folder for level, folder in folders.items() if not lacks(dataset, folder)}
        if there:
            say(f"written: {write_pins(dataset, there, toolchain.version_text)}")
        else:
            say(f"not in the cache: {name}", err=True)
