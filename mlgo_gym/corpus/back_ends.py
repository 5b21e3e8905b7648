"""ThinLTO's back ends of a recorded link: each module with what the link imports into it, as a corpus of its own.

What a ThinLTO build does in the link is done here in the form for build farms: each module is compiled up to the link,
a thin link of lld says what is to be imported where, and each module's back end embeds the bitcode that it optimises.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from mlgo_gym.corpus.compilation import plan
from mlgo_gym.corpus.corpus import Corpus
from mlgo_gym.corpus.description import write_metadata
from mlgo_gym.corpus.extract import Extraction, extract_corpus
from mlgo_gym.corpus.links import Link, read_links
from mlgo_gym.corpus.object_list import BuildObject, ObjectList
from mlgo_gym.corpus.opening import open_corpus
from mlgo_gym.corpus.recorder import check_output
from mlgo_gym.corpus.relink import check_link_arguments
from mlgo_gym.errors import CorpusError
from mlgo_gym.llvm.toolchain import Toolchain, bundled_command
from mlgo_gym.session.bounded_run import run_bounded
from mlgo_gym.storage.leftovers import temporary_folder, whole_folder

_TO_LINKER = ("--version-script", "--dynamic-list", "--export-dynamic", "-Bsymbolic", "--exclude-libs", "-E")


def record_back_ends(
    corpus: Path,
    output: Path,
    toolchain: Toolchain,
    *,
    links: Sequence[str] = (),
    jobs: int | None = None,
    trust: bool = False,
    progress: Callable[[int, int], object] = lambda _done, _links: None,
) -> Extraction:
    """Make a ThinLTO corpus of the back ends of recorded links. It appears at `output` whole, or not at all.

    Args:
        corpus: a recorded corpus with `links.json`.
        output: a folder that does not exist or is empty. Where there are several links, a module is called after its
            link too: `bin/program/lib/x.o`.
        toolchain: the clang of the corpus.
        links: the outputs of the links to take, whether the build optimised them or not; those of ThinLTO if none.
        jobs: how many compilers run at once; all processors if None.
        trust: whether to run recorded flags whatever they are.
        progress: called after each link with how many are done, and how many there are.

    Returns:
        the modules, and those that are missing and why: for instance members of an archive that the link did not take.

    Raises:
        UntrustedError: flags of the corpus may do more than shape code.
        CorpusError: there is no such link, the thin link fails, or `output` is in use.
    """
    check_output(output)
    chosen = _choose(corpus, links)
    opened = open_corpus(corpus, toolchain=toolchain, trust=trust)
    with whole_folder(output) as staging:
        with temporary_folder() as scratch:
            found = ObjectList()
            modules: dict[str, str] = {}
            for number, link in enumerate(chosen):
                if not trust:
                    check_link_arguments(link)
                folder = Path(scratch, str(number))
                prefix = f"{link.output}/" if len(chosen) > 1 else ""
                built, missing = _build(link, corpus, opened, folder, toolchain, jobs)
                found.objects += [BuildObject(f"{prefix}{name}", path, folder) for name, path in built]
                found.skipped += [(f"{prefix}{name}", why) for name, why in missing]
                modules |= {f"{prefix}{name}": name for name, _ in built}
                progress(number + 1, len(chosen))
            extraction = extract_corpus(found, staging, thinlto_build="distributed", jobs=jobs, trust=trust)
        for name in extraction.modules:
            metadata = dict(opened.module(modules[name]).metadata)
            metadata.pop("bitcode_sha256", None)
            write_metadata(staging, name, {**metadata, "back_end": True})
    return extraction


def _choose(corpus: Path, names: Sequence[str]) -> list[Link]:
    links = read_links(corpus)
    known = [link.output for link in links]
    for name in names:
        if name not in known:
            raise CorpusError(f"{corpus} has no link of {name!r}; it has {', '.join(known) or 'none'}")
    chosen = [link for link in links if (link.output in names if names else link.lto == "thin")]
    if not chosen:
        raise CorpusError(
            f"{corpus}: none of its {len(links)} links is one of ThinLTO; record a build with -flto=thin, or name "
            f"links: {', '.join(known) or 'there are none'}"
        )
    return chosen


def _build(
    link: Link, corpus: Path, opened: Corpus, folder: Path, toolchain: Toolchain, jobs: int | None
) -> tuple[list[tuple[str, Path]], list[tuple[str, str]]]:
    """Do a link up to its back ends; return an object for each module with its bitcode in it, and what is missing."""
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
            if b".llvmcmd\0" not in native.read_bytes():  # the index of a module that is not linked says to skip it
                missing.append((name, "the link takes nothing of it"))
                return None
            return name, native

        built = [made for made in pool.map(back_end, link.modules) if made is not None]
    return built, sorted(missing)


def _compile(
    opened: Corpus, name: str, folder: Path, toolchain: Toolchain, words: list[str], bitcode: str | None = None
) -> None:
    compilation = plan(opened.module(name), toolchain)
    flags = [flag for flag in compilation.flags if flag != "-emit-obj" or bitcode is not None]
    command = [*toolchain.command, *flags, "-x", "ir", bitcode or str(compilation.module.bitcode.absolute()), *words]
    answer = run_bounded(command, writable=(folder,) if compilation.confined else None, folder=folder)
    if answer.returncode != 0:
        raise CorpusError(f"{name} was to be compiled for ThinLTO, and clang said: {answer.stderr.strip()[-2000:]}")


def _thin_link(link: Link, corpus: Path, folder: Path) -> None:
    """Have lld write what each module imports; libraries of the machine are not looked at."""
    words = ["-shared"] if "-shared" in link.arguments else ["--entry=main", "--undefined=main"]
    words += ["--unresolved-symbols=ignore-all", "--allow-shlib-undefined"]
    named = {
        each.named: str((corpus / each.parts[0].file).absolute())
        for each in link.inputs
        if each.kind == "file" and each.parts[0].file is not None
    }
    for word in link.arguments:
        if word.startswith("-Wl,"):
            for part in word.split(",")[1:]:
                option, _, value = part.partition("=")
                if option in _TO_LINKER and (not value or value in named):
                    words.append(f"{option}={named[value]}" if value else option)
    for each in link.inputs:
        paths = [
            f"early/{part.module}" if part.module is not None else str((corpus / str(part.file)).absolute())
            for part in each.parts
        ]
        if each.kind == "archive":
            words += ["--start-lib", *paths, "--end-lib"]
        elif each.kind in ("object", "source"):
            words += paths
    command = [*bundled_command("ld.lld"), "--thinlto-index-only", *words, "-o", "linked"]
    answer = run_bounded(command, writable=(folder,), folder=folder)
    if answer.returncode != 0:
        raise CorpusError(
            f"the thin link of {link.output} was to go well, and lld said: {answer.stderr.strip()[-2000:]}"
        )
