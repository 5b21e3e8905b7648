"""Command lines of clang: their meaning, the commands that its driver prints with `-###`, and edits of both."""

from __future__ import annotations

import os

from mlgo_clang.compiler import MULTIARCH

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Container, Mapping, Sequence

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


_FILE = "Configuration file: "


def read_commands(text: str) -> list[list[str]]:
    """Return the words of each command; other lines are messages.

    The driver writes a backslash before each quote, backslash and dollar (`Command::printArg` in clang's Job.cpp).
    Unlike in a shell, a word may contain line breaks.
    """
    commands: list[list[str]] = []
    position = 0
    while position < len(text):
        words = []
        while text.startswith(' "', position):
            end, word = position + 2, ""
            while (stop := _end_of_piece(text, end)) >= 0 and text[stop] == "\\":
                word += text[end:stop] + text[stop + 1 : stop + 2]
                end = stop + 2
            if stop < 0:
                break
            words.append(word + text[end:stop])
            position = stop + 1
        if words:
            commands.append(words)
        line_break = text.find("\n", position)
        position = len(text) if line_break < 0 else line_break + 1
    return commands


def _end_of_piece(text: str, start: int) -> int:
    """Return the position of the next quote or backslash; -1 for none."""
    quote, backslash = text.find('"', start), text.find("\\", start)
    return quote if backslash < 0 else min(quote, backslash)


def cc1_commands(text: str) -> list[list[str]]:
    """Return the commands of compiles, from `-cc1` on."""
    return [words[words.index("-cc1") :] for words in read_commands(text) if "-cc1" in words]


def shown_text(
    command: Sequence[str],
    rest: Sequence[str] = (),
    seconds: float = 60.0,
    environment: Mapping[str, str] | None = None,
) -> str:
    """Return the output of a driver with `-###`; an empty text if it fails, or is silent for too long.

    The arguments in `rest` may contain a `--`, after which all words are inputs. Default of the environment: that of
    this process.
    """
    import subprocess

    words = [*command, "-###", *rest]
    try:
        shown = subprocess.run(
            words, stdin=subprocess.DEVNULL, capture_output=True, check=False, timeout=seconds, env=environment
        )
    except subprocess.TimeoutExpired:
        return ""
    return "" if shown.returncode else os.fsdecode(shown.stderr)


def shown_commands(
    command: Sequence[str], seconds: float = 60.0, environment: Mapping[str, str] | None = None
) -> list[list[str]]:
    """Return the commands that a driver would run; none if it fails, or is silent for too long."""
    return read_commands(shown_text(command, seconds=seconds, environment=environment))


def drop_options(words: Sequence[str], joined: tuple[str, ...], with_value: Container[str]) -> list[str]:
    """Return arguments without options that begin with one of `joined`, or that take the next word as their value."""
    remaining: list[str] = []
    rest = iter(words)
    for word in rest:
        if word in with_value:
            next(rest, None)
        elif not word.startswith(joined):
            remaining.append(word)
    return remaining


def named_output(arguments: Sequence[str]) -> tuple[int, str] | None:
    """Return the output that driver arguments name last, and the position of the argument with it; None without one."""
    output = None
    for position, word in enumerate(arguments):
        if word in ("-o", "--output") and position + 1 < len(arguments):
            output = position + 1, arguments[position + 1]
        elif word.startswith("--output="):
            output = position, word.removeprefix("--output=")
        elif word.startswith("-o") and len(word) > 2 and not word.startswith(("-object", "-objc", "-opt-")):
            output = position, word[2:]
    return output


def target_of(arguments: Sequence[str]) -> str:
    """Return the last target that a command line names; empty if it is that of this machine, or there is none.

    The command line is of clang's driver, of its `-cc1`, or of rustc.
    """
    target = before = ""
    for word in arguments:
        if word.startswith("--target="):
            target = word.removeprefix("--target=")
        elif before in ("-target", "-triple", "--target"):
            target = word
        before = word
    return "" if target == MULTIARCH else target


def ask_driver(compiler: Sequence[str], rest: Sequence[str], invocation: Invocation) -> tuple[Invocation, str]:
    """Return the meaning of an ordinary compile with all flags that clang finds, and the target that they name.

    Args:
        compiler: the words that start clang.
        rest: its arguments.
        invocation: the meaning of the arguments alone.
    """
    text, target = shown_text(compiler, rest), ""
    files = [line.removeprefix(_FILE) for line in text.splitlines() if line.startswith(_FILE)]
    if "-target" in _contents(files) + os.environ.get(OVERRIDE, "") and not target_of(rest):
        # The default target of the bundled clang would replace that of a file.
        text = shown_text([word for word in compiler if not word.startswith("--target=")], rest)
        target = target_of(text.replace('"', "").split())
    commands = read_commands(text)
    line = commands[0] if len(commands) == 1 else []
    if "-emit-obj" not in line:
        return Invocation(invocation.source, invocation.output, "0", "its other flags request other work"), target
    levels = [level_of(word) for word in line if word.startswith("-O")]
    reason = next(filter(None, map(reason_of_flag, line)), "")
    return Invocation(invocation.source, invocation.output, levels[-1] if levels else "0", reason), target


def _contents(paths: Sequence[str], outer: tuple[str, ...] = ()) -> str:
    """Return the text of configuration files, and of those that they include by `@FILE`."""
    text = ""
    for path in paths:
        if path not in outer and os.path.isfile(path):
            with open(path, encoding="utf-8", errors="replace") as file:
                content = file.read()
            folder = os.path.dirname(path)
            words = content.replace("<CFGDIR>", folder).split()
            nested = [os.path.join(folder, word[1:]) for word in words if word.startswith("@")]
            text += content + _contents(nested, (*outer, path))
    return text
