"""Credit where functions cannot be told apart: an error with the reason, or the documented fallback."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

import pytest

from mlgo_gym.attribution.credit import merge_split_parts
from mlgo_gym.envs import InlineEnv
from mlgo_gym.errors import MlgoError, ToolchainError
from mlgo_gym.llvm.toolchain import Toolchain
from tests.conftest import MakeBitcode

pytestmark = pytest.mark.usefixtures("nothing_is_left")

EQUAL_FUNCTIONS = """
int use(int);
static int small(int x) { return use(x) + use(x + 1) * 3; }
int first(int x) { return small(x) + small(x + 2); }
int second(int x) { return small(x) + small(x + 2); }
int third(int x) { return small(x) * small(x - 1); }
"""


STRIP = """
import struct, sys
data = bytearray(sys.stdin.buffer.read())
table, (size, count) = *struct.unpack_from("<Q", data, 40), struct.unpack_from("<HH", data, 58)
for header in range(table, table + size * count, size):
    if struct.unpack_from("<I", data, header + 4) == (2,):
        struct.pack_into("<I", data, header + 4, 1)
sys.stdout.buffer.write(data)
"""


@pytest.fixture
def bitcode(make_bitcode: MakeBitcode) -> str:
    return str(make_bitcode("calls.c"))


def wrapped(folder: Path, toolchain: Toolchain, body: str) -> str:
    """Return the path of a script that acts as clang; CLANG in its body is the real command."""
    script = folder / "clang"
    script.write_text("#!/bin/sh\n" + body.replace("CLANG", shlex.join(toolchain.command)) + "\n")
    script.chmod(0o755)
    return str(script)


def play(env: InlineEnv, flip: bool = True) -> tuple[float, dict[str, object]]:
    _, info = env.reset(seed=0)
    reward, ended = 0.0, False
    while not ended:
        _, reward, ended, _, info = env.step(int(info["default_action"]) ^ flip)
    return reward, info


@pytest.mark.parametrize("options", [{"callee_features": True}, {"credit": True}, {"scope": "function"}], ids=str)
def test_a_clang_that_prints_no_contexts(
    options: dict[str, object], bitcode: str, toolchain: Toolchain, tmp_path: Path
) -> None:
    silent = wrapped(
        tmp_path, toolchain, 'case "$*" in *print-before*) exec CLANG "$@" 2>/dev/null;; esac; exec CLANG "$@"'
    )
    env = InlineEnv(corpus=bitcode, clang=silent, **options)
    with pytest.raises(ToolchainError, match="expected a clang that prints functions before inlining"):
        env.reset(seed=0)
    env.close()


def test_a_stripped_object(bitcode: str, toolchain: Toolchain, tmp_path: Path) -> None:
    # Another section type hides the symbol table.
    (tmp_path / "strip.py").write_text(STRIP)
    strip = shlex.join([sys.executable, "-I", str(tmp_path / "strip.py")])
    body = f'case "$*" in *"-o - @"*) CLANG "$@" | {strip};; *) exec CLANG "$@";; esac'
    env = InlineEnv(corpus=bitcode, clang=wrapped(tmp_path, toolchain, body), credit=True)
    with pytest.raises(MlgoError, match="got a stripped one"):
        play(env)
    env.close()


def test_functions_that_the_compiler_merges(make_bitcode: MakeBitcode, tmp_path: Path) -> None:
    source = tmp_path / "equal.c"
    source.write_text(EQUAL_FUNCTIONS)
    env = InlineEnv(
        corpus=str(make_bitcode(source)),
        credit=True,
        compile_options={"extra_flags": ["-fmerge-functions"]},
        reward="bytes",
    )
    reward, info = play(env)
    sizes = info["function_sizes"]
    assert reward
    assert sum(info["credit"]) == pytest.approx(reward)  # type: ignore[call-overload] # a tuple of numbers
    assert sum(sizes.functions.values()) + sizes.unnamed == info["text"]  # type: ignore[attr-defined] # sizes
    env.close()


def test_split_off_parts_count_as_part_of_the_function() -> None:
    sizes = {"first": 10, "first.cold.1": 4, "second.part": 3, "own.name": 2, "own": 1}
    assert merge_split_parts(sizes, {"first", "own.name", "own"}) == {
        "first": 14,
        "second.part": 3,
        "own.name": 2,
        "own": 1,
    }
    assert merge_split_parts({"first": 4, "first.cold": -4}, {"first"}) == {}
