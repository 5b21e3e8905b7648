"""What a recording keeps of a compile: the front end of the same compile once more, kept as bitcode.

A shim loads this file by its path while a build runs, so it stands alone on the standard library. Datasets use it
without shims.
"""

from __future__ import annotations

import os
import sys
from itertools import count

# pathlib and typing would take as long to import as all of this.
# ruff: noqa: PTH102, PTH104, PTH106, PTH107, PTH110, PTH113, PTH118, PTH119, PTH120, PTH122, PTH123
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

OTHER_SUFFIXES = {
    **dict.fromkeys((".m", ".mm", ".mi", ".mii"), "Objective-C"),
    **dict.fromkeys((".s", ".S", ".sx", ".asm"), "assembly"),
    **dict.fromkeys((".cppm", ".ixx", ".ccm", ".cxxm", ".pcm"), "a C++ module"),
    **dict.fromkeys((".cu", ".hip", ".cl"), "code for GPUs"),
    **dict.fromkeys((".h", ".hh", ".hpp", ".hxx", ".H"), "a precompiled header"),
}
"""What is counted as seen and not recorded, by how the names of sources end."""

_LANGUAGES = {"c": "c", "cpp-output": "c", "c++": "c++", "c++-cpp-output": "c++"}
_OTHER_LANGUAGES = {
    **dict.fromkeys(("c-header", "c++-header", "c-header-cpp-output", "c++-header-cpp-output"), "a precompiled header"),
    **dict.fromkeys(("c++-module", "c++-module-cpp-output", "c++-system-header", "c++-user-header"), "a C++ module"),
    **dict.fromkeys(("objective-c", "objective-c++"), "Objective-C"),
    **dict.fromkeys(("assembler", "assembler-with-cpp"), "assembly"),
}
_MAKES_NOTHING = frozenset({"-E", "-Eonly", "-fsyntax-only"})
_QUESTIONS = frozenset({"-E", "-M", "-MM", "-fsyntax-only", "-###", "--preprocess"})
_MODULE_FILES = ("-fmodule-file=", "-fprebuilt-module-path=")
_PROBE_NAMES = ("conftest", "_configtest", "CMakeCCompilerABI", "CMakeCXXCompilerABI", "sanitycheck", "ztest")
_PROBE_FOLDERS = (
    "/CMakeFiles/CMakeTmp/",
    "/CMakeFiles/CMakeScratch/",
    "/CMakeFiles/CheckTypeSize/",
    "/CMakeFiles/FeatureTests/",
    "/CompilerIdC/",
    "/CompilerIdCXX/",
    "/meson-private/",
    "/.sconf_temp/",
    "/.conf_check_",
)
_NOT_RECORDED = (
    "-march=native", "-mtune=native", "-mcpu=native", "-fembed-bitcode", "-save-temps", "--save-temps", "-save-stats",
    "--save-stats", "--coverage", "-coverage", "-fprofile-arcs", "-ftest-coverage", "-fsave-optimization-record",
    "-foptimization-record", "-fproc-stat-report", "-ftime-trace", "-fstack-usage", "-gsplit-dwarf",
    "-gen-cdb-fragment",
)  # fmt: skip
"""Driver options that hold for one machine alone, or write further files: the build's own compile has written those."""

_NOT_RECORDED_WITH_VALUE = ("-MJ", "--serialize-diagnostics")
_SIDE_OUTPUTS_WITH_VALUE = (
    "-dependency-file",
    "-MT",
    "-dependency-dot",
    "-header-include-file",
    "-serialize-diagnostic-file",
    "-diagnostic-log-file",
    "-opt-record-file",
    "-stack-usage-file",
    "-split-dwarf-file",
    "-split-dwarf-output",
)
_SIDE_OUTPUTS_JOINED = ("-ftime-trace", "-fcrash-diagnostics-dir=", "-stats-file=", "-coverage-", "-femit-coverage-")
_numbers = count()


def record_compile(
    settings: dict[str, Any], arguments: Sequence[str], folder: str, mode: str, *, once_more: bool = False
) -> bool:
    """Leave a folder in `settings["records"]` for each source that a driver command line compiles to an object.

    It holds `module.bc` and `record.json`; or only `failure.json` where the front end refused the source; or
    `left-out.json` where it is none that is recorded, which says why.

    Args:
        settings: `clang` (the words that start it), `before` and `after` (driver options that the build's own override
            and that override the build's), `headers` (`-cc1` options by language), `records` (the folder to leave
            recordings in), `temporary` (the folder for temporary files: a source in it is a probe), `root` (that of the
            build), `probes` (whether to record probes too), `by_path` (the compiler's path where the build called it by
            that; what it makes is then its own).
        arguments: the command line of the build, without its first word.
        folder: where it runs.
        mode: `c` or `c++`, the language that the driver assumes.
        once_more: whether the caller tries again when a compiler is killed, and nothing is to be left then.

    Returns:
        whether a compiler was killed.
    """
    killed = False
    lines, problem = compile_commands(settings, list(arguments), folder, mode)
    if problem is not None:
        content = {"source": " ".join(arguments)[:500], "message": problem, "by_path": settings.get("by_path")}
        _keep(settings["records"], "failure.json", content)
    for line in lines:
        language = _value(line, "-x") or ""
        source = os.path.join(folder, line[-1])
        reason = _left_out_because(settings, line, language, source, folder)
        if reason is None:
            killed |= _record(settings, line, folder, source, _LANGUAGES[language], arguments, once_more=once_more)
        elif reason:
            _keep_note(settings, source, reason)
    asks = not _QUESTIONS.isdisjoint(arguments)
    for before, word in zip(("", *arguments[:-1]), arguments, strict=True):
        if word.endswith(tuple(OTHER_SUFFIXES)) and not word.startswith("-") and before != "-o" and not asks:
            _keep_note(settings, os.path.join(folder, word), OTHER_SUFFIXES[os.path.splitext(word)[1]])
    return killed


def note_objects(settings: dict[str, Any], arguments: Sequence[str], folder: str) -> None:
    """Remember the objects of a compile, recorded or not: an object that none of these made is told of at the end."""
    if "-c" not in arguments:
        return
    named = [arguments[position + 1] for position, word in enumerate(arguments[:-1]) if word == "-o"]
    named += [word[2:] for word in arguments if word.startswith("-o") and len(word) > 2]
    stems = [os.path.splitext(os.path.basename(word))[0] for word in arguments if not word.startswith("-")]
    for name in named or [f"{stem}.o" for stem in stems]:
        note(settings, os.path.join(folder, name), "seen")


def record_link(settings: dict[str, Any], link: dict[str, Any], mode: str) -> None:
    """Leave a folder with `link.json` in `settings["records"]` for a link that made something.

    Args:
        settings: those of `record_compile`.
        link: what `shim_links.describe_link` says of it.
        mode: `c` or `c++`: as which the driver linked.
    """
    output = link["output"]
    output["sha256"] = note(settings, output["path"])
    is_recorded = settings.get("probes") or not _is_probe(settings, output["path"], link["folder"])
    if output["sha256"] is not None and link["inputs"] and is_recorded:
        _keep(settings["records"], "link.json", {**link, "driver": mode, "lto": _lto(link["arguments"])})


def _lto(arguments: Sequence[str]) -> str | None:
    """Return the kind of link time optimisation that a driver is asked for: `thin`, `full` or None."""
    asked = [word for word in arguments if word.startswith("-flto") or word == "-fno-lto"]
    if not asked or asked[-1] == "-fno-lto":
        return None
    return "thin" if asked[-1] == "-flto=thin" else "full"


def note(settings: dict[str, Any], path: str, kind: str = "known") -> str | None:
    """Return the digest of a file that a step has made, and remember it; links keep no copy of one that is `known`."""
    if not os.path.isfile(path):
        return None
    import hashlib

    with open(path, "rb") as file:
        digest = hashlib.sha256(file.read()).hexdigest()
    with open(os.path.join(os.path.dirname(settings["records"]), kind, digest), "wb"):
        return digest


def _left_out_because(settings: dict[str, Any], line: list[str], language: str, source: str, folder: str) -> str | None:
    """Return why a compile is not recorded: None where it is, and nothing where it makes no code."""
    if not _MAKES_NOTHING.isdisjoint(line):
        return ""
    if language not in _LANGUAGES:
        return (
            "" if source.endswith(tuple(OTHER_SUFFIXES)) else _OTHER_LANGUAGES.get(language, f"the language {language}")
        )
    if line[-1] == "-":
        return "a source on standard input"
    if not settings.get("probes") and _is_probe(settings, source, folder):
        return "a probe of the build system"
    if "-S" in line:
        return "compiled to assembly (-S)"
    if "-emit-llvm-bc" in line or "-emit-llvm" in line:
        return "compiled to LLVM's own form (-emit-llvm)"
    if "-emit-obj" not in line or _value(line, "-o") == os.devnull or not os.path.isfile(source):
        return ""
    return None


def _keep_note(settings: dict[str, Any], source: str, reason: str) -> None:
    _keep(settings["records"], "left-out.json", {"source": source, "reason": reason})


def _record(
    settings: dict[str, Any],
    line: list[str],
    folder: str,
    source: str,
    language: str,
    arguments: Sequence[str],
    *,
    once_more: bool,
) -> bool:
    import hashlib
    import time

    started = time.time_ns()
    name = f"{started:020d}-{os.getpid()}-{next(_numbers)}"
    scratch = os.path.join(settings["records"], f".{name}")
    os.mkdir(scratch)
    bitcode = f"{scratch}/module.bc"
    front_end = [word for word in _with_plain_headers(without_side_outputs(line[:-1]), folder) if word != "-emit-obj"]
    front_end += ["-emit-llvm-bc", "-emit-llvm-uselists", "-disable-llvm-passes"]
    status, words = _run([*settings["clang"], *front_end, "-o", bitcode, line[-1]], folder)
    if status < 0 and once_more:
        if os.path.exists(bitcode):
            os.remove(bitcode)
        os.rmdir(scratch)
        return True
    if status != 0:
        _write_failure(settings, scratch, line, source, status, words.strip())
    else:
        with open(source, "rb") as file:
            text = file.read()
        output = _value(line, "-o") or ""
        is_temporary = not any(output in word for word in arguments) and "-c" not in arguments
        made = None if is_temporary else os.path.join(folder, output)
        record = {
            "source": source,
            "object": made,
            "object_sha256": None if made is None else note(settings, made),
            "folder": folder,
            "lto": _lto(arguments),
            "by_path": settings.get("by_path"),
            "language": language,
            "source_sha256": hashlib.sha256(text).hexdigest(),
            "lines": text.count(b"\n") + (not text.endswith(b"\n")),
            "command": line,
            "order": started,
        }
        _write_json(f"{scratch}/record.json", record)
    os.rename(scratch, os.path.join(settings["records"], name))
    return status < 0


def _write_failure(
    settings: dict[str, Any], scratch: str, line: Sequence[str], source: str, status: int, words: str
) -> None:
    if any(word.startswith(_MODULE_FILES) for word in line):
        # Modules are compiled for the level of the build, and no other reads them.
        _write_json(f"{scratch}/left-out.json", {"source": source, "reason": "a compile with precompiled modules"})
        return
    message = f"the compiler was killed by signal {-status} {words}" if status < 0 else words
    content = {"source": source, "message": message, "killed": status < 0, "by_path": settings.get("by_path")}
    _write_json(f"{scratch}/failure.json", content)


def compile_commands(
    settings: dict[str, Any], arguments: list[str], folder: str, mode: str
) -> tuple[list[list[str]], str | None]:
    """Return the `-cc1` command lines that the driver would run, from `-cc1` on, or what it complains of."""
    end = arguments.index("--") if "--" in arguments else len(arguments)
    kept = without_outputs(arguments[:end])
    driver = [*settings["clang"], f"--driver-mode={'g++' if mode == 'c++' else 'gcc'}", "-###", *settings["before"]]
    status, words = _run([*driver, *kept, *settings["after"], *arguments[end:]], folder)
    return cc1_lines(words), words.strip() if status != 0 else None


def cc1_lines(text: str) -> list[list[str]]:
    """Return the `-cc1` command lines, from `-cc1` on, in what a driver prints with `-###`."""
    lines = [_split(line) for line in text.splitlines() if line.startswith(' "') and '"-cc1"' in line]
    return [line[line.index("-cc1") :] for line in lines]


def _split(line: str) -> list[str]:
    """Split a line that `-###` prints: words in double quotes, in which a backslash protects the next character."""
    words: list[str] = []
    word: list[str] = []
    position = 0
    inside = False
    while position < len(line):
        character = line[position]
        if character == '"':
            if inside:
                words.append("".join(word))
                word = []
            inside = not inside
        elif inside:
            if character == "\\":
                position += 1
                character = line[position]
            word.append(character)
        position += 1
    return words


def without_outputs(arguments: list[str]) -> list[str]:
    """Return a driver's arguments without those that hold for one machine alone, or have it write further files."""
    kept: list[str] = []
    words = iter(arguments)
    for word in words:
        if word in _NOT_RECORDED_WITH_VALUE:
            next(words, None)
        elif not word.startswith((*_NOT_RECORDED, *_NOT_RECORDED_WITH_VALUE)):
            kept.append(word)
    return kept


def without_side_outputs(line: list[str]) -> list[str]:
    """Return a `-cc1` line without its output, and without options that write any other file."""
    kept: list[str] = []
    words = iter(line)
    for word in words:
        if word in _SIDE_OUTPUTS_WITH_VALUE or word == "-o":
            next(words, None)
        elif not word.startswith(_SIDE_OUTPUTS_JOINED):
            kept.append(word)
    return kept


def _with_plain_headers(line: list[str], folder: str) -> list[str]:
    """Return a `-cc1` line with headers in place of precompiled ones: those hold for the build's own level alone."""
    kept: list[str] = []
    words = iter(line)
    for word in words:
        if word != "-include-pch":
            kept.append(word)
            continue
        precompiled = next(words, "")
        header = os.path.splitext(precompiled)[0]
        if not os.path.isfile(os.path.join(folder, header)):
            kept += [word, precompiled]
        elif header not in line:
            kept += ["-include", header]
    return kept


def _value(line: list[str], option: str) -> str | None:
    """Return the last value of an option, since the last one holds."""
    for position in range(len(line) - 2, -1, -1):
        if line[position] == option:
            return line[position + 1]
    return None


def _is_probe(settings: dict[str, Any], source: str, folder: str) -> bool:
    """Tell whether a compile only asks what the compiler can do, as configure, CMake, Meson and setuptools do."""
    if os.path.basename(source).startswith(_PROBE_NAMES):
        return True
    temporary, root = settings["temporary"], settings.get("root")
    if os.path.dirname(source) == temporary:
        return True
    if root and source.startswith(os.path.join(temporary, "tmp")) and not source.startswith(f"{root}/"):
        return True  # as Meson's and setuptools' questions, in a folder that Python's tempfile has named
    return any(probe in f"{source}/" or probe in f"{folder}/" for probe in _PROBE_FOLDERS)


def _run(command: list[str], folder: str) -> tuple[int, str]:
    import subprocess

    # Expansions of __DATE__ and __TIME__ would make two recordings of one source differ.
    environment = {"SOURCE_DATE_EPOCH": "0", **os.environ}
    result = subprocess.run(
        command,
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        check=False,
    )
    return result.returncode, result.stderr.decode(errors="surrogateescape")


def keep_failure(recording: str, source: str, message: str) -> None:
    """Leave a note in the folder of a recording that something could not be recorded, and why."""
    try:
        _keep(os.path.join(recording, "records"), "failure.json", {"source": source, "message": message})
    except OSError as error:
        print(f"mlgo-gym: not recorded: {source}: {message}; {error}", file=sys.stderr)  # noqa: T201 - into the build's own


def _keep(records: str, file: str, content: dict[str, object]) -> None:
    import time

    name = f"{time.time_ns():020d}-{os.getpid()}-{next(_numbers)}"
    scratch = os.path.join(records, f".{name}")
    os.mkdir(scratch)
    _write_json(f"{scratch}/{file}", content)
    os.rename(scratch, os.path.join(records, name))


def _write_json(path: str, content: dict[str, object]) -> None:
    import json

    with open(path, "w", encoding="utf-8") as file:
        json.dump(content, file)
