"""Policies with callee features compile in two steps: the same files, messages and decisions."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.mlgo_clang.conftest import Run, files, text, write_network

COMPILE = ("-Oz", "-c", "calls.c")


@pytest.mark.parametrize(
    "more",
    [
        ("-g", "-MD"),
        ("-Wframe-larger-than=1", "-Wall"),
        ("-fdiagnostics-show-category=name", "-fno-diagnostics-show-option", "-w", "-fno-builtin", "-fstack-usage"),
        ("--mlgo-eviction-policy=first_legal",),
        ("--target=aarch64-linux-gnu",),
        pytest.param(("-g", "-gsplit-dwarf", "-fsanitize=undefined", "--coverage"), marks=pytest.mark.slow),
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
    assert outcomes[0][1]["calls.o"][18] == (183 if "aarch64" in more[0] else 62)  # the machine in the header of ELF


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


def test_the_decisions_of_a_network_are_compiled(run: Run, project: Path, tmp_path: Path, always: str) -> None:
    def size(policy: str) -> int:
        result = run(f"--mlgo-policy={policy}", "--mlgo-strict", "-g", "-fPIC", "-march=haswell", *COMPILE)
        assert (result.returncode, result.stderr) == (0, b"")
        return text(project / "calls.o")

    never = write_network(tmp_path / "never.safetensors", "module_decisions", 0, -1)
    once = write_network(tmp_path / "once.safetensors", "module_decisions", -1, 0.5)
    none, every = size(never), size(always)
    assert (none, every) == (size("never"), size("always"))
    assert size(once) not in (none, every)
    assert size(f"{always},default") == size("default") < every


def test_clang_compiles_alone_if_a_network_has_an_unknown_feature(
    run: Run, project: Path, tmp_path: Path, plain: bytes
) -> None:
    policy = write_network(tmp_path / "foreign.safetensors", "no_such_feature", 1, 0)
    result = run(f"--mlgo-policy={policy}", *COMPILE)
    assert (result.returncode, b"no_such_feature" in result.stderr) == (0, True), result.stderr
    assert (project / "calls.o").read_bytes() == plain
    assert run(f"--mlgo-policy={policy}", "--mlgo-strict", *COMPILE).returncode == 1
    result = run("--mlgo-eviction-policy=inline-oz", "--mlgo-policy=default", "--mlgo-strict", *COMPILE)
    assert (result.returncode, b"use a network for evictions" in result.stderr) == (1, True)
