"""Policies with callee features compile in two steps, and every fault leaves a correct object or an exit status."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from mlgo_clang.counters import counters_path, parse
from mlgo_clang.interactive import INLINING
from mlgo_clang.native import NativeNetwork, NativeServer
from mlgo_clang.two_steps import TwoSteps
from mlgo_gym.policies.network import Network
from tests.mlgo_clang.conftest import DRIVERS, Run
from tests.mlgo_clang.test_interactive import abandoned, clangs_on, files, make_project, wait_for


@pytest.fixture
def always(tmp_path: Path) -> str:
    """A network with a callee feature that inlines every call."""
    path = tmp_path / "always.safetensors"
    Network(("callee_lines",), (np.array([[0]], np.float32),), (np.array([1], np.float32),)).save(path)
    return f"mlp:{path}"


@pytest.mark.parametrize(
    "more",
    [
        ("-g", "-MD"),
        ("-g", "-gsplit-dwarf"),
        ("-Wframe-larger-than=1", "-Wall"),
        ("-fdiagnostics-show-category=name", "-fno-diagnostics-show-option", "-w"),
        ("-fno-builtin", "-fstack-usage"),
        pytest.param(("-fsanitize=undefined", "--coverage"), marks=pytest.mark.slow),
        pytest.param(("-fsave-optimization-record", "-Rpass=inline"), marks=pytest.mark.slow),
    ],
)
def test_all_files_and_messages_are_those_of_one_step(
    more: tuple[str, ...], run: Run, project: Path, always: str
) -> None:
    (project / "calls.c").write_text(
        "#include <stddef.h>\nint unused(void) { int x; return 3; }\n" + (project / "calls.c").read_text()
    )
    found = {}
    for policy in ("always", always):
        # The same name of the object, which debug information can contain.
        result = run(f"--mlgo-policy={policy}", "--mlgo-strict", "-Oz", *more, "-c", "calls.c", "-o", "calls.o")
        assert result.returncode == 0, result.stderr
        made = {path.name: path.read_bytes() for path in project.iterdir() if path.name != "calls.c"}
        for name in made:
            (project / name).unlink()
        found[policy] = (result.stderr, made)
    assert found["always"] == found[always]


def test_a_network_without_callee_features_decides_in_two_steps(
    project: Path, network: Path, clang: dict[str, list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(project)
    steps = TwoSteps(clang["gcc"], ["-Os", "-c", "calls.c"], 60)
    run, printed = steps.compile(None, [(INLINING, NativeNetwork(str(network), clang["gcc"]).bind)], "calls.o")
    assert (run.status, printed) == (0, b"")
    assert run.decisions > 0
    assert (project / "calls.o").exists()
    (server,) = run.servers
    assert isinstance(server, NativeServer)
    assert server.other_messages() == b""


def test_one_of_several_advisors_may_use_callee_features(run: Run, project: Path, always: str) -> None:
    objects = []
    for policy in ("always", always):
        words = (f"--mlgo-policy={policy}", "--mlgo-eviction-policy=first_legal", "--mlgo-strict", "-Oz")
        assert run(*words, "-c", "calls.c").returncode == 0
        objects.append((project / "calls.o").read_bytes())
    assert objects[0] == objects[1]


def test_a_source_without_decisions_keeps_its_warnings(run: Run, project: Path, always: str) -> None:
    (project / "calls.c").write_text("void g(char *); void f(void) { int unused; char big[99]; g(big); }\n")
    words = ("-Oz", "-Wall", "-Wframe-larger-than=1", "-c", "calls.c")
    expected, found = (run(f"--mlgo-policy={policy}", "--mlgo-strict", *words) for policy in ("default", always))
    assert (found.returncode, found.stderr) == (0, expected.stderr)
    assert found.stderr.count(b"warning: ") == 2


def test_options_that_print_code_are_refused(run: Run, project: Path, always: str) -> None:
    words = ("-Oz", "-mllvm", "-filter-print-funcs=first", "-c", "calls.c")
    result = run(f"--mlgo-policy={always}", "--mlgo-strict", *words)
    assert (result.returncode, b"options that print code" in result.stderr) == (1, True)
    assert run(f"--mlgo-policy={always}", *words).returncode == 0
    assert files(project) == ["calls.c", "calls.o"]


def test_a_full_disk(run: Run, project: Path, always: str) -> None:
    result = run(f"--mlgo-policy={always}", "-Oz", "-c", "calls.c", "-o", "/dev/full")
    assert (result.returncode, b"No space left on device" in result.stderr) == (1, True)
    assert files(project) == ["calls.c"]


def many_calls(project: Path) -> None:
    """Write a source whose compile takes many seconds."""
    body = "int s = n; for (int k = 0; k < n; ++k) s += f{}(k) * f{}(s); return s;"
    functions = [f"static int f{i}(int n) {{ {body.format(i - 1, i // 2)} }}\n" for i in range(2, 3000)]
    head = "static int f0(int n) { return n + 1; }\nstatic int f1(int n) { return n * 3; }\n"
    (project / "calls.c").write_text(f"{head}{''.join(functions)}int g(int n) {{ return f2999(n); }}\n")


@pytest.fixture
def started(project: Path, always: str) -> Iterator[subprocess.Popen[bytes]]:
    """A compile that takes many seconds, after the start of its back end."""
    many_calls(project)
    command = [str(DRIVERS["gcc"]), f"--mlgo-policy={always}", "--mlgo-strict", "-Oz", "-c", "calls.c"]
    with subprocess.Popen(command, cwd=project, stderr=subprocess.PIPE) as process:
        try:
            wait_for(lambda: any("-print-before=inline" in command for command in clangs_on(project)))
            yield process
        finally:
            process.kill()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_a_compile_and_leaves_nothing(
    number: signal.Signals, project: Path, started: subprocess.Popen[bytes]
) -> None:
    before = abandoned()
    started.send_signal(number)
    assert started.wait(timeout=20) == -number
    wait_for(lambda: not clangs_on(project))
    assert abandoned() <= before
    assert files(project) == ["calls.c"]


def test_the_next_compile_removes_the_folder_of_a_killed_one(
    run: Run, project: Path, always: str, started: subprocess.Popen[bytes]
) -> None:
    started.kill()
    started.wait()
    wait_for(lambda: not clangs_on(project))
    assert files(project) == ["calls.c"]
    (project / "calls.c").write_text("int f(void) { return 1; }\n")
    assert run(f"--mlgo-policy={always}", "--mlgo-strict", "-Oz", "-c", "calls.c").returncode == 0
    assert not [name for name in abandoned() if f"-{started.pid}-" in name]


def test_a_back_end_that_is_killed(project: Path, started: subprocess.Popen[bytes]) -> None:
    children = Path(f"/proc/{started.pid}/task/{started.pid}/children").read_text().split()
    (project / "calls.c").write_text("int f(void) { return 1; }\n")
    os.kill(int(children[0]), signal.SIGKILL)
    _, stderr = started.communicate()
    assert (started.returncode, b"clang exited with status -9" in stderr) == (1, True)
    # A clang that is killed while it writes leaves its temporary file, also without a policy.
    assert [name for name in files(project) if not name.endswith(".o.tmp")] == ["calls.c"]


def test_two_builds_at_once_make_equal_objects(project: Path, always: str, own_cache: Path) -> None:
    make_project(project, 4)
    folders = [project.parent / f"copy{number}" for number in range(2)]
    for folder in folders:
        shutil.copytree(project, folder)
    command = ["make", "-j2", f"CC={DRIVERS['gcc']} --mlgo-policy={always} --mlgo-strict"]
    processes = [subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL) for folder in folders]
    assert [process.wait() for process in processes] == [0, 0]
    for number in range(4):
        first, second = (folder / f"part{number}.o" for folder in folders)
        assert first.read_bytes() == second.read_bytes()
    assert parse(Path(counters_path()).read_bytes())["compiled with a policy"] == 8
    assert own_cache.exists()


def test_a_cross_compile(run: Run, project: Path, always: str) -> None:
    objects = []
    for policy in ("always", always):
        words = ("--target=aarch64-linux-gnu", "-Oz", "-c", "calls.c")
        result = run(f"--mlgo-policy={policy}", "--mlgo-strict", *words)
        assert (result.returncode, result.stderr) == (0, b"")
        objects.append((project / "calls.o").read_bytes())
    assert objects[0] == objects[1]
    assert objects[0][18] == 183  # aarch64 in the header of ELF
