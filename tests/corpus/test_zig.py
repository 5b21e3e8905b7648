"""Bitcode of the Zig compiler as a corpus."""

from __future__ import annotations

import subprocess
from pathlib import Path

import gymnasium as gym
import pytest

from mlgo_gym.llvm.object_file import object_sizes
from mlgo_gym.llvm.toolchain import find_toolchain

COUNTS = """\
fn sum(n: u32) u32 {
    var total: u32 = 0;
    var i: u32 = 0;
    while (i < n) : (i += 1) total +%= i *% n;
    return total;
}

fn twice(n: u32) u32 {
    return sum(n) +% sum(n +% 1);
}

export fn first(n: u32) u32 {
    return twice(n) +% sum(n) +% twice(2);
}

export fn second(n: u32) bool {
    return twice(n) > 3;
}
"""


@pytest.mark.slow
def test_a_program_in_zig_is_a_module_before_optimisation(tmp_path: Path) -> None:
    """The compiler requests decisions about it, and its own choices give nearly the code of Zig."""
    (tmp_path / "counts.zig").write_text(COUNTS)
    zig = str(find_toolchain("bundled").command[0])
    options = [
        "-O",
        "ReleaseSmall",
        "--verbose-llvm-bc=counts.bc",
        "--cache-dir",
        "cache",
        "--global-cache-dir",
        "cache",
    ]
    subprocess.run([zig, "build-obj", *options, "counts.zig"], cwd=tmp_path, check=True, capture_output=True)
    with gym.make("mlgo/Inline-v0", corpus=str(tmp_path / "counts.bc")) as env:
        _, info = env.reset()
        ended, decisions = False, 0
        while not ended:
            *_, ended, _, info = env.step(0)
            decisions += 1
    assert decisions >= 3
    assert info["text"] != info["baseline_text"]
    own = object_sizes((tmp_path / "counts.o").read_bytes()).text
    assert abs(info["baseline_text"] - own) <= 0.1 * own
