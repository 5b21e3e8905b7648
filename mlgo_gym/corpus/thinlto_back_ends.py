"""Corpora of ThinLTO back ends: each module of a recorded link, with the functions that the link imports into it.

The link is repeated in its distributed form. Each module is compiled up to the link, lld writes an index per module in
a thin link, and each back end embeds the bitcode that it optimises.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from mlgo_gym.compiler.bounded_run import run_bounded
from mlgo_gym.corpus.compilation import plan
from mlgo_gym.corpus.corpus import Corpus
from mlgo_gym.corpus.folder import CorpusReport, write_metadata
from mlgo_gym.corpus.opening import open_corpus
from mlgo_gym.corpus.recording.extract import extract_corpus
from mlgo_gym.corpus.recording.links import Link, check_link_arguments, read_links
from mlgo_gym.corpus.recording.object_list import BuildObject, ObjectList
from mlgo_gym.corpus.recording.recorder import check_output
from mlgo_gym.errors import CorpusError
from mlgo_gym.llvm.toolchain import Toolchain, bundled_command
from mlgo_gym.storage.temporary_folders import complete_folder, temporary_folder

_TO_LINKER = ("--version-script", "--dynamic-list", "--export-dynamic", "-Bsymbolic", "--exclude-libs", "-E")


def record_back_ends(
    corpus: Path,
    output: Path,
    toolchain: Toolchain,
    *,
    links: Sequence[str] = (),
    jobs: int | None = None,
    trust_flags: bool = False,
    progress: Callable[[int, int], object] = lambda _done, _links: None,
) -> CorpusReport:
    """Write a ThinLTO corpus of the back ends of recorded links, atomically.

    Members of archives that a link does not use are skipped.

    Args:
        corpus: folder of a recorded corpus with `links.json`.
        output: folder that does not exist or is empty. With several links, module names begin with the link:
            `bin/program/lib/x.o`.
        toolchain: the clang of the corpus.
        links: outputs of the links to compile; by default those that the build linked with ThinLTO.
        jobs: number of concurrent compilers; by default one per CPU.
        trust_flags: whether to run recorded flags unchecked.
        progress: called after each link with the numbers of finished and of all links.

    Raises:
        UntrustedError: a flag of the corpus may do more than shape code.
        CorpusError: there is no such link, the thin link fails, or `output` contains files.
    """
    check_output(output)
    selected = _choose(corpus, links)
    opened = open_corpus(corpus, toolchain=toolchain, trust_flags=trust_flags)
    with complete_folder(output) as staging:
        with temporary_folder() as scratch:
            listed = ObjectList()
            modules: dict[str, str] = {}
            for number, link in enumerate(selected):
                if not trust_flags:
                    check_link_arguments(link)
                folder = Path(scratch, str(number))
                prefix = f"{link.output}/" if len(selected) > 1 else ""
                built, missing = _build(link, corpus, opened, folder, toolchain, jobs)
                listed.objects += [BuildObject(f"{prefix}{name}", path, folder) for name, path in built]
                listed.skipped += [(f"{prefix}{name}", why) for name, why in missing]
                modules |= {f"{prefix}{name}": name for name, _ in built}
                progress(number + 1, len(selected))
            report = extract_corpus(listed, staging, thinlto_build="distributed", jobs=jobs, trust_flags=trust_flags)
        for name in report.modules:
            metadata = dict(opened.module(modules[name]).metadata)
            metadata.pop("bitcode_sha256", None)
            write_metadata(staging, name, {**metadata, "back_end": True})
    return report


def _choose(corpus: Path, names: Sequence[str]) -> list[Link]:
    links = read_links(corpus)
    outputs = [link.output for link in links]
    for name in names:
        if name not in outputs:
            raise CorpusError(f"{corpus}: expected a link of {', '.join(outputs) or 'none'}, got {name!r}")
    selected = [link for link in links if (link.output in names if names else link.lto == "thin")]
    if not selected:
        raise CorpusError(
            f"{corpus}: expected ThinLTO links, got none in {len(links)} links; record a build with -flto=thin, or "
            f"name links: {', '.join(outputs) or 'there are none'}"
        )
    return selected


def _build(
    link: Link, corpus: Path, opened: Corpus, folder: Path, toolchain: Toolchain, jobs: int | None
) -> tuple[list[tuple[str, Path]], list[tuple[str, str]]]:
    """Compile a link up to its back ends; return each module's object with embedded bitcode, and the skipped ones."""
    for name in link.modules:
        for stage in ("early", "native"):
            (folder / stage / name).parent.mkdir(parents=True, exist_ok=True)
    missing: list[tuple[str, str]] = []
    with ThreadPoolExecutor(jobs or os.cpu_count()) as pool:

        def early(name: str) -> None:
            words = ["-emit-llvm-bc", "-flto=thin", "-flto-unit", "-o", f"early/{name}"]
            _compile(opened, name, folder, toolchain, words)

        list(pool.map(early, link.modules))
        _thin_link(link, corpus, folder)

        def back_end(name: str) -> tuple[str, Path] | None:
            words = [f"-fthinlto-index=early/{name}.thinlto.bc", "-mllvm", "-lto-embed-bitcode=post-merge-pre-opt"]
            _compile(opened, name, folder, toolchain, [*words, "-o", f"native/{name}"], bitcode=f"early/{name}")
            native = folder / "native" / name
            if b".llvmcmd\0" not in native.read_bytes():  # the index of an unused module skips it
                missing.append((name, "the link does not use it"))
                return None
            return name, native

        built = [entry for entry in pool.map(back_end, link.modules) if entry is not None]
    return built, sorted(missing)


def _compile(
    opened: Corpus, name: str, folder: Path, toolchain: Toolchain, words: list[str], bitcode: str | None = None
) -> None:
    compilation = plan(opened.module(name), toolchain)
    flags = [flag for flag in compilation.flags if flag != "-emit-obj" or bitcode is not None]
    command = [*toolchain.command, *flags, "-x", "ir", bitcode or str(compilation.module.bitcode.absolute()), *words]
    answer = run_bounded(command, writable=(folder,) if compilation.confined else None, folder=folder)
    if answer.returncode != 0:
        raise CorpusError(f"{name} cannot be compiled for ThinLTO; clang printed: {answer.stderr.strip()[-2000:]}")


def _thin_link(link: Link, corpus: Path, folder: Path) -> None:
    """Write the ThinLTO index of each module with lld, without the machine's libraries."""
    words = ["-shared"] if "-shared" in link.arguments else ["--entry=main", "--undefined=main"]
    words += ["--unresolved-symbols=ignore-all", "--allow-shlib-undefined"]
    files = {file.named: file.parts[0].file for file in link.inputs if file.kind == "file"}
    named = {name: str((corpus / path).absolute()) for name, path in files.items() if path is not None}
    for word in link.arguments:
        if word.startswith("-Wl,"):
            for part in word.split(",")[1:]:
                option, _, value = part.partition("=")
                if option in _TO_LINKER and (not value or value in named):
                    words.append(f"{option}={named[value]}" if value else option)
    for file in link.inputs:
        paths = [
            f"early/{part.module}" if part.module else str((corpus / str(part.file)).absolute()) for part in file.parts
        ]
        if file.kind == "archive":
            words += ["--start-lib", *paths, "--end-lib"]
        elif file.kind in ("object", "source"):
            words += paths
    command = [*bundled_command("ld.lld"), "--thinlto-index-only", *words, "-o", "linked"]
    answer = run_bounded(command, writable=(folder,), folder=folder)
    if answer.returncode != 0:
        raise CorpusError(f"the thin link of {link.output} fails; lld printed: {answer.stderr.strip()[-2000:]}")
