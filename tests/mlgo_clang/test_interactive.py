"""After every fault the object is correct or the exit status is not 0, and no file or process stays behind.

Policies of clang's features compile in one step, those with callee features in two.
"""

import contextlib
import fcntl
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from mlgo_clang import other_machines
from mlgo_clang.invocation import folding_of_link, reason_of_flag
from mlgo_gym.llvm.toolchain import bundled_command
from tests.conftest import write_program
from tests.mlgo_clang.conftest import DRIVERS, Run, channels, files
from tests.traces import children, ends_within

FakeClang = Callable[[str], str]


@pytest.fixture
def fake_clang(tmp_path: Path, clang: dict[str, list[str]]) -> FakeClang:
    """Return a function that makes a clang which runs a shell statement where it is to request decisions.

    In the statement `clang "$@"` is the compile, and `$PPID` the driver.
    """

    def make(statement: str) -> str:
        path = tmp_path / "fake-clang"
        driver, front_end = (" ".join(f"'{word}'" for word in words) for words in (clang["gcc"], clang["gcc"][:1]))
        write_program(
            path,
            f'clang() {{ if [ "$1" = -cc1 ]; then {front_end} "$@"; else {driver} "$@"; fi; }}\n'
            'case "$*" in\n'
            # The driver names this program for its compile.
            """*-###*) clang "$@" 2>&1 | sed 's|^ "[^"]*" | "'"$0"'" |' >&2; exit;;\n"""
            f'*channel-base*) {statement};;\nesac\nif [ "$1" = -cc1 ]; then exec {front_end} "$@"; fi\n'
            f'exec {driver} "$@"',
        )
        return f"--mlgo-clang={path}"

    return make


@pytest.fixture(params=["never", "two steps"])
def policy(request: pytest.FixtureRequest, always: str) -> str:
    return f"--mlgo-policy={always if request.param == 'two steps' else request.param}"


COMPILE = ("-Oz", "-c", "calls.c")
NO_LINKER = "ld, by which another clang than the bundled one links the network, is not installed"
STALL = 'for word; do case "$word" in @*) cat "${word#@}";; esac; done; echo $$ > ../started; exec sleep 600'
"""As clang, it starts when it has read its arguments, of which the driver withholds one until it guards the process."""


def test_errors_and_full_disks_fail_but_no_cache_is_fine(run: Run, project: Path, plain: bytes, policy: str) -> None:
    result = run(policy, *COMPILE, "-o", "/dev/full")
    assert (result.returncode, b"No space left on device" in result.stderr) == (1, True)
    assert files(project) == ["calls.c"]
    result = run(policy, *COMPILE, MLGO_CACHE="/dev/null/cache")
    is_rule = policy.endswith("never")
    reported = b"expected a cache folder that can be written, got [Errno 20]" in result.stderr
    assert (result.returncode, reported) == (0, not is_rule)
    assert ((project / "calls.o").read_bytes() == plain) == reported
    (project / "calls.o").unlink()
    (project / "calls.c").write_text("int f(void) { return nothing; }\n")
    expected = run("--mlgo-policy=default", *COMPILE)
    for extra in ((), ("--mlgo-strict",)):
        result = run(policy, *extra, *COMPILE)
        assert (result.returncode, result.stdout, result.stderr) == (expected.returncode, b"", expected.stderr)
    assert files(project) == ["calls.c"]


def test_modules_of_a_build_are_not_imported_and_a_full_pipe_and_a_terminal_get_each_warning_once(
    project: Path, policy: str, clang: dict[str, list[str]]
) -> None:
    for module in ("signal", "subprocess", "tempfile", "select", "fcntl", "ctypes", "hashlib"):
        (project / f"{module}.py").write_text("raise SystemExit(99)\n")
    source = project / "calls.c"
    source.write_text(source.read_text() + "".join(f"static int unused{number};\n" for number in range(900)))

    def warnings(*command: str, terminal: bool) -> bytes:
        read, write = os.openpty() if terminal else os.pipe()
        if not terminal:
            fcntl.fcntl(write, fcntl.F_SETPIPE_SZ, 4096)
            os.set_blocking(write, False)
        modules = os.pathsep.join((str(project), os.environ.get("PYTHONPATH", "")))
        environment = {**os.environ, "PYTHONPATH": modules, "MLGO_STRICT": "1", "TERM": "xterm"}
        process = subprocess.Popen([*command, "-Wall", *COMPILE], cwd=project, stderr=write, env=environment)
        os.close(write)
        printed = bytearray()
        with contextlib.suppress(OSError):  # of a terminal without programs
            while part := os.read(read, 1 << 16):
                printed += part
        os.close(read)
        assert process.wait() == 0
        return bytes(printed)

    for terminal in (False, True):
        expected = warnings(*clang["gcc"], terminal=terminal)
        assert len(expected) > 1 << 15
        assert (b"\x1b[" in expected) == terminal, "colours"
        assert warnings(str(DRIVERS["gcc"]), policy, terminal=terminal) == expected


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_a_killed_driver_leaves_no_clang(project: Path, fake_clang: FakeClang, policy: str, number: int) -> None:
    if "never" not in policy and shutil.which("ld") is None:
        pytest.skip(NO_LINKER)
    os.mkfifo(project.parent / "started")
    command = [str(DRIVERS["gcc"]), policy, fake_clang(STALL), *COMPILE]
    if number == signal.SIGTERM:
        command = ["sh", "-c", 'trap "" INT; exec "$@"', "sh", *command]  # Ctrl-C stops no job in the background
    process = subprocess.Popen(command, cwd=project, start_new_session=True, stderr=subprocess.DEVNULL)
    pid = int((project.parent / "started").read_text())  # waits for the writer
    if number == signal.SIGINT:
        os.killpg(process.pid, number)  # as Ctrl-C on a terminal
    for one in (process.pid, pid) if number == signal.SIGTERM else ():
        ignored = int(Path(f"/proc/{one}/status").read_text().partition("SigIgn:")[2].split()[0], 16)
        assert ignored & 1 << (signal.SIGINT - 1)
    if number != signal.SIGINT:
        process.send_signal(number)
    assert process.wait() == -number
    assert ends_within(pid, 20)
    assert files(project) == ["calls.c"]
    if number == signal.SIGKILL:
        # The next compile removes the folder of the killed one.
        assert subprocess.run([str(DRIVERS["gcc"]), "--mlgo-policy=never", *COMPILE], cwd=project).returncode == 0
    assert channels(process.pid) == []


LIBRARY, RECIPES = ("--mlgo-policy=last-call",), ("--mlgo-recipes=../recipes",)


@pytest.mark.parametrize(
    ("words", "cases", "number"),
    [
        *((LIBRARY, "*code.c*) {};;", number) for number in (signal.SIGTERM, signal.SIGINT, signal.SIGKILL)),
        *((RECIPES, "*-disable-llvm-passes*) {};;", number) for number in (signal.SIGTERM, signal.SIGHUP)),
        *(((), "*channel-base*) exit 1;; *calls.c) {};;", number) for number in (signal.SIGTERM, signal.SIGINT)),
    ],
    ids=lambda value: str(value)[:24],
)
def test_a_stopped_driver_that_is_killed_leaves_no_other_program(
    words: tuple[str, ...], cases: str, number: int, project: Path, clang: dict[str, list[str]]
) -> None:
    program, started = project.parent / "clang", project.parent / "started"
    os.mkfifo(started)
    driver = " ".join(f"'{word}'" for word in clang["gcc"])
    stall = cases.format(f"echo $$ > {started}; exec sleep 600")
    write_program(program, f'case "$*" in *-###*) ;; {stall} esac\nexec {driver} "$@"')
    command = [str(DRIVERS["gcc"]), "--mlgo-policy=never", f"--mlgo-clang={program}", *words, *COMPILE]
    process = subprocess.Popen(command, cwd=project, start_new_session=True, stderr=subprocess.DEVNULL)
    pid = int(started.read_text())
    others = {pid, *children(process.pid)}
    for sent in (signal.SIGSTOP, number, signal.SIGCONT):
        process.send_signal(sent)
    assert process.wait() == -number
    assert all(ends_within(other, 20) for other in others)
    assert files(project) == ["calls.c"]


@pytest.mark.parametrize("statement", ["kill -TERM $PPID", 'clang "$@"; status=$?; kill -INT $PPID; exit $status'])
def test_a_signal_as_clang_starts_or_ends_leaves_nothing(project: Path, fake_clang: FakeClang, statement: str) -> None:
    command = [str(DRIVERS["gcc"]), "--mlgo-policy=never", fake_clang(statement), *COMPILE]
    process = subprocess.Popen(command, cwd=project)
    assert process.wait() in (-signal.SIGTERM, -signal.SIGINT)
    assert [file for file in files(project) if file != "calls.o"] == ["calls.c"]
    assert channels(process.pid) == []


def test_an_unguarded_clang_exits_with_its_driver(project: Path, fake_clang: FakeClang) -> None:
    killer = fake_clang("echo $$ > ../pid; kill -KILL $PPID")
    command = [str(DRIVERS["gcc"]), "--mlgo-policy=never", killer, *COMPILE]
    assert subprocess.run(command, cwd=project, stderr=subprocess.PIPE, check=False).returncode == -signal.SIGKILL
    assert ends_within(int((project.parent / "pid").read_text()), 20)
    assert files(project) == ["calls.c"]


def test_flags_of_other_work_have_a_reason() -> None:
    other = (
        "-analyzer-checker-help -analyzer-config-help -analyzer-list-enabled-checkers -ast-dump=json -ast-print "
        "-ast-view -dump-tokens -fdump-record-layouts -fixit=x -print-stats -rewrite-objc -emit-llvm -E -verify"
    )
    for before, flags, reason in (
        ("-Xclang", other, "requests other work"),
        ("-Xclang", "-o -oout.o", "-Xclang names another output"),
        ("-Xclang", "-object-file-name=x -opt-record-file", ""),
        ("-mllvm", "-disable-llvm-passes -disable-llvm-optzns", "it switches optimisations off"),
        ("-mllvm", "-enable-ml-inliner=release -regalloc-enable-advisor=default -inliner-interactive-channel-base=x",
            "it selects an advisor"),
        ("-mllvm", "-inline-threshold=5 -print-stats -o", ""),
    ):  # fmt: skip
        for flag in flags.split():
            assert reason_of_flag(flag, before).removeprefix(f"{flag} ") == reason, flag
    for words, mode in (
        ("-Wl,-O1,--icf=safe", "safe"),
        ("-Wl,--icf=safe -Xlinker --icf=all", "all"),
        ("-Xlinker --icf=all -Wl,--icf=none", "none"),
        ("-Wl,-icf=all,--print-icf-sections", "all"),
    ):
        assert folding_of_link(words.split()) == mode


def test_a_named_standard_input_is_a_stream_also_from_a_file(project: Path) -> None:
    code = "from mlgo_clang.invocation import is_stream; print(*map(is_stream, ('/dev/stdin', '/dev/null', 'calls.c')))"
    with (project / "calls.c").open() as file:
        done = subprocess.run([sys.executable, "-c", code], stdin=file, cwd=project, capture_output=True, text=True)
    assert done.stdout.split() == ["True", "False", "False"]


def test_headers_of_a_target_are_read_from_the_cache(own_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    zig, target = bundled_command()[0], "aarch64-linux-musl"
    words = other_machines.header_words(zig, target)
    assert "-nostdinc" in words
    monkeypatch.setattr(other_machines, "library_headers", lambda *_: [])
    assert other_machines.header_words(zig, target) == words != ["-nostdinc"]


def test_links_without_an_operating_system_get_the_linker_of_the_wheel(own_cache: Path) -> None:
    for flavour, *words in (
        ("wasm-ld", "--target=wasm32-wasi"),
        ("ld.lld", "--target=thumbv7em-none-eabi"),
        ("ld.lld", "--target=riscv32-elf"),
        ("", "--target=aarch64-linux-gnu"),
        ("", "--target=wasm32", "-fuse-ld=lld"),
        ("", "--target=wasm32", "--ld-path=x"),
    ):
        for _ in range(2):  # the second finds a damaged file
            options = other_machines.linker_option(bundled_command()[0], words)
            assert [Path(option).name for option in options] == ([flavour] if flavour else [])
            for linker in (Path(option.partition("=")[2]) for option in options):
                assert b"LLD" in subprocess.check_output([linker, "--version"])
                linker.write_text("#!/bin/sh\n")
