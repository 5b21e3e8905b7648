"""Environments with `metric="instructions"`: programs run after each compile."""

import shutil
from pathlib import Path
from typing import Any

import gymnasium as gym
import pytest

from mlgo_gym import CompilerError, CorpusError, MlgoError, open_corpus
from mlgo_gym.envs import InlineEnv
from mlgo_gym.episode.metrics.programs import ModulePrograms
from tests.fakes.drive import default_action, failed_end, run
from tests.tasks.small_corpus import ENTRY, MODULE, RIGHT, WRONG, small_corpus

needs_valgrind = pytest.mark.skipif(shutil.which("valgrind") is None, reason="valgrind is not installed")

METRIC = "instructions"
TRUST = {"trust_flags": True}


def play(env: Any, action: int | None) -> tuple[float, dict[str, Any]]:
    """Play an episode with one action, or with clang's own choices; return its reward and last info."""
    _, last = run(env, default_action if action is None else lambda _: action, module=MODULE)
    return last.reward, last.info


@pytest.fixture
def right(tmp_path: Path) -> Path:
    small_corpus(tmp_path / "corpus", ENTRY.format(name="vfs", sha256=RIGHT))
    return tmp_path / "corpus"


@needs_valgrind
@pytest.mark.parametrize("name", ["mlgo/Inline-v0", "mlgo/RegAllocEvict-v0"])
def test_the_reward_is_the_relative_change_of_the_count(name: str, right: Path) -> None:
    env = gym.make(name, corpus=str(right), metric=METRIC, max_decisions=300, strict=False, compile_options=TRUST)
    reward, info = play(env, 0)
    assert info[METRIC] > 10_000
    assert reward == info["reduction"] == pytest.approx(1 - info[METRIC] / info[f"baseline_{METRIC}"])
    assert reward < 0
    assert info["text"] != info["baseline_text"]
    own, info = play(env, None)
    assert own == 0 == info["reduction"]
    assert {*failed_end(env, MODULE).info} == {*info}
    env.close()


@needs_valgrind
def test_programs_and_their_files_identify_a_cost(right: Path) -> None:
    def identity() -> str:
        env = InlineEnv(corpus=str(right), metric=METRIC, compile_options=TRUST)
        env.close()
        return env.setup.project_costs[METRIC].identity

    seen = [identity()]
    assert identity() == seen[0]
    for name, old, new in (
        ("selftest.c", "\n", "\n\n"),
        ("programs.toml", '"2"', '"3"'),
        (f"{MODULE}.cmd", "-Oz", "-Os"),
    ):
        (right / name).write_text((right / name).read_text().replace(old, new))
        seen.append(identity())
    assert len(set(seen)) == 4


@needs_valgrind
def test_a_wrong_output_is_a_failed_episode(tmp_path: Path) -> None:
    small_corpus(tmp_path / "wrong", ENTRY.format(name="vfs", sha256=WRONG))
    env = gym.make("mlgo/Inline-v0", corpus=str(tmp_path / "wrong"), metric=METRIC, compile_options=TRUST)
    reward, info = play(env, 0)
    assert reward == -10
    assert info["error"]["kind"] == "program"
    assert "expected output with the SHA-256 0000000000000000…, got" in info["error"]["message"]
    env = gym.make(
        "mlgo/Inline-v0", corpus=str(tmp_path / "wrong"), metric=METRIC, error_reward=None, compile_options=TRUST
    )
    with pytest.raises(CompilerError, match="the compiled program is wrong"):
        play(env, 0)
    env.close()


@needs_valgrind
def test_only_modules_of_programs_have_episodes() -> None:
    env = InlineEnv(corpus="builtin@O2", metric=METRIC)
    programs = env.setup.project_costs["instructions"]
    assert isinstance(programs, ModulePrograms)
    everything = open_corpus("builtin@O2")
    assert set(env.corpus.names) == programs.modules < set(everything.names)
    other = min(set(everything.names) - programs.modules)
    with pytest.raises(MlgoError, match=f"expected a module of a program in .*, got '{other}'; choose another metric"):
        programs.cost(other)
    env.close()
    with InlineEnv(corpus="builtin@O2:test", metric=METRIC) as part:
        assert 0 < len(part.corpus) < len(env.corpus)


@needs_valgrind
def test_untrusted_programs_and_a_folder_without_any_are_refused(right: Path) -> None:
    for trust, message in (({}, "a trusted corpus"), (TRUST, "a corpus with programs.toml, got .*; use builtin or")):
        env = InlineEnv(corpus=str(right), metric=METRIC, compile_options=trust)
        with pytest.raises(CorpusError, match=f"expected .*{message}"):
            env.reset()
        env.close()
        (right / "programs.toml").unlink(missing_ok=True)
