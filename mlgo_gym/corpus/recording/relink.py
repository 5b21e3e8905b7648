"""Repetition of a recorded link step with other objects for its modules."""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Iterable, Mapping
from functools import lru_cache
from pathlib import Path

from mlgo_gym.compiler.bounded_run import run_bounded
from mlgo_gym.compiler.limits import DEFAULT_LIMITS, Limits
from mlgo_gym.corpus.commands.driver import linker_command, linker_overrides
from mlgo_gym.corpus.commands.shim_compiles import drop_options
from mlgo_gym.corpus.recording.links import Link, LinkInput, LinkPart
from mlgo_gym.errors import CorpusError, UntrustedError
from mlgo_gym.llvm.toolchain import Toolchain, bundled_command
from mlgo_gym.storage.temporary_folders import temporary_folder

_ALLOWED = Path(__file__).parent / "allowed_link_arguments.json"
_MACHINE = re.compile(r"-m(?!llvm)[a-z][a-z0-9.-]*")
_DROPPED = frozenset({"-MD", "-MMD", "-MP", "-MG", "-save-temps", "--save-temps", "--coverage", "-v"})
_DROPPED_WITH_VALUE = frozenset({"-MF", "-MT", "-MQ", "-MJ", "-x"})
_DROPPED_TO_LINKER = ("-Map", "--Map", "--dependency-file", "--out-implib")


def relink(
    link: Link,
    corpus: Path,
    objects: Mapping[str, Path],
    output: Path,
    toolchain: Toolchain,
    *,
    libraries: Mapping[str, Path] | None = None,
    trust_flags: bool = False,
    limits: Limits = DEFAULT_LIMITS,
) -> None:
    """Repeat a recorded link with other objects.

    Args:
        link: one of `read_links()`.
        corpus: folder of its corpus.
        objects: object file by module, for each of `link.modules`.
        output: path of the output.
        toolchain: the clang whose driver links; the bundled one has a C library and libc++.
        libraries: shared libraries of the build that it is linked with, by the output of their link.
        trust_flags: whether to run its arguments unchecked.
        limits: limits of each program of the link; the whole link may take four times the CPU seconds of one.

    Raises:
        UntrustedError: an argument may do more than shape the result.
        CorpusError: an object is missing, or the link fails or exceeds its limits.
        ToolchainError: the link does not end in time.
    """
    if not trust_flags:
        check_link_arguments(link)

    def run(command: list[str], folder: Path, program: str) -> None:
        seconds = None if limits.cpu is None else 4 * limits.cpu
        answer = run_bounded(command, writable=None, folder=folder, timeout=seconds, limits=limits, name=program)
        if answer.returncode != 0:
            raise CorpusError(f"{link.output} cannot be linked; {program} printed:\n{answer.stderr.strip()[-4000:]}")

    def place(each: LinkInput, name: str) -> Path:
        if each.link is not None:
            if each.link not in (libraries or {}):
                raise CorpusError(f"expected the library {each.link} in libraries=, got none; link it first")
            return _linked((libraries or {})[each.link], scratch, Path(each.link).name)
        paths = [_path_of(part, corpus, objects) for part in each.parts]
        if each.kind == "archive":
            archive = (scratch / name).with_suffix(".a")
            run([*bundled_command("ar"), "qcs", str(archive), *map(str, paths)], scratch, "the archiver")
            return archive
        if each.kind in ("object", "source") and paths[0].suffix != ".o":
            return _linked(paths[0], scratch, f"{name}.o")
        return paths[0]

    with temporary_folder() as scratch:
        files = [place(each, f"{number}-{Path(each.named).name}") for number, each in enumerate(link.inputs)]
        words = _without_side_outputs(_with_files(link, map(str, files)))
        linker = linker_command(toolchain, link.driver, link.target)
        run([*linker, *words, *linker_overrides(link.target), "-o", str(output.absolute())], scratch, "the linker")


def check_link_arguments(link: Link) -> None:
    """Raise `UntrustedError` for an untrusted link with an argument that may do more than shape its result."""
    refused = refused_link_argument(link)
    if refused is not None:
        raise UntrustedError(
            f"the link of {link.output}: expected arguments that only shape the result, got {refused!r}; if you know "
            "the author of the corpus, pass --trust-flags, trust_flags=True"
        )


def refused_link_argument(link: Link) -> str | None:
    """Return the first argument of a link that is not allowed, or None."""
    words = _without_side_outputs(_with_files(link, ["input.o"] * len(link.inputs)))
    rest = iter([word for word in words if word != "-Xlinker"])
    with_value = (*_allowed()["with_value"], *_allowed()["linker_with_value"])
    for word in rest:
        value = next(rest, "") if word in with_value else None
        if word.startswith("@") or (value or "").startswith("@"):
            return value or word
        if word.startswith("-Wl,"):
            refused = _refused_by_linker(word.split(",")[1:])
            if refused is not None:
                return refused
        elif value is None and word.startswith("-") and not _shapes_code(word):
            return word
    return None


def _shapes_code(word: str) -> bool:
    is_warning = word.startswith("-W") and not word.startswith(("-Wl,", "-Wp,", "-Wa,"))
    is_known = word in _allowed()["flags"] or word.startswith(_allowed()["joined"])
    return is_known or is_warning or bool(_MACHINE.fullmatch(word))


def _refused_by_linker(parts: list[str]) -> str | None:
    rest = iter(parts)
    for part in rest:
        value = next(rest, "") if part in _allowed()["linker_with_value"] else None
        if part.startswith("@") or (value or "").startswith("@"):
            return f"-Wl,{value or part}"
        is_known = part in _allowed()["linker_flags"] or part.startswith(_allowed()["linker_joined"])
        if value is None and part.startswith("-") and not is_known:
            return f"-Wl,{part}"
    return None


@lru_cache(maxsize=1)
def _allowed() -> dict[str, tuple[str, ...]]:
    table = json.loads(_ALLOWED.read_bytes())
    return {name: tuple(" ".join(lines).split()) for name, lines in table.items()}


def _with_files(link: Link, files: Iterable[str]) -> list[str]:
    """Return the arguments with other input files, and without the output."""
    words = list(link.arguments)
    for each, file in zip(link.inputs, files, strict=True):
        words[each.position] = _with_file(words[each.position], each.named, file)
    if link.output_position is None:
        return words
    first = link.output_position - (link.arguments[link.output_position] == link.output_named)
    return words[:first] + words[link.output_position + 1 :]


def _path_of(part: LinkPart, corpus: Path, objects: Mapping[str, Path]) -> Path:
    if part.module is None:
        return (corpus / str(part.file)).absolute()
    if part.module not in objects:
        raise CorpusError(f"expected an object for the module {part.module}, got none")
    return objects[part.module].absolute()


def _linked(path: Path, scratch: Path, name: str) -> Path:
    """Return a link to a file under a name whose suffix linkers know, relative to their working directory."""
    link = scratch / name
    if link.is_symlink() and link.readlink() != path.absolute():
        link = Path(tempfile.mkdtemp(dir=scratch)) / name
    if not link.is_symlink():
        link.symlink_to(path.absolute())
    return link.relative_to(scratch)


def _with_file(word: str, named: str, path: str) -> str:
    """Return an argument with another file."""
    parts = word.split(",") if word != named else [word]
    for position, part in enumerate(parts):
        if part == named or part.endswith(f"={named}"):
            parts[position] = f"{part.removesuffix(named)}{path}"
            break
    return ",".join(parts)


def _without_side_outputs(words: list[str]) -> list[str]:
    """Return arguments without those that write a second file or set the language of sources."""
    kept: list[str] = []
    for word in drop_options(words, ("-Wp,", "-save-temps="), _DROPPED_WITH_VALUE):
        if word.startswith("-Wl,"):
            parts = [part for part in word.split(",")[1:] if not part.startswith(_DROPPED_TO_LINKER) or "=" not in part]
            if parts:
                kept.append(",".join(["-Wl", *parts]))
        elif word not in _DROPPED:
            kept.append(word)
    return kept
