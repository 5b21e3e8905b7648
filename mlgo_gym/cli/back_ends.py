"""`mlgo-gym corpus back-ends`: ThinLTO's back ends of a recorded build."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from mlgo_gym.cli.output import JsonOption, NamingConsole, show
from mlgo_gym.cli.progress import progress_over
from mlgo_gym.cli.trust import TrustOption
from mlgo_gym.corpus.back_ends import record_back_ends
from mlgo_gym.llvm.toolchain import find_toolchain


def back_ends(
    corpus: Annotated[Path, typer.Argument(help="A recorded corpus, with links.json.")],
    *,
    output: Annotated[Path, typer.Option(help="The folder of the new corpus.")],
    link: Annotated[
        list[str] | None,
        typer.Option(
            help="The output of a link, whatever the build did there; may be given again.", show_default="thin"
        ),
    ] = None,
    clang: Annotated[str | None, typer.Option(help="The clang of the corpus; the bundled one if left out.")] = None,
    jobs: Annotated[int | None, typer.Option(min=1, help="How many compilers run at once.")] = None,
    trust: TrustOption = False,
    as_json: JsonOption = False,
) -> None:
    """Make a corpus of ThinLTO's back ends: each module with what its link imports into it, and its index.

    Without --link those links are taken that the build made with -flto=thin.
    """
    with progress_over(None, "Links") as advance:
        extraction = record_back_ends(
            corpus, output, find_toolchain(clang), links=link or (), jobs=jobs, trust=trust, progress=advance.at
        )
    console = NamingConsole(stderr=True, highlight=False)
    for name, why in extraction.skipped:
        console.print(f"  {name}: {why}", markup=False, soft_wrap=True)
    show(
        as_json,
        {"output": output, "modules": len(extraction.modules), "left_out": dict(extraction.skipped)},
        f"{output}: {len(extraction.modules)} modules, {len(extraction.skipped)} left out",
    )
