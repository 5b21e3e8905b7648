"""`mlgo/Inline-v0`."""

import io
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from elftools.elf.constants import SH_FLAGS
from elftools.elf.elffile import ELFFile

from mlgo_gym.corpus.driver import cc1_line, code_generation_flags
from mlgo_gym.envs import InlineEnv
from mlgo_gym.llvm.toolchain import Toolchain
from tests.conftest import MakeBitcode, clang_argument
from tests.fakes.compiles import finished_compiles, running_compile
from tests.fakes.drive import failed_end, play

pytestmark = pytest.mark.usefixtures("nothing_is_left")

METRICS = ("text", "llvm_size", "loaded", "object")


def text(data: bytes) -> list[bytes]:
    sections = ELFFile(io.BytesIO(data)).iter_sections()
    return [section.data() for section in sections if section["sh_flags"] & SH_FLAGS.SHF_EXECINSTR]


@pytest.mark.parametrize("program", ["calls.c", "many_calls.c", "sections.c"])
def test_clangs_own_choices_give_the_text_of_plain_clang_byte_for_byte(
    any_toolchain: Toolchain, program: str, make_bitcode: MakeBitcode, own_cache: Path
) -> None:
    bitcode = make_bitcode(program, compiler=any_toolchain)
    with finished_compiles() as compiles:
        last = play(InlineEnv(corpus=str(bitcode), clang=clang_argument(any_toolchain)))[-1]
    ours, plain = compiles
    assert (ours.plain, plain.plain) == (False, True)
    assert text(ours.object_bytes) == text(plain.object_bytes)
    assert (last.reward, last.info["reduction"]) == (0.0, 0.0)


def test_an_overwritten_feature_is_empty(any_toolchain: Toolchain, make_bitcode: MakeBitcode) -> None:
    bitcode = make_bitcode("calls.c", compiler=any_toolchain)
    env = InlineEnv(corpus=str(bitcode), clang=clang_argument(any_toolchain))
    first, info = env.reset()
    seen = [first, *(step.observation for step in play(env)[:-1])]
    column = env.feature_names.index("callee_basic_block_count")
    counts = {int(observation[column]) for observation in seen}
    assert counts == {0} if any_toolchain.version[0] < 21 else 0 not in counts
    assert info["default_action"] == first[-1] == 1


def test_a_decision_is_shown_in_words(calls: Path) -> None:
    env = InlineEnv(corpus=str(calls), render_mode="ansi")
    nothing = "no decision is pending: no episode is started"
    assert env.render() == nothing
    env.reset()
    assert env.render() == "inlining decision 0 of calls\n  clang's own choice 1"
    env.step(0)
    assert str(env.render()).endswith("the action before 0")
    while not env.step(0)[2]:
        pass
    assert re.match(r"calls is compiled, after 9 decisions\n[\s\S]*than clang alone$", str(env.render()))
    failed_end(env)
    assert "calls failed after 1 decisions: " in str(env.render())
    env.close()
    assert env.render() == nothing


@pytest.mark.parametrize(
    "action", [1, True, 1.0, np.int64(1), np.array(1), np.float32(1), np.array([1]), np.array([[1.0]]), [1]], ids=repr
)
def test_every_spelling_of_one_is_one(calls: Path, action: Any) -> None:
    with InlineEnv(corpus=str(calls)) as env:
        env.reset()
        env.step(action)
        assert env.actions == (1,)
        assert running_compile(env).advice == ((1).to_bytes(8, "little"),)


def size(metric: str, data: bytes, folder: Path) -> int:
    if metric == "object":
        return len(data)
    if metric == "text":
        return sum(map(len, text(data)))
    program = shutil.which("llvm-size")
    if program is None:
        pytest.skip("llvm-size is not installed")
    path = folder / "object.o"
    path.write_bytes(data)
    return int(subprocess.check_output([program, str(path)], text=True).splitlines()[1].split()[0])


@pytest.mark.parametrize("metric", METRICS)
def test_rewards_compare_the_size_with_plain_clangs(metric: str, calls: Path, own_cache: Path, tmp_path: Path) -> None:
    with finished_compiles() as compiles:
        play(InlineEnv(corpus=str(calls)), 0)
    ours, plain = (size(metric, compiled.object_bytes, tmp_path) for compiled in compiles)
    assert ours > plain
    expected = {"relative": 1 - ours / plain, "bytes": plain - ours}
    for reward, value in expected.items():
        last = play(InlineEnv(corpus=str(calls), metric=metric, reward=reward), 0)[-1]
        assert last.reward == pytest.approx(value, rel=1e-12)
        assert last.info["reduction"] == pytest.approx(1 - ours / plain)
        assert (last.info[metric], last.info[f"baseline_{metric}"]) == (ours, plain)


def test_the_stack_is_the_largest_frame_and_a_refused_one_is_a_failure(toolchain: Toolchain, tmp_path: Path) -> None:
    source, bitcode, usage = (tmp_path / f"frames.{suffix}" for suffix in ("c", "bc", "su"))
    source.write_text(
        "int format(char *, int);\n"
        "static void show(int v) { char text[3000]; for (int i = 0; i < v; ++i) text[i] = v * i; format(text, v); }\n"
        "void walk(int v) { if (v > 3) { show(v); show(v + 1); } format(0, v); }\n"
    )
    words = ["-Oz", "-Wframe-larger-than=3005", "-c", str(source), "-o", str(bitcode)]
    subprocess.run([*toolchain.command, *words, "-emit-llvm", "-Xclang", "-disable-llvm-passes"], check=True)
    subprocess.run(
        [*toolchain.command, "-Oz", "-fstack-usage", "-c", str(source), "-o", usage.with_suffix(".o")], check=True
    )
    sizes = [int(line.split("\t")[1]) for line in usage.read_text().splitlines()]
    for error, fails in (("-Wall", False), ("-Werror=frame-larger-than=", True)):
        flags = code_generation_flags(cc1_line(toolchain, [error, *words]))
        env = InlineEnv(corpus=str(bitcode), metric="max_frame", compile_options={"flags": list(flags)})
        last = play(env, 1)[-1]
        assert env.corpus[0].flags == tuple(flags)
        if fails:
            assert last.terminated
            assert "stack frame size (3016) exceeds limit (3005)" in last.info["error"]["stderr"]
        else:
            assert (last.info["baseline_max_frame"], last.info["max_frame"]) == (max(sizes), 3016)
            assert last.info["grown_frames"] == 1


@pytest.mark.parametrize(
    ("program", "action", "cause"),
    [
        ("assembly_label.c", 1, "<inline asm>:1:2: error: symbol 'my_label' is already defined"),
        ("error_attribute.c", 0, "error: call to 'bad' declared with 'error' attribute: x"),
    ],
)
def test_decisions_that_break_a_module_end_it(program: str, action: int, cause: str, make_bitcode: MakeBitcode) -> None:
    env = InlineEnv(corpus=str(make_bitcode(program, optimize="-Os")), compile_options={"flags": ["-Os"]})
    env.reset()
    steps = [env.step(action) for _ in range(2)]
    _, reward, terminated, truncated, info = steps[-1]
    assert (reward, terminated, truncated) == (-10.0, True, False)
    assert cause in info["error"]["stderr"]
