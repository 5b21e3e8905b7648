"""The examples run as their headers say."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from mlgo_gym.llvm.function_sizes import function_sizes

EXAMPLES = Path(__file__).parents[1] / "examples"


def run(name: str, corpus: Path) -> str:
    answer = subprocess.run(
        [sys.executable, "-W", "error", str(EXAMPLES / name), str(corpus)], capture_output=True, text=True, check=False
    )
    assert answer.returncode == 0, answer.stderr
    return answer.stdout


def test_the_random_agent_prints_its_episode(corpus: Path) -> None:
    printed = run("random_agent.py", corpus)
    assert all(words in printed for words in ("calls: clang asks whether to inline", "random decisions", "reward"))


def test_my_policy_is_compared_with_clang(corpus: Path) -> None:
    rows = [line.split() for line in run("my_policy.py", corpus).splitlines()]
    assert ["default", "2"] in [row[:2] for row in rows]
    assert ["one", "block", "2"] in [row[:3] for row in rows]


@pytest.mark.parametrize(("name", "extra"), [("sb3_ppo.py", "learn"), ("rllib_ppo.py", "learn,rllib")])
def test_an_example_without_its_library_names_the_extra_in_one_line(name: str, extra: str) -> None:
    program = f"import runpy, sys; sys.argv = [{name!r}]; sys.modules['torch'] = None; "
    program += f"runpy.run_path({str(EXAMPLES / name)!r}, run_name='__main__')"
    answer = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    expected = f"{name} needs the extra {extra!r}; in a clone of mlgo-gym: pip install '.[{extra}]'\n"
    assert (answer.returncode, answer.stderr) == (1, expected)


@pytest.mark.slow
def test_the_firmware_is_smaller_with_a_network_and_prints_the_same(tmp_path: Path) -> None:
    sizes, printed = {}, {}
    for policy in ("default", "inline-os"):
        folder = tmp_path / policy
        shutil.copytree(EXAMPLES / "firmware", folder)
        wrapper = Path(sys.executable).parent / "mlgo-clang"
        command = ["make", f"CC={wrapper} --mlgo-policy={policy}", "CFLAGS=-Os"]
        built = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
        assert (built.returncode, built.stderr) == (0, "")
        sizes[policy] = sum(function_sizes((folder / "firmware.elf").read_bytes()).functions.values())
        if shutil.which("qemu-system-arm"):
            ran = subprocess.run([*command, "run"], cwd=folder, capture_output=True, text=True, timeout=60, check=True)
            printed[policy] = ran.stderr
    assert sizes["inline-os"] < sizes["default"]
    if not printed:
        pytest.skip("qemu-system-arm is not installed")
    assert "restored:    128" in printed["default"]
    assert printed["inline-os"] == printed["default"]
