"""A recorded link step once more, with other objects in the place of its modules."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path

from mlgo_gym.corpus.driver_options import linker_command
from mlgo_gym.corpus.links import Link, LinkInput
from mlgo_gym.errors import CorpusError, UntrustedError
from mlgo_gym.llvm.toolchain import Toolchain, bundled_command
from mlgo_gym.session.bounded_run import run_bounded
from mlgo_gym.session.limits import DEFAULT_LIMITS, Limits
from mlgo_gym.storage.leftovers import temporary_folder

_FLAGS = frozenset(
    """
    -shared -static -static-pie -pie -no-pie -r -rdynamic -pthread -pthreads -s -pipe -w -c -nostdlib -nodefaultlibs
    -nostartfiles -static-libgcc -static-libstdc++ -fno-lto -flto -flto=thin -flto=full -flto=auto -ansi -pedantic
    -pedantic-errors -fPIC -fpic -fPIE -fpie -fno-PIC -fno-pic -fno-PIE -fno-pie -fuse-ld=lld -fuse-ld=bfd
    -fuse-ld=gold -fno-plt -fexceptions -fno-exceptions -frtti -fno-rtti -fomit-frame-pointer -fno-omit-frame-pointer
    -fstrict-aliasing -fno-strict-aliasing -fcommon -fno-common -ffunction-sections -fdata-sections
    -fno-function-sections -fno-data-sections -fvisibility-inlines-hidden -fstack-protector -fstack-protector-strong
    -fstack-protector-all -fno-stack-protector -fwrapv -ftrapv -fsemantic-interposition -fno-semantic-interposition
    -fmath-errno -fno-math-errno -ffast-math -fno-builtin -fsigned-char -funsigned-char -fident -fno-ident
    -fasynchronous-unwind-tables -fno-asynchronous-unwind-tables -funwind-tables -fno-unwind-tables -fcf-protection
    -fstack-clash-protection -fopenmp -fcolor-diagnostics -fno-color-diagnostics -fwhole-program-vtables
    -fsplit-lto-unit -ffreestanding -fno-threadsafe-statics -fmerge-all-constants -fno-plt -fstrict-flex-arrays
    """.split()  # noqa: SIM905 - a word list
)
_JOINED = (
    "-l", "-L", "-O", "-g", "-std=", "-march=", "-mtune=", "-mcpu=", "--target=", "-D", "-U", "-I", "-stdlib=",
    "-fvisibility=", "-fsanitize=", "-fno-sanitize", "-fcf-protection=", "-fdiagnostics-color", "-ffile-prefix-map=",
    "-fdebug-prefix-map=", "-fmacro-prefix-map=", "-fstrict-flex-arrays=", "-ffp-contract=",
)  # fmt: skip
_MACHINE = re.compile(r"-m(?!llvm)[a-z][a-z0-9.-]*")
_WITH_VALUE = frozenset({"-target", "-L", "-l", "-u", "-z", "-I", "-D", "-U", "-isystem"})
_TO_LINKER = frozenset(
    """
    --gc-sections --no-gc-sections --as-needed --no-as-needed --start-group --end-group --whole-archive
    --no-whole-archive -Bstatic -Bdynamic -Bsymbolic -Bsymbolic-functions --no-undefined --export-dynamic -E -s -S
    --strip-all --strip-debug --no-allow-shlib-undefined --allow-shlib-undefined --build-id --eh-frame-hdr -O0 -O1 -O2
    --enable-new-dtags --disable-new-dtags --relax --no-relax --copy-dt-needed-entries --no-copy-dt-needed-entries
    --push-state --pop-state --fatal-warnings --no-fatal-warnings --warn-common --cref -shared -pie -q --emit-relocs
    --allow-multiple-definition --discard-all -x --discard-locals -X -( -) --print-gc-sections -q -v -t
    """.split()  # noqa: SIM905 - a word list
)
_TO_LINKER_JOINED = (
    "--icf=", "--build-id=", "--hash-style=", "--sort-section=", "--sort-common", "--unresolved-symbols=", "-l", "-L",
    "--exclude-libs", "-z", "--compress-debug-sections=", "--lto-O", "--thinlto-jobs=", "--pack-dyn-relocs=",
    "--version-script=", "--dynamic-list=", "--retain-symbols-file=", "--undefined=", "--wrap=", "--defsym=",
    "--image-base=", "--entry=", "--soname=", "-soname=", "-rpath=", "--rpath=", "-rpath-link=", "--rpath-link=",
)  # fmt: skip
_TO_LINKER_WITH_VALUE = frozenset(
    """
    -soname --soname -h -rpath --rpath -rpath-link --rpath-link -z -u --undefined -e --entry -m --version-script
    --dynamic-list --wrap --defsym --exclude-libs --hash-style --sort-section -Ttext --icf
    """.split()  # noqa: SIM905 - a word list
)
_DROPPED = frozenset({"-MD", "-MMD", "-MP", "-MG", "-save-temps", "--save-temps", "--coverage", "-v"})
_DROPPED_WITH_VALUE = frozenset({"-MF", "-MT", "-MQ", "-MJ", "-x"})
_DROPPED_TO_LINKER = ("-Map", "--Map", "--dependency-file", "--out-implib")


def link_again(
    link: Link,
    corpus: Path,
    objects: Mapping[str, Path],
    output: Path,
    toolchain: Toolchain,
    *,
    libraries: Mapping[str, Path] | None = None,
    trust: bool = False,
    limits: Limits = DEFAULT_LIMITS,
) -> None:
    """Do a recorded link again.

    Args:
        link: one of `read_links`.
        corpus: the corpus that it is of.
        objects: an object file for each of `link.modules`.
        output: where the result goes.
        toolchain: the clang whose driver links; the bundled one brings a C library and libc++.
        libraries: by the output of their link, the shared libraries of the build that it is linked with.
        trust: whether to run its arguments whatever they are; else only those that shape the result.
        limits: how much each program of the link may take, the driver as the linker; it also ends after four times as
            many seconds as one of them may compute.

    Raises:
        UntrustedError: its arguments may do more than shape the result.
        CorpusError: the link fails, lacks something, or needs more than it may; the text has the linker's message.
        ToolchainError: it does not end in time.
    """
    if not trust:
        check_link_arguments(link)
    with temporary_folder() as scratch:
        words = _placed(link, corpus, objects, libraries or {}, scratch, limits)
        linker = linker_command(toolchain, link.driver, native=link.native)
        command = [*linker, *_without_side_outputs(words), "-o", str(output.absolute())]
        answer = run_bounded(
            command, writable=None, folder=scratch, timeout=_seconds(limits), limits=limits, name="the linker"
        )
    if answer.returncode != 0:
        raise CorpusError(
            f"{link.output} was to be linked again, and the linker said:\n{answer.stderr.strip()[-4000:]}"
        )


def _seconds(limits: Limits) -> float | None:
    return None if limits.processor is None else 4 * limits.processor


def check_link_arguments(link: Link) -> None:
    """Check that the arguments of a link from a stranger shape its result and do nothing else.

    Raises:
        UntrustedError: one is not on the list of those that do; the text names it.
    """
    refused = refused_link_argument(link)
    if refused is not None:
        raise UntrustedError(
            f"the link of {link.output}: its argument {refused!r} is none of those that only shape the result, so it "
            "is not run. If you know who made the corpus, say so: --trust, trust=True"
        )


def refused_link_argument(link: Link) -> str | None:
    """Return the first argument of a link that is not on the list, or None."""
    words = [word for word in _without_side_outputs(_with_placeholders(link)) if word != "-Xlinker"]
    skip = False
    for word in words:
        if word.startswith("@"):
            return word
        if skip:
            skip = False
        elif word in _WITH_VALUE or word in _TO_LINKER_WITH_VALUE:
            skip = True
        elif word.startswith("-Wl,"):
            refused = _refused_by_linker(word.split(",")[1:])
            if refused is not None:
                return refused
        elif word.startswith("-") and not _shapes_code(word):
            return word
    return None


def _shapes_code(word: str) -> bool:
    is_warning = word.startswith("-W") and not word.startswith(("-Wl,", "-Wp,", "-Wa,"))
    return word in _FLAGS or word.startswith(_JOINED) or is_warning or bool(_MACHINE.fullmatch(word))


def _refused_by_linker(parts: list[str]) -> str | None:
    skip = False
    for part in parts:
        if part.startswith("@"):
            return f"-Wl,{part}"
        if skip:
            skip = False
        elif part in _TO_LINKER_WITH_VALUE:
            skip = True
        elif part.startswith("-") and part not in _TO_LINKER and not part.startswith(_TO_LINKER_JOINED):
            return f"-Wl,{part}"
    return None


def _with_placeholders(link: Link) -> list[str]:
    """Return the arguments without the files of the build that they name: what is left is what somebody wrote."""
    return _with_files(link, ["input.o"] * len(link.inputs))


def _with_files(link: Link, files: Iterable[str]) -> list[str]:
    """Return the arguments with a file in the place of each input, and without the output."""
    words = list(link.arguments)
    for each, file in zip(link.inputs, files, strict=True):
        words[each.position] = _with_file(words[each.position], each.named, file)
    return _without_output(link, words)


def _placed(
    link: Link,
    corpus: Path,
    objects: Mapping[str, Path],
    libraries: Mapping[str, Path],
    scratch: Path,
    limits: Limits,
) -> list[str]:
    archives = [scratch / f"{number}-{Path(each.named).name}" for number, each in enumerate(link.inputs)]
    placed = (
        _place(each, corpus, objects, libraries, archive, limits)
        for each, archive in zip(link.inputs, archives, strict=True)
    )
    return _with_files(link, map(str, placed))


def _place(
    each: LinkInput,
    corpus: Path,
    objects: Mapping[str, Path],
    libraries: Mapping[str, Path],
    archive: Path,
    limits: Limits,
) -> Path:
    if each.link is not None:
        if each.link not in libraries:
            raise CorpusError(f"it is linked with {each.link}: link that first, and give it with libraries=")
        return _called(libraries[each.link], archive.parent, Path(each.link).name)
    paths = []
    for part in each.parts:
        if part.module is not None and part.module not in objects:
            raise CorpusError(f"an object for the module {part.module} is linked, and none was given")
        paths.append((objects[part.module] if part.module is not None else corpus / str(part.file)).absolute())
    if each.kind in ("object", "source") and paths[0].suffix != ".o":
        return _called(paths[0], archive.parent, f"{archive.name}.o")
    if each.kind != "archive":
        return paths[0]
    made = archive.with_suffix(".a")
    command = [*bundled_command("ar"), "qcs", str(made), *map(str, paths)]
    answer = run_bounded(command, writable=None, timeout=_seconds(limits), limits=limits, name="the archiver")
    if answer.returncode != 0:
        raise CorpusError(f"the archive {each.named} was to be made again: {answer.stderr.strip()}")
    return made


def _called(path: Path, scratch: Path, name: str) -> Path:
    """Return a file under a name that tells linkers what it is, relative to where they run: a library's may stay."""
    link = scratch / name
    if link.is_symlink() and link.readlink() != path.absolute():
        link = Path(tempfile.mkdtemp(dir=scratch)) / name
    if not link.is_symlink():
        link.symlink_to(path.absolute())
    return link.relative_to(scratch)


def _with_file(word: str, named: str, path: str) -> str:
    """Return an argument with another file in the place of the one that it names."""
    if word == named:
        return path
    parts = word.split(",")
    for position, part in enumerate(parts):
        if part == named or part.endswith(f"={named}"):
            parts[position] = f"{part.removesuffix(named)}{path}"
            break
    return ",".join(parts)


def _without_output(link: Link, words: list[str]) -> list[str]:
    if link.output_position is None:
        return words
    first = link.output_position - (link.arguments[link.output_position] == link.output_named)
    return words[:first] + words[link.output_position + 1 :]


def _without_side_outputs(words: list[str]) -> list[str]:
    """Return arguments without those that write a second file, or name the language of sources."""
    kept: list[str] = []
    rest = iter(words)
    for word in rest:
        if word in _DROPPED_WITH_VALUE:
            next(rest, None)
        elif word.startswith("-Wl,"):
            parts = [part for part in word.split(",")[1:] if not part.startswith(_DROPPED_TO_LINKER) or "=" not in part]
            if parts:
                kept.append(",".join(["-Wl", *parts]))
        elif word not in _DROPPED and not word.startswith(("-Wp,", "-save-temps=")):
            kept.append(word)
    return kept
