"""Policies with callee features compile in two steps: the same files, messages and decisions."""

from __future__ import annotations

from pathlib import Path

import pytest

from mlgo_clang.interactive import INLINING
from mlgo_clang.native import NativeNetwork, NativeServer
from mlgo_clang.two_steps import TwoSteps
from tests.mlgo_clang.conftest import Run, files, text, write_network

COMPILE = ("-Oz", "-c", "calls.c")


@pytest.mark.parametrize(
    "more",
    [
        ("-g", "-MD"),
        ("-Wframe-larger-than=1", "-Wall"),
        pytest.param(("-g", "-gsplit-dwarf"), marks=pytest.mark.slow),
        ("-fdiagnostics-show-category=name", "-fno-diagnostics-show-option", "-w", "-fno-builtin", "-fstack-usage"),
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
    outcomes = []
    for policy in ("always", always):
        # The same name of the object, which debug information can contain.
        result = run(f"--mlgo-policy={policy}", "--mlgo-strict", *more, *COMPILE, "-o", "calls.o")
        assert result.returncode == 0, result.stderr
        made = {path.name: path.read_bytes() for path in project.iterdir() if path.name != "calls.c"}
        for name in made:
            (project / name).unlink()
        outcomes.append((result.stderr, made))
    assert outcomes[0] == outcomes[1]


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


@pytest.mark.parametrize("words", [("--mlgo-eviction-policy=first_legal",), ("--target=aarch64-linux-gnu",)])
def test_another_advisor_and_another_target_make_no_difference(
    words: tuple[str, ...], run: Run, project: Path, always: str
) -> None:
    objects = []
    for policy in ("always", always):
        result = run(f"--mlgo-policy={policy}", *words, "--mlgo-strict", *COMPILE)
        assert (result.returncode, result.stderr) == (0, b"")
        objects.append((project / "calls.o").read_bytes())
    assert objects[0] == objects[1]
    assert objects[0][18] == (183 if "aarch64" in words[0] else 62)  # the machine in the header of ELF


def test_a_source_without_decisions_keeps_its_warnings(run: Run, project: Path, always: str) -> None:
    (project / "calls.c").write_text("void g(char *); void f(void) { int unused; char big[99]; g(big); }\n")
    words = ("--mlgo-strict", "-Wall", "-Wframe-larger-than=1", *COMPILE)
    expected, result = (run(f"--mlgo-policy={policy}", *words) for policy in ("default", always))
    assert (result.returncode, result.stderr) == (0, expected.stderr)
    assert result.stderr.count(b"warning: ") == 2


def test_options_that_print_code_are_refused(run: Run, project: Path, always: str) -> None:
    words = ("-mllvm", "-filter-print-funcs=first", *COMPILE)
    result = run(f"--mlgo-policy={always}", "--mlgo-strict", *words)
    assert (result.returncode, b"options that print code" in result.stderr) == (1, True)
    assert run(f"--mlgo-policy={always}", *words).returncode == 0
    assert files(project) == ["calls.c", "calls.o"]


@pytest.mark.parametrize(
    "more",
    [
        (),
        pytest.param(("-g", "-Wall", "-MMD"), marks=pytest.mark.slow),
        pytest.param(("-fPIC", "-march=haswell"), marks=pytest.mark.slow),
    ],
)
def test_the_decisions_of_a_network_are_compiled(
    more: tuple[str, ...], run: Run, project: Path, tmp_path: Path
) -> None:
    def size(policy: str) -> int:
        result = run(f"--mlgo-policy={policy}", "--mlgo-strict", *more, *COMPILE)
        assert (result.returncode, result.stderr) == (0, b"")
        return text(project / "calls.o")

    never, always, once = (
        write_network(tmp_path / f"{name}.safetensors", "module_decisions", weight, bias)
        for name, weight, bias in (("never", 0, -1), ("always", 0, 1), ("once", -1, 0.5))
    )
    none, every = size(never), size(always)
    assert (none, every) == (size("never"), size("always"))
    assert size(once) not in (none, every)
    assert size(f"{always},default") == size("default") < every


def test_clang_compiles_alone_if_a_network_cannot_be_used(
    run: Run, project: Path, tmp_path: Path, plain: bytes
) -> None:
    foreign = write_network(tmp_path / "foreign.safetensors", "no_such_feature", 1, 0)
    for policy, reason in ((foreign, b"no_such_feature"), ("mlp:nowhere.safetensors", b"there is no such file")):
        result = run(f"--mlgo-policy={policy}", *COMPILE)
        assert (result.returncode, reason in result.stderr) == (0, True), result.stderr
        assert (project / "calls.o").read_bytes() == plain
        assert run(f"--mlgo-policy={policy}", "--mlgo-strict", *COMPILE).returncode == 1
    result = run("--mlgo-eviction-policy=inline-oz", "--mlgo-policy=default", "--mlgo-strict", *COMPILE)
    assert (result.returncode, b"use a network for evictions" in result.stderr) == (1, True)
