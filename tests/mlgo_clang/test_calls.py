"""Policies in the driver that see which function is called."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from mlgo_clang.policies import network_file, sees_calls
from mlgo_gym.llvm.object_file import object_sizes
from mlgo_gym.policies.box import boxed_policies
from mlgo_gym.policies.calls import sees_calls as network_sees_calls
from mlgo_gym.policies.network import Network
from tests.mlgo_clang.conftest import Run


def write(path: Path, feature: str, weight: float, bias: float) -> str:
    Network((feature,), (np.array([[weight]], np.float32),), (np.array([bias], np.float32),)).save(path)
    return f"calls:{path}"


def text(project: Path) -> int:
    return object_sizes((project / "calls.o").read_bytes()).text


def test_names_tell_which_policies_of_the_box_see_calls() -> None:
    for name in boxed_policies():
        assert sees_calls(name) == network_sees_calls(Network.load(network_file(name, "z")))


@pytest.mark.parametrize("more", [(), ("-g", "-Wall", "-MMD"), ("-fPIC", "-march=haswell")])
def test_what_it_decides_is_what_is_compiled(more: tuple[str, ...], run: Run, project: Path, tmp_path: Path) -> None:
    sizes = {}
    for name, weight, bias in (("never", 0, -1), ("always", 0, 1), ("once", -1, 0.5)):
        policy = write(tmp_path / f"{name}.safetensors", "module_decisions", weight, bias)
        result = run(f"--mlgo-policy={policy}", "--mlgo-strict", "-Oz", *more, "-c", "calls.c")
        assert (result.returncode, result.stderr) == (0, b"")
        sizes[name] = text(project)
    for name in ("never", "always"):
        run(f"--mlgo-policy={name}", "--mlgo-strict", "-Oz", *more, "-c", "calls.c")
        assert text(project) == sizes[name]
    assert sizes["once"] not in (sizes["never"], sizes["always"])


def test_it_takes_part_in_the_smallest_of_several(run: Run, project: Path, tmp_path: Path) -> None:
    always = write(tmp_path / "always.safetensors", "callee_lines", 0, 1)
    assert run(f"--mlgo-policy={always},default", "--mlgo-strict", "-Oz", "-c", "calls.c").returncode == 0
    several = text(project)
    run("--mlgo-policy=default", "-Oz", "-c", "calls.c")
    assert several == text(project)


def test_one_that_cannot_be_used_leaves_all_to_clang(run: Run, project: Path, tmp_path: Path) -> None:
    run("--mlgo-policy=default", "-Oz", "-c", "calls.c")
    plain = (project / "calls.o").read_bytes()
    foreign = write(tmp_path / "foreign.safetensors", "no_such_feature", 1, 0)
    for policy, why in ((foreign, b"no_such_feature"), ("calls:nowhere.safetensors", b"there is no such file")):
        result = run(f"--mlgo-policy={policy}", "-Oz", "-c", "calls.c")
        assert (result.returncode, why in result.stderr) == (0, True), result.stderr
        assert (project / "calls.o").read_bytes() == plain
        assert run(f"--mlgo-policy={policy}", "--mlgo-strict", "-Oz", "-c", "calls.c").returncode != 0


def test_a_source_with_an_error_is_clangs_to_tell(run: Run, project: Path, tmp_path: Path) -> None:
    (project / "calls.c").write_text("int f( {\n")
    policy = write(tmp_path / "always.safetensors", "callee_lines", 0, 1)
    result = run(f"--mlgo-policy={policy}", "-Oz", "-c", "calls.c")
    assert (result.returncode, b"calls.c:1:8: error: " in result.stderr) == (1, True), result.stderr
