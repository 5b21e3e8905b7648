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


class Invocation:
    """The meaning of a command line of clang.

    Attributes:
        source: the one source that is compiled to one object; empty for other work.
        output: the object; empty if clang chooses its name.
        level: the letters after the last `-O`; `0` without one.
        reason: why the command line is no ordinary compile; empty if it is one.
        links: whether it links its inputs.
    """

    __slots__ = ("level", "links", "output", "reason", "source")

    def __init__(self, source: str, output: str, level: str, reason: str, *, links: bool = False) -> None:
        self.source = source
        self.output = output
        self.level = level
        self.reason = reason
        self.links = links


def read_invocation(arguments: Sequence[str]) -> Invocation:
    """Return the meaning of the words after the program's name; an unclear command line is no ordinary compile."""
    language, cc1_level, level = "", "", "0"
    output = ""
    compiles = False
    inputs: list[tuple[str, str]] = []
    words = iter(expand_response_files(arguments))
    for word in words:
        if word == "--":
            inputs += ((rest, language) for rest in words)
        elif word == "-c" or word == "--compile":
            compiles = True
        elif word in _OTHER_WORK or word.startswith(_OTHER_WORK_JOINED):
            return Invocation("", "", level, f"{word} requests other work")
        elif word in _TAKE_A_VALUE:
            value = next(words, "")
            if word == "-o" or word == "--output":
                output = value
            elif word == "-x" or word == "--language":
                language = value
            elif word == "-Xclang" and value.startswith("-O"):
                cc1_level = value[2:]
            elif (word == "-mllvm" and "interactive" in value) or value.startswith(_ADVISORS):
                return Invocation("", "", level, "it selects an advisor")
            elif word == "-Xclang" and value in ("-disable-llvm-passes", "-disable-llvm-optzns"):
                return Invocation("", "", level, "it switches optimisations off")
        elif word == "-" or not word.startswith("-"):
            inputs.append((word, language))
        elif word.startswith(("-o", "--output=")):
            output = word.partition("=")[2] if word.startswith("--") else word[2:]
        elif word.startswith("-x"):
            language = word[2:]
        elif word.startswith("--language="):
            language = word.partition("=")[2]
        elif word.startswith("-O"):
            level = word[2:] or "1"
    level = cc1_level or level
    if not compiles:
        return Invocation("", "", level, "it does not compile to an object", links=bool(inputs))
    if len(inputs) != 1:
        return Invocation("", "", level, f"it has {len(inputs)} inputs")
    source, language = inputs[0]
    if source == "-" or output == "-":
        return Invocation("", "", level, "a standard stream can be used only once")
    if language in ("", "none"):
        if os.path.splitext(source)[1] not in _SUFFIXES:
            return Invocation("", "", level, "the input is neither C nor C++")
    elif language not in _LANGUAGES:
        return Invocation("", "", level, f"the language is {language}")
    if not os.path.isfile(source):
        return Invocation("", "", level, "the input is no regular file")
    if os.path.exists(output) and (not os.path.isfile(output) or os.path.samefile(output, source)):
        return Invocation("", "", level, "the output is no object of its own")
    return Invocation(source, output, level, "")


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
