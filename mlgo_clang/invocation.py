"""The meaning of a command line of clang's driver: whether it compiles one source to one object, and at which level."""

from __future__ import annotations

import os
import stat

from mlgo_clang.command_lines import (
    configured_words,
    drop_options,
    expand_response_files,
    level_of,
    read_commands,
    shown_text,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

_SUFFIXES = frozenset(
    ".c .cc .cp .cpp .cxx .c++ .C .CC .CPP .CXX .i .ii .m .mm .M .mi .mii .ll .bc".split()  # noqa: SIM905 - a word list
)
_LANGUAGES = frozenset(
    """
    c c++ cpp-output c++-cpp-output objective-c objective-c++ objective-c-cpp-output objective-c++-cpp-output ir
    """.split()  # noqa: SIM905 - a word list
)
_OTHER_SUFFIXES = frozenset(
    ".cl .clcpp .cu .cui .hip .hipi .hlsl .cppm .ccm .cxxm .c++m .ixx .iim".split()  # noqa: SIM905 - a word list
)

_TAKE_A_VALUE = frozenset(
    """
    --CLASSPATH --analyzer-output --assert --bootclasspath --classpath --config --define-macro --dyld-prefix --encoding
    --extdirs --for-linker --force-link --imacros --include --include-directory --include-directory-after
    --include-prefix --include-with-prefix --include-with-prefix-after --include-with-prefix-before --language
    --library-directory --mhwdiv --no-system-header-prefix --output --output-class-directory --param --prefix
    --print-file-name --print-prog-name --resource --rtlib --serialize-diagnostics --specs --std --stdlib --sysroot
    --system-header-prefix --undefine-macro --vfsoverlay -A -B -D -F -G -I -L -MF -MJ -MQ -MT -T -U -V -Xanalyzer
    -Xarch_device -Xarch_host -Xassembler -Xclang -Xclangas -Xcuda-fatbinary -Xcuda-ptxas -Xlinker
    -Xmicrosoft-visualc-tools-root -Xmicrosoft-visualc-tools-version -Xmicrosoft-windows-sdk-root
    -Xmicrosoft-windows-sdk-version -Xmicrosoft-windows-sys-root -Xopenmp-target -Xpreprocessor -Zlinker-input
    -alias_list -allowable_client -arch -arch_only -b -bundle_loader -ccc-gcc-name -ccc-install-dir -client_name
    -compatibility_version -current_version -cxx-isystem -darwin-target-variant -darwin-target-variant-triple
    -dependency-dot -dependency-file -dsym-dir -dumpdir -dylib_file -dylinker_install_name -e -exported_symbols_list
    -fdebug-compilation-dir -fexperimental-openacc-macro-override -filelist -fmodule-implementation-of
    -fmodules-user-build-path -fnew-alignment -force_load -framework -ftrapv-handler -gen-cdb-fragment-path -hlsl-entry
    -iapinotes-modules -idirafter -iframework -iframeworkwithsysroot -imacros -image_base -imultilib -include
    -include-pch -init -install_name -interface-stub-version= -iprefix -iquote -isysroot -isystem -isystem-after
    -ivfsoverlay -iwithprefix -iwithprefixbefore -iwithsysroot -l -lazy_framework -lazy_library -meabi -mllvm -mmlir
    -module-dependency-dir -mthread-model -multiply_defined -multiply_defined_unused -o -object-file-name
    -pagezero_size -read_only_relocs -reexport_framework -reexport_library -resource-dir -rpath -seg1addr
    -seg_addr_table -seg_addr_table_filename -segs_read_only_addr -segs_read_write_addr -serialize-diagnostics -specs
    -stdlib++-isystem -sub_library -sub_umbrella -target -u -umbrella -undefined -unexported_symbols_list -vfsoverlay
    -weak_framework -weak_library -weak_reference_mismatches -working-directory -x -z
    """.split()  # noqa: SIM905 - a word list
)
"""Options whose value is the next word: `Separate` and `JoinedOrSeparate` in clang's `Options.td`."""

_JOINED_AND_VALUE = ("-Xarch_", "-Xoffload-linker", "-Xopenmp-target=")
"""Beginnings of options whose value is the next word: `JoinedAndSeparate` there."""

_OTHER_WORK = frozenset(
    """
    -S -E -M -MM -fsyntax-only -### -emit-llvm -emit-ast -emit-cir -emit-pch -emit-interface-stubs -embed-bitcode
    --analyze -module-file-info --migrate -rewrite-objc -rewrite-legacy-objc -frecord-command-line
    -grecord-command-line -fembed-bitcode -fembed-bitcode-marker -fno-integrated-as -no-integrated-as
    -fno-integrated-cc1 -no-integrated-cpp --no-integrated-cpp -via-file-asm --via-file-asm -v --verbose --assemble
    --preprocess --precompile --dependencies --user-dependencies -extract-api -verify-pch -fdriver-only -fsycl
    --sycl-link -help -version -dumpmachine -dumpversion -dumpspecs -mcpu=help -mtune=help
    """.split()  # noqa: SIM905 - a word list
)
_OTHER_WORK_JOINED = tuple(
    """
    -MJ -save-temps --save-temps -flto -fembed-bitcode= -fthinlto-index -fproc-stat-report -ccc-print --help --version
    -print- --print- -fmodule-header --autocomplete= -sect -seg
    """.split()  # noqa: SIM905 - likewise
)
"""Options that make clang do more or other work, show or keep its own command line, or take several values."""

_PRINTING_VARIABLES = ("CC_PRINT_", "CC_LOG_DIAGNOSTICS", "RC_DEBUG_OPTIONS")
"""Beginnings of variables by which clang prints or keeps its command lines, headers or times."""

_ADVISORS = ("-enable-ml-inliner", "-regalloc-enable-")
_NO_PASSES = ("-disable-llvm-passes", "-disable-llvm-optzns")

_PASSED_ON = ("-Xclang", "-Xpreprocessor", "-Xarch_")
_PASSED_ON_JOINED = ("--config", "--optimize", "--rsp-quoting", "-Xarch_", "-Xclang=")
"""Options that name a file with flags, or pass a flag on to a part of clang."""

_INTEGRATED = "build with the assembler of clang"
_REMEDIES = {
    "-flto": "before the link it would make programs larger; build without -flto, use the plugin, or link ThinLTO with "
    "-Wl,-mllvm,-import-instr-limit=0",
    "-fno-integrated-as": _INTEGRATED,
    "-no-integrated-as": _INTEGRATED,
}
_NO_LINK = "compile with -c, and link the object with another command"
_ONE_SOURCE = "compile each source with a command of its own"
_KNOWN_LANGUAGE = "a policy decides in C, C++, Objective-C and LLVM IR"
_NO_STREAM = "write it to a regular file"

_OVERRIDE = "CCC_OVERRIDE_OPTIONS"
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


def read_invocation(words: Sequence[str]) -> Invocation:
    """Return the meaning of the expanded words after the program's name; an unclear command line has `is_clear` False.

    `-Xclang` passes its value on, as `-Wp,` does with what follows; both can name another level.
    """
    language, level, output = "", "0", ""
    reason = ""
    other_work: list[str] = []
    compiles, is_clear = False, True
    inputs: list[tuple[str, str]] = []
    remaining = iter(words)
    for word in remaining:
        if word == "--":
            inputs += ((rest, language) for rest in remaining)
        elif word == "-c" or word == "--compile":
            compiles = True
        elif word in _OTHER_WORK or word.startswith(_OTHER_WORK_JOINED):
            other_work.append(next((option for option in _OTHER_WORK_JOINED if word.startswith(option)), word))
        elif word == "-fno-lto":
            other_work = [option for option in other_work if option != "-flto"]
        elif word in _TAKE_A_VALUE or word.startswith(_JOINED_AND_VALUE):
            value = next(remaining, "")
            if word == "-o" or word == "--output":
                output = value
            elif word == "-x" or word == "--language":
                language = value
            elif word == "--config" or (value.startswith("-O") and word.startswith(_PASSED_ON)):
                is_clear = False
            elif word == "-mllvm" or word == "-Xclang":
                reason = reason or reason_of_flag(value, word)
        elif word == "-" or not word.startswith("-"):
            inputs.append((word, language))
        elif word.startswith(("-o", "--output=")):
            output = word.partition("=")[2] if word.startswith("--") else word[2:]
        elif word.startswith("-x"):
            language = word[2:]
        elif word.startswith("--language="):
            language = word.partition("=")[2]
        elif word == "-ObjC" or word == "-ObjC++":
            language = word.replace("-ObjC", "objective-c").lower()
        elif word.startswith("-O"):
            level = level_of(word)
        elif word.startswith(_PASSED_ON_JOINED) or (word.startswith("-Wp,") and ",-O" in word):
            is_clear = False
    sources = [source for source, language in inputs if not _problem_of_input(source, language)[0]]
    source = sources[0] if sources else ""
    links, remedy = False, ""
    if other_work:
        reason = f"{other_work[0]} requests other work"
        remedy = _REMEDIES.get(other_work[0], "") if source and len({*other_work}) == 1 else ""
    elif not reason and not compiles:
        reason, links, remedy = "it does not compile to an object", bool(inputs), _NO_LINK if source else ""
    elif not reason and len(inputs) != 1:
        reason, remedy = f"it has {len(inputs)} inputs", _ONE_SOURCE if source else ""
    elif not reason and output == "-":
        reason = "a standard stream can be used only once"
    elif not reason:
        reason, remedy = _problem_of_input(*inputs[0])
    if not reason and (stream := named_stream(words)):
        reason, remedy = f"{stream} can be used only once", _NO_STREAM
    if not reason and any(variable.startswith(_PRINTING_VARIABLES) for variable in os.environ):
        reason = "a variable makes clang print its work"
    if not reason and os.path.exists(output) and (not os.path.isfile(output) or os.path.samefile(output, source)):
        reason = "the output is no object of its own"
    source = source or (inputs[0][0] if remedy else "")
    return Invocation(source, output, level, reason, remedy, links=links, is_clear=is_clear)


def _problem_of_input(source: str, language: str) -> tuple[str, str]:
    """Return why a policy does not decide in an input, and a remedy if there is one; two empty texts if it decides."""
    if source == "-":
        return "a standard stream can be used only once", ""
    if language in ("", "none"):
        suffix = os.path.splitext(source)[1]
        if suffix not in _SUFFIXES:
            return f"its suffix is {suffix}", _KNOWN_LANGUAGE if suffix in _OTHER_SUFFIXES else ""
    elif language not in _LANGUAGES:
        return f"the language is {language}", "" if language.startswith("assembler") else _KNOWN_LANGUAGE
    return ("", "") if os.path.isfile(source) else ("the input is no regular file", "")


_STREAMS = ("/dev/stdin", "/dev/fd/", "/proc/")
_FILES_JOINED = ("-include", "-imacros", "-MF", "-ivfsoverlay", "-vfsoverlay", "-o")
"""Options that clang's table has as `JoinedOrSeparate`, whose value is a file."""


def named_stream(words: Sequence[str]) -> str:
    """Return the first file in the words that can be read or written only once; empty without one.

    A second reader of a pipe finds nothing, or waits for ever.
    """
    for word in words:
        if word.startswith(("-D", "-U")):
            continue
        names = word.replace("=", ",").split(",") if "=" in word or "," in word else [word]
        for name in names:
            if name.startswith("-") and name != "-":
                option = next((option for option in _FILES_JOINED if name.startswith(option)), "")
                name = name[len(option) :] if option else ""
            name = name.removeprefix("@")
            if name == "-" or (name and is_stream(name)):
                return name
    return ""


def is_stream(name: str) -> bool:
    """Return whether a path is that of a pipe, a device or a descriptor of this process."""
    try:
        mode = os.stat(name).st_mode
    except (OSError, ValueError):
        return False
    if stat.S_ISREG(mode):
        return name.startswith(_STREAMS)
    return not stat.S_ISDIR(mode) and name != os.devnull


def linker_words(words: Sequence[str]) -> list[str]:
    """Return the words of a link command, also those that `-Wl,` and `-Xlinker` pass to the linker."""
    passed = (word.split(",")[1:] if word.startswith("-Wl,") else [word] for word in words if word != "-Xlinker")
    return [part for parts in passed for part in parts]


def folding_of_link(words: Sequence[str]) -> str:
    """Return the mode of identical code folding with which a command line links: `none`, `safe` or `all`."""
    options = (word.partition("=") for word in linker_words(words))
    return (["none"] + [mode for option, _, mode in options if option in ("--icf", "-icf")])[-1]


_ACTIONS = frozenset(
    """
    -E -Eonly -S -analyze -ast-list -compiler-options-dump -emit-codegen-only -emit-html -emit-interface-stubs
    -emit-llvm -emit-llvm-bc -emit-llvm-only -emit-merged-ifs -emit-module -emit-pch -emit-symbol-graph -fsyntax-only
    -help -init-only -migrate -test-io -templight-dump -verify -version
    """.split()  # noqa: SIM905 - a word list
)
_ACTIONS_JOINED = (
    "-analyzer-checker-", "-analyzer-config-help", "-analyzer-list-", "-ast-dump", "-ast-print", "-ast-view", "-dump-",
    "-fdump-", "-fixit", "-print-", "-rewrite-",
)  # fmt: skip
"""Options of `-cc1` that replace the compile, or with which the front end prints more than messages."""


def reason_of_flag(flag: str, before: str = "-mllvm") -> str:
    """Return why no policy can decide with a flag of LLVM or, after another word, of `-cc1`; empty if one can."""
    if before != "-mllvm" and (flag in _ACTIONS or flag.startswith(_ACTIONS_JOINED)):
        return f"{flag} requests other work"
    if before == "-Xclang" and flag.startswith("-o") and not flag.startswith(("-object-file-name", "-opt-record")):
        return "-Xclang names another output"
    if flag in _NO_PASSES:
        return "it switches optimisations off"
    return "it selects an advisor" if flag.startswith(_ADVISORS) or "-interactive-" in flag else ""


def resolve(compiler: Sequence[str], rest: Sequence[str]) -> tuple[list[str], str | None]:
    """Return all words of a command line, and its driver's output with `-###` if that has flags from elsewhere.

    The words of configuration files are the first, those of response files in their places.
    """
    words = expand_response_files(rest)
    is_elsewhere = any(word.startswith("--config") for word in words) or _finds_flags_elsewhere(compiler[0])
    if not is_elsewhere or named_stream(words):
        return words, None
    # The default target of the bundled clang would replace that of a file.
    shown = shown_text([word for word in compiler if not word.startswith("--target=")], rest)
    words = configured_words(shown) + drop_options(words, ("--config",), ("--config",))
    if "-target" in os.environ.get(_OVERRIDE, ""):
        words.append(f"--target={shown.partition('Target: ')[2].partition(chr(10))[0]}")
    return words, shown


def _finds_flags_elsewhere(program: str) -> bool:
    """Return whether a compiler may add flags to its command line: from a variable, a script or a default file.

    Clang reads `clang.cfg`, `TRIPLE.cfg` and the like in the folder of its program.
    """
    if os.environ.get(_OVERRIDE) or os.environ.get("CLANG_CONFIG_PATH"):
        return True
    try:
        with open(program, "rb") as file:
            folder = os.path.dirname(os.path.realpath(program))
            return file.read(2) == b"#!" or any(name.endswith(".cfg") for name in os.listdir(folder))
    except OSError:
        return False


def driven(invocation: Invocation, shown: str) -> Invocation:
    """Return the meaning of an ordinary compile by the output of its driver with `-###`, empty if the driver fails."""
    commands = read_commands(shown)
    line = commands[0] if len(commands) == 1 else []
    if "-emit-obj" not in line:
        return Invocation(invocation.source, invocation.output, "0", "its other flags request other work")
    levels = [level_of(word) for word in line if word.startswith("-O")]
    reason = next(filter(None, map(reason_of_flag, line[1:], line)), "")
    return Invocation(invocation.source, invocation.output, levels[-1] if levels else "0", reason)


def is_probe(source: str, folder: str) -> bool:
    """Return whether a source in a working directory is a feature test of configure, CMake, Meson or setuptools."""
    if os.path.basename(source).startswith(_PROBE_NAMES):
        return True
    return any(probe in f"{source}/" or probe in f"{folder}/" for probe in _PROBE_FOLDERS)
