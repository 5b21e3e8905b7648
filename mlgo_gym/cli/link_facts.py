"""`mlgo-gym link-facts`: the facts about a build that a link-aware policy uses."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

from mlgo_gym.cli.options import ClangOption, TrustFlagsOption, argument, option
from mlgo_gym.cli.output import JsonOption, show
from mlgo_gym.cli.progress import progress_over

SECONDS = 600.0


def link_facts(
    builds: Annotated[
        list[str],
        argument("Folders of builds, objects, archives, files of facts, or corpora of recorded builds; they add up."),
    ],
    output: Annotated[Path, option("File to write.")],
    clang: ClangOption = None,
    trust_flags: TrustFlagsOption = False,
    as_json: JsonOption = False,
) -> None:
    """Count the objects that define each weak function, and the references to it.

    The policy last-call uses the facts: MLGO_LINK_FACTS=FILE, or mlgo-clang
    --mlgo-link-facts=FILE. Build once as usual, write the facts, and build
    again; or take the facts of the last release.
    """
    from mlgo_gym.corpus.folder import DESCRIPTION_FILE
    from mlgo_gym.llvm.link_facts import LinkFacts, objects_in

    paths = {build: Path(build) for build in builds}
    files = [path for path in paths.values() if path.is_file() and path.read_bytes()[:15] == b"mlgo-link-facts"]

    def objects() -> Iterator[bytes]:
        for build, path in paths.items():
            if not path.exists() or (path / DESCRIPTION_FILE).is_file():
                yield from _plain_objects(build, clang, trust_flags)
            elif path not in files:
                yield from objects_in(path)

    facts = LinkFacts.merged([LinkFacts.of_objects(objects()), *map(LinkFacts.read, files)])
    before = LinkFacts.read(output).counts if output.is_file() else {}
    facts.write(output)
    once = sum(copies == 1 for copies, _ in facts.counts.values())
    changed = sum(facts.counts.get(name) != before.get(name) for name in {*facts.counts, *before})
    text = f"{output}: {len(facts.counts)} weak functions, {once} of them in one object"
    if before:
        text += f"; {changed} differ from the file before"
    show(as_json, {"functions": len(facts.counts), "in_one_object": once, "changed": changed}, text)


def _plain_objects(corpus: str, clang: str | None, trust_flags: bool) -> Iterator[bytes]:
    """Yield the objects of plain clang of the modules of a corpus."""
    from mlgo_gym.corpus import open_corpus
    from mlgo_gym.corpus.compilation import plan
    from mlgo_gym.llvm.toolchain import find_toolchain

    toolchain = find_toolchain(clang)
    modules = open_corpus(corpus, toolchain=toolchain, trust_flags=trust_flags)
    with progress_over(len(modules), "Modules") as advance:
        for module in modules:
            with plan(module, toolchain).session() as session:
                yield session.finish(SECONDS).object_bytes
            advance()
