"""Records of compiles by clang and rustc, whose front end runs a second time and writes bitcode.

A shim imports this file outside of `mlgo_gym` during a build, so it imports only the standard library and small modules
of `mlgo_clang`. Datasets use it without shims.
"""

from __future__ import annotations

import hashlib
import os
import sys
from itertools import count, pairwise

from mlgo_clang.command_lines import cc1_commands, drop_options, named_output
from mlgo_clang.invocation import is_probe, named_stream

# Importing pathlib and typing would double the time that this file takes to load.
# ruff: noqa: PTH102, PTH104, PTH106, PTH107, PTH108, PTH109, PTH110, PTH113, PTH118, PTH119, PTH120, PTH122, PTH123
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
"""Kinds of sources that are counted as skipped, by suffix."""

_LANGUAGES = {"c": "c", "cpp-output": "c", "c++": "c++", "c++-cpp-output": "c++"}
_NO_CODE = frozenset({"-E", "-Eonly", "-fsyntax-only"})
_NO_OUTPUT = frozenset({"-E", "-M", "-MM", "-fsyntax-only", "-###", "--preprocess"})
_MODULE_FILES = ("-fmodule-file=", "-fprebuilt-module-path=")
_NOT_RECORDED = (
    "-march=native", "-mtune=native", "-mcpu=native", "-fembed-bitcode", "-save-temps", "--save-temps", "-save-stats",
    "--save-stats", "--coverage", "-coverage", "-fprofile-arcs", "-ftest-coverage", "-fsave-optimization-record",
    "-foptimization-record", "-fproc-stat-report", "-ftime-trace", "-fstack-usage", "-gsplit-dwarf",
    "-gen-cdb-fragment",
)  # fmt: skip
"""Driver options that depend on the machine or write side outputs, which the build's compile has written already."""

_NOT_RECORDED_WITH_VALUE = ("-MJ", "--serialize-diagnostics")
_SIDE_OUTPUTS_WITH_VALUE = (
    "-o", "-dependency-file", "-dependency-dot", "-header-include-file", "-serialize-diagnostic-file",
    "-diagnostic-log-file", "-opt-record-file", "-stack-usage-file", "-split-dwarf-file", "-split-dwarf-output",
)  # fmt: skip
_SIDE_OUTPUTS_JOINED = ("-ftime-trace", "-fcrash-diagnostics-dir=", "-stats-file=", "-coverage-", "-femit-coverage-")
OPTION_WITH_VALUE = frozenset(
    """
    -L -I -D -U -F -B -x -u -e -h -z -target -MF -MT -MQ -MJ -isystem -idirafter -iquote -include -imacros -arch
    -soname --soname -rpath --rpath -rpath-link --rpath-link -Map --Map -dynamic-linker --dynamic-linker -m -o --output
    --undefined --entry --defsym --dependency-file --out-implib --plugin-opt -plugin-opt --wrap -y --param
    """.split()  # noqa: SIM905 - a word list
)
_FRONT_END_SECONDS = 3600
READ_ONCE = "a compile with an input that is read once, such as a pipe or /dev/stdin"
_numbers = count()


def record_compile(
    settings: dict[str, Any], arguments: Sequence[str], folder: str, mode: str, *, will_retry: bool = False
) -> bool:
    """Add a folder to `settings["records"]` for each source that a driver command line compiles.

    The folder contains `module.bc` and `record.json`; or `failure.json` if the front end fails; or `skipped.json` with
    the reason if the source is not recorded. `settings` are those of `Recorder`, with `compiler_path` for a compiler
    that the build called by path. `mode` is the default language of the driver, `c` or `c++`. Returns whether a
    compiler was killed; with `will_retry` nothing is written then.
    """
    killed = False
    if named_stream([word for word in arguments if word.startswith("@")]):
        write_record(settings, "skipped.json", {"source": " ".join(arguments)[:500], "reason": READ_ONCE})
        return False
    lines, problem = compile_commands(settings, list(arguments), folder, mode)
    if problem is not None:
        content = {"source": " ".join(arguments)[:500], "message": problem}
        write_record(settings, "failure.json", {**content, "compiler_path": settings.get("compiler_path")})
    for line in lines:
        language = _value(line, "-x") or ""
        source = os.path.normpath(os.path.join(folder, line[-1]))
        output = _value(line, "-o") or ""
        is_temporary = not any(output in word for word in arguments) and "-c" not in arguments
        if is_temporary:  # one source may be compiled into several programs
            output = (named_output(arguments) or (0, "a.out"))[1]
        path = os.path.normpath(os.path.join(folder, output))
        paths = {"object": None if is_temporary else path, "program": path if is_temporary else None}
        reason = _skip_reason(settings, line, language, source, path, folder)
        if reason is None:
            killed |= _record(settings, line, folder, source, paths, arguments, will_retry=will_retry)
        elif reason:
            write_record(settings, "skipped.json", {"source": source, "reason": reason})
    if _NO_OUTPUT.isdisjoint(arguments):
        for before, word in zip(("", *arguments[:-1]), arguments, strict=True):
            if word.endswith(tuple(OTHER_SUFFIXES)) and not word.startswith("-") and before not in OPTION_WITH_VALUE:
                reason = OTHER_SUFFIXES[os.path.splitext(word)[1]]
                write_record(settings, "skipped.json", {"source": os.path.join(folder, word), "reason": reason})
    return killed


def note_objects(settings: dict[str, Any], arguments: Sequence[str], folder: str) -> None:
    """Note the objects of a compile, recorded or not, so that unseen compiles can be counted at the end."""
    output = named_output(arguments)
    stems = [os.path.splitext(os.path.basename(word))[0] for word in arguments if not word.startswith("-")]
    for name in ([output[1]] if output else [f"{stem}.o" for stem in stems]) if "-c" in arguments else ():
        note_file(settings, os.path.join(folder, name), "seen")


def note_file(settings: dict[str, Any], path: str, kind: str = "known") -> str | None:
    """Note the SHA-256 of a file and return it; None without a file. Recorded links do not copy `known` files."""
    if not os.path.isfile(path):
        return None
    with open(path, "rb") as file:
        digest = hashlib.sha256(file.read()).hexdigest()
    with open(os.path.join(os.path.dirname(settings["records"]), kind, digest), "wb"):
        return digest


def note_failure(recording: str, source: str, message: str) -> None:
    """Note in the folder of a recording that something could not be recorded."""
    try:
        content = {"source": source, "message": message}
        write_record({"records": os.path.join(recording, "records")}, "failure.json", content)
    except OSError as error:
        print(f"mlgo-gym: not recorded: {source}: {message}; {error}", file=sys.stderr)  # noqa: T201 - the build's own


def compile_commands(
    settings: dict[str, Any], arguments: list[str], folder: str, mode: str
) -> tuple[list[list[str]], str | None]:
    """Return the `-cc1` command lines of a driver call, from `-cc1` on, and the driver's error message, if any."""
    end = arguments.index("--") if "--" in arguments else len(arguments)
    words = drop_options(arguments[:end], (*_NOT_RECORDED, *_NOT_RECORDED_WITH_VALUE), _NOT_RECORDED_WITH_VALUE)
    driver = [*settings["clang"], f"--driver-mode={'g++' if mode == 'c++' else 'gcc'}", "-###", *settings["before"]]
    status, stderr = run_front_end([*driver, *words, *settings["after"], *arguments[end:]], folder)
    return cc1_commands(stderr), stderr.strip() if status != 0 else None


def lto_of(arguments: Sequence[str]) -> str | None:
    """Return the kind of link time optimisation in driver arguments: `thin`, `full` or None."""
    flags = [word for word in arguments if word.startswith("-flto") or word == "-fno-lto"]
    if not flags or flags[-1] == "-fno-lto":
        return None
    return "thin" if flags[-1] == "-flto=thin" else "full"


def _skip_reason(
    settings: dict[str, Any], line: list[str], language: str, source: str, output: str, folder: str
) -> str | None:
    """Return why a compile is not recorded: None if it is, and an empty text if it generates no code."""
    if not _NO_CODE.isdisjoint(line):
        return ""
    if language not in _LANGUAGES:
        is_counted = source.endswith(tuple(OTHER_SUFFIXES))
        return "" if is_counted else f"the language {language}"
    if line[-1] == "-":
        return "a source on standard input"
    if is_probe_of(settings, source, output, folder):
        return "a probe of the build system"
    if "-S" in line:
        return "compiled to assembly (-S)"
    if "-emit-llvm-bc" in line or "-emit-llvm" in line:
        return "compiled to LLVM's own form (-emit-llvm)"
    if "-emit-obj" not in line or _value(line, "-o") == os.devnull or not os.path.exists(source):
        return ""
    return READ_ONCE if named_stream(drop_options(_without_side_outputs(line), (), ("-D",))) else None


def _without_side_outputs(line: list[str]) -> list[str]:
    """Return a `-cc1` line without the options that name files which the build's compile has written already."""
    return drop_options(line, _SIDE_OUTPUTS_JOINED, _SIDE_OUTPUTS_WITH_VALUE)


def _record(
    settings: dict[str, Any],
    line: list[str],
    folder: str,
    source: str,
    paths: dict[str, str | None],
    arguments: Sequence[str],
    *,
    will_retry: bool,
) -> bool:
    import time

    started = time.time_ns()
    scratch = new_record(settings)
    bitcode = f"{scratch}/module.bc"
    plain = _with_plain_headers(_without_side_outputs(line[:-1]), folder)
    front_end = [word for word in plain if word != "-emit-obj"]
    front_end += ["-emit-llvm-bc", "-emit-llvm-uselists", "-disable-llvm-passes"]
    status, stderr = run_front_end([*settings["clang"], *front_end, "-o", bitcode, line[-1]], folder)
    if status < 0 and will_retry:
        if os.path.exists(bitcode):
            os.remove(bitcode)
        os.rmdir(scratch)
        return True
    if status == 0:
        with open(source, "rb") as file:
            text = file.read()
        content = {
            "source": source,
            **paths,
            "object_sha256": note_file(settings, paths["object"] or ""),
            "folder": folder,
            "lto": lto_of(arguments),
            "compiler_path": settings.get("compiler_path"),
            "language": _LANGUAGES[_value(line, "-x") or ""],
            "source_sha256": hashlib.sha256(text).hexdigest(),
            "lines": text.count(b"\n") + (not text.endswith(b"\n")),
            "command": line,
            "order": started,
        }
        name = "record.json"
    elif any(word.startswith(_MODULE_FILES) for word in line):
        # A precompiled module is valid only for the build's own level.
        name, content = "skipped.json", {"source": source, "reason": "a compile with precompiled modules"}
    else:
        message = f"the compiler was killed by signal {-status} {stderr.strip()}" if status < 0 else stderr.strip()
        content = {"source": source, "message": message, "killed": status < 0}
        name, content = "failure.json", {**content, "compiler_path": settings.get("compiler_path")}
    finish_record(scratch, name, content)
    return status < 0


def _with_plain_headers(line: list[str], folder: str) -> list[str]:
    """Return a `-cc1` line with headers instead of precompiled ones, which are valid for the build's own level only."""
    result: list[str] = []
    words = iter(line)
    for word in words:
        precompiled = next(words, "") if word == "-include-pch" else ""
        header = os.path.splitext(precompiled)[0]
        if word != "-include-pch":
            result.append(word)
        elif not os.path.isfile(os.path.join(folder, header)):
            result += [word, precompiled]
        elif header not in line:
            result += ["-include", header]
    return result


def _value(line: list[str], option: str) -> str | None:
    """Return the last value of an option, which overrides earlier ones."""
    return dict(pairwise(line)).get(option)


def is_probe_of(settings: dict[str, Any], source: str, output: str, folder: str) -> bool:
    """Return whether a compile is a feature test of configure, CMake, Meson or setuptools.

    Its source is temporary, and so is its output. setuptools repeats the whole path of the source in the build folder.
    """
    temporary, root = settings["temporary"], settings["root"]

    def is_temporary(path: str) -> bool:
        if os.path.dirname(path) == temporary:
            return bool(root != temporary)
        # Meson and setuptools use folders of Python's tempfile.
        return path.startswith(os.path.join(temporary, "tmp")) and not path.startswith(f"{root}/")

    mirrored = f"{os.path.splitext(source)[0]}.o"
    return is_probe(source, folder) or (is_temporary(source) and (is_temporary(output) or output.endswith(mirrored)))


def run_front_end(command: list[str], folder: str) -> tuple[int, str]:
    """Run a compiler and return its exit status, negative for a signal, and its standard error."""
    import subprocess

    # Expansions of __DATE__ and __TIME__ would make two recordings of one source differ.
    environment = {"SOURCE_DATE_EPOCH": "0", **os.environ}
    try:
        result = subprocess.run(
            command,
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            check=False,
            timeout=_FRONT_END_SECONDS,
        )
    except subprocess.TimeoutExpired:
        return 1, f"{command[0]} did not end within {_FRONT_END_SECONDS} s"
    return result.returncode, os.fsdecode(result.stderr)


def new_record(settings: dict[str, Any]) -> str:
    """Return a new hidden folder for a record."""
    import time

    scratch = os.path.join(settings["records"], f".{time.time_ns():020d}-{os.getpid()}-{next(_numbers)}")
    os.mkdir(scratch)
    return scratch


def finish_record(scratch: str, file: str, content: dict[str, Any]) -> None:
    """Write the JSON file of a new record and make its folder visible."""
    import json

    with open(os.path.join(scratch, file), "w", encoding="utf-8") as stream:
        json.dump(content, stream)
    folder, name = os.path.split(scratch)
    os.rename(scratch, os.path.join(folder, name[1:]))


def write_record(settings: dict[str, Any], file: str, content: dict[str, Any]) -> None:
    """Add a folder to `settings["records"]` that contains one file of JSON."""
    finish_record(new_record(settings), file, content)


def record_crate(settings: dict[str, Any], program: str, arguments: Sequence[str]) -> None:
    """Add a folder for a crate to `settings["records"]`: rustc compiles it again and writes bitcode."""
    from mlgo_clang.rustc_arguments import Crate, read_sources

    folder = os.getcwd()
    crate = Crate(arguments, folder)
    if not crate.source.endswith(".rs") or not crate.emits_code:
        return
    source = os.path.join(folder, crate.source)
    package = os.environ.get("CARGO_PKG_NAME", crate.name)
    reason = None
    if crate.runs_in_the_compiler:
        reason = "a build script or a procedural macro"
    elif crate.is_test:
        reason = "a program of tests"
    elif crate.level == "0":
        reason = "a crate without optimisation (build with --release)"
    elif settings["crates"] is not None and package not in settings["crates"]:
        reason = "a crate that is not in the dataset"
    if reason is not None:
        write_record(settings, "skipped.json", {"source": source, "reason": reason})
        return
    scratch = new_record(settings)
    bitcode, listing = f"{scratch}/module.bc", f"{scratch}/sources.d"
    command = [program, *crate.bitcode_arguments(settings["rust_level"], bitcode, listing)]
    status, stderr = run_front_end(command, folder)
    if status == 0:
        with open(listing, encoding="utf-8", errors="surrogateescape") as file:
            sources = read_sources(file.read())
        os.unlink(listing)
        digest, lines = _read_sources(sources, folder)
        kind = "bin/" if crate.types == {"bin"} else ""
        content = {
            "source": source,
            "object": os.path.join(folder, crate.output),
            "object_sha256": None,
            "name": f"{package}/{kind}{crate.name}.o",
            "package": package,
            "version": os.environ.get("CARGO_PKG_VERSION", ""),
            "folder": folder,
            "lto": None,
            "compiler_path": None,
            "language": "rust",
            "source_sha256": digest,
            "lines": lines,
            "driver_flags": crate.driver_flags(),
        }
        finish_record(scratch, "record.json", content)
    else:
        content = {"source": source, "message": stderr.strip(), "killed": status < 0}
        finish_record(scratch, "failure.json", content)


def _read_sources(sources: Sequence[str], folder: str) -> tuple[str, int]:
    """Return a digest and the number of lines of all sources of a crate."""
    digest, lines = hashlib.sha256(), 0
    for source in sources:
        with open(os.path.join(folder, source), "rb") as file:
            text = file.read()
        digest.update(hashlib.sha256(text).digest())
        lines += text.count(b"\n") * source.endswith(".rs")
    return digest.hexdigest(), lines
