"""`mlgo-gym link-facts`: the facts about a build that a link-aware policy uses."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from mlgo_gym.cli.output import JsonOption, show


def link_facts(
    builds: Annotated[
        list[Path], typer.Argument(help="Folders of builds, objects, archives, or files of link facts; they add up.")
    ],
    output: Annotated[Path, typer.Option(help="File to write.")],
    as_json: JsonOption = False,
) -> None:
    """Count in how many objects of a build each weak function is.

    The policy last-call uses the facts: MLGO_LINK_FACTS=FILE, or mlgo-clang
    --mlgo-link-facts=FILE. Build once as usual, write the facts, and build
    again; or take the facts of the last release.
    """
    from mlgo_gym.llvm.link_facts import LinkFacts, objects_in

    facts = LinkFacts.merged(
        LinkFacts.read(build)
        if build.is_file() and build.read_bytes()[:15] == b"mlgo-link-facts"
        else LinkFacts.of_objects(objects_in(build))
        for build in builds
    )
    before = LinkFacts.read(output).counts if output.is_file() else {}
    facts.write(output)
    once = sum(copies == 1 for copies, _ in facts.counts.values())
    changed = sum(facts.counts.get(name) != before.get(name) for name in {*facts.counts, *before})
    text = f"{output}: {len(facts.counts)} weak functions, {once} of them in one object"
    if before:
        text += f"; {changed} differ from the file before"
    show(as_json, {"functions": len(facts.counts), "in_one_object": once, "changed": changed}, text)
