"""Command lines of clang: only an ordinary compile of one C or C++ source to one object uses a policy."""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

_SUFFIXES = frozenset((".c", ".cc", ".cp", ".cpp", ".cxx", ".c++", ".C", ".CPP", ".i", ".ii"))
_LANGUAGES = frozenset(("c", "c++", "cpp-output", "c++-cpp-output"))

_TAKE_A_VALUE = frozenset(
    """
    -o -x -I -D -U -F -L -l -T -u -z -e -h -A -MF -MT -MQ -MJ -Xclang -Xassembler -Xlinker -Xpreprocessor -Xanalyzer
    -Xarch_host -Xarch_device -mllvm -mmlir -include -imacros -include-pch -isystem -iquote -idirafter -iprefix
    -iwithprefix -iwithprefixbefore -iwithsysroot -isysroot -iframework -iframeworkwithsysroot -isystem-after
    -cxx-isystem -stdlib++-isystem -target -arch -aux-info -working-directory -dependency-file -dependency-dot
    -fplugin-arg -main-file-name -ivfsoverlay -serialize-diagnostics --serialize-diagnostics -G --param --sysroot
    --include-directory --define-macro --undefine-macro --include --output --language --config -B -current_version
    """.split()  # noqa: SIM905 - a word list
)
"""Options whose value is the next word, which could otherwise be taken for an input."""

_OTHER_WORK = frozenset(
    """
    -S -E -M -MM -fsyntax-only -### -emit-llvm -emit-ast -emit-pch -emit-interface-stubs -embed-bitcode
    --analyze -module-file-info --migrate -rewrite-objc -rewrite-legacy-objc -frecord-command-line
    -grecord-command-line -fembed-bitcode -fembed-bitcode-marker -fno-integrated-as -fno-integrated-cc1 -v
    --assemble --preprocess --precompile -extract-api -verify-pch -print-supported-cpus -fdriver-only -help -version
    -ObjC -ObjC++
    """.split()  # noqa: SIM905 - a word list
)
_OTHER_WORK_JOINED = tuple(
    """
    -MJ -save-temps --save-temps -flto -fembed-bitcode= -fthinlto-index -fproc-stat-report -ccc-print --help --version
    """.split()  # noqa: SIM905 - likewise
)
"""Options that make clang do more or other work, or show or keep its own command line."""

_ADVISORS = ("-enable-ml-inliner", "-regalloc-enable-")
_NO_PASSES = ("-disable-llvm-passes", "-disable-llvm-optzns")

_PASSED_ON = ("-Xclang", "-Xpreprocessor", "-Xarch_host", "-Xarch_device")
_PASSED_ON_JOINED = ("--config", "--optimize", "--rsp-quoting", "-Xarch_", "-Xclang=")
"""Options that name a file with flags, or pass a flag on to a part of clang."""

_NO_LTO = "build without -flto, or use the plugin"
_NO_LINK = "compile with -c, and link the object with another command"
_ONE_SOURCE = "compile each source with a command of its own"

OVERRIDE = "CCC_OVERRIDE_OPTIONS"
"""The variable with edits of clang's command line."""

_PROBE_NAMES = ("conftest", "_configtest", "CMakeCCompilerABI", "CMakeCXXCompilerABI", "sanitycheck", "ztest")
_PROBE_FOLDERS = (
    "/CMakeFiles/CMakeTmp/", "/CMakeFiles/CMakeScratch/", "/CMakeFiles/CheckTypeSize/", "/CMakeFiles/FeatureTests/",
    "/CompilerIdC/", "/CompilerIdCXX/", "/meson-private/", "/.sconf_temp/", "/.conf_check_",
)  # fmt: skip


class Invocation:
    """The meaning of a command line of clang.

    Attributes:
        source: the one source that is compiled to one object; empty for other work.
        output: the object; empty if clang chooses its name.
        level: the level of the last `-O`, as `level_of` returns it; `0` without one.
        reason: why the command line is no ordinary compile; empty if it is one.
        remedy: change of the build after which a policy decides; empty if there is none.
        links: whether it links its inputs.
        is_clear: whether the words name all flags for the level.
    """

    def __init__(
        self,
        source: str,
        output: str,
        level: str,
        reason: str = "",
        remedy: str = "",
        *,
        links: bool = False,
        is_clear: bool = True,
    ) -> None:
        self.source, self.output, self.level = source, output, level
        self.reason, self.remedy, self.links, self.is_clear = reason, remedy, links, is_clear


def read_invocation(arguments: Sequence[str]) -> Invocation:
    """Return the meaning of the words after the program's name; an unclear command line is no ordinary compile."""
    language, level, output = "", "0", ""
    reason = ""
    other_work: list[str] = []
    compiles, is_clear = False, True
    inputs: list[tuple[str, str]] = []
    words = iter(expand_response_files(arguments))
    for word in words:
        if word == "--":
            inputs += ((rest, language) for rest in words)
        elif word == "-c" or word == "--compile":
            compiles = True
        elif word in _OTHER_WORK or word.startswith(_OTHER_WORK_JOINED):
            other_work.append(next((option for option in _OTHER_WORK_JOINED if word.startswith(option)), word))
        elif word == "-fno-lto":
            other_work = [option for option in other_work if option != "-flto"]
        elif word in _TAKE_A_VALUE:
            value = next(words, "")
            if word == "-o" or word == "--output":
                output = value
            elif word == "-x" or word == "--language":
                language = value
            elif word == "--config" or (word in _PASSED_ON and value.startswith("-O")):
                is_clear = False
            elif word == "-mllvm" or word == "-Xclang":
                reason = reason or reason_of_flag(value)
        elif word == "-" or not word.startswith("-"):
            inputs.append((word, language))
        elif word.startswith(("-o", "--output=")):
            output = word.partition("=")[2] if word.startswith("--") else word[2:]
        elif word.startswith("-x"):
            language = word[2:]
        elif word.startswith("--language="):
            language = word.partition("=")[2]
        elif word.startswith("-O"):
            level = level_of(word)
        elif word.startswith(_PASSED_ON_JOINED) or (word.startswith("-Wp,") and ",-O" in word):
            is_clear = False
    sources = [source for source, language in inputs if not _problem_of_input(source, language)]
    links, remedy = False, ""
    if other_work:
        reason, remedy = f"{other_work[0]} requests other work", _NO_LTO if set(other_work) == {"-flto"} else ""
    elif not reason and not compiles:
        reason, remedy, links = "it does not compile to an object", _NO_LINK, bool(inputs)
    elif not reason and len(inputs) != 1:
        reason, remedy = f"it has {len(inputs)} inputs", _ONE_SOURCE
    elif not reason:
        reason = "a standard stream can be used only once" if output == "-" else _problem_of_input(*inputs[0])
    source = sources[0] if sources else ""
    if not reason and os.path.exists(output) and (not os.path.isfile(output) or os.path.samefile(output, source)):
        reason = "the output is no object of its own"
    return Invocation(source, output, level, reason, remedy if source else "", links=links, is_clear=is_clear)


def _problem_of_input(source: str, language: str) -> str:
    """Return why an input is no source of C or C++; empty if it is one."""
    if source == "-":
        return "a standard stream can be used only once"
    if language in ("", "none"):
        if os.path.splitext(source)[1] not in _SUFFIXES:
            return "the input is neither C nor C++"
    elif language not in _LANGUAGES:
        return f"the language is {language}"
    return "" if os.path.isfile(source) else "the input is no regular file"


def reason_of_flag(flag: str) -> str:
    """Return why no policy can decide with a flag of `-Xclang`, `-mllvm` or `-cc1`; empty if one can."""
    if flag in _NO_PASSES:
        return "it switches optimisations off"
    return "it selects an advisor" if flag.startswith(_ADVISORS) or "-interactive-" in flag else ""


def level_of(word: str) -> str:
    """Return the level that clang makes of a flag `-O…`: `0`, `1`, `2`, `3`, `s` or `z`; other letters as they are."""
    level = word.removeprefix("-").removeprefix("O")
    if level.isascii() and level.isdigit():
        return str(min(int(level), 3))
    return {"": "1", "g": "1", "fast": "3"}.get(level, level)


def finds_flags_elsewhere(program: str) -> bool:
    """Return whether a compiler may add flags to its command line: from a variable, a script or a default file.

    Clang reads `clang.cfg`, `TRIPLE.cfg` and the like in the folder of its program.
    """
    if os.environ.get(OVERRIDE):
        return True
    try:
        with open(program, "rb") as file:
            folder = os.path.dirname(os.path.realpath(program))
            return file.read(2) == b"#!" or any(name.endswith(".cfg") for name in os.listdir(folder))
    except OSError:
        return False


def is_probe(source: str, folder: str) -> bool:
    """Return whether a source in a working directory is a feature test of configure, CMake, Meson or setuptools."""
    if os.path.basename(source).startswith(_PROBE_NAMES):
        return True
    return any(probe in f"{source}/" or probe in f"{folder}/" for probe in _PROBE_FOLDERS)


def expand_response_files(arguments: Sequence[str], folder: str = "", outer: tuple[str, ...] = ()) -> list[str]:
    """Return the arguments with each readable response file `@FILE`, also in another one, replaced by its contents.

    Paths are relative to `folder`, as in clang. A file in itself stays, and clang reports it.
    """
    expanded = []
    for argument in arguments:
        path = os.path.join(folder, argument[1:]) if argument.startswith("@") else ""
        try:
            words = _words_of_file(path) if path not in outer and os.path.isfile(path) else None
        except (OSError, ValueError):  # clang reports the problem
            words = None
        expanded += [argument] if words is None else expand_response_files(words, folder, (*outer, path))
    return expanded


def _words_of_file(path: str) -> list[str]:
    import shlex

    with open(path, "rb") as file:
        return shlex.split(os.fsdecode(file.read().removeprefix(b"\xef\xbb\xbf")))
