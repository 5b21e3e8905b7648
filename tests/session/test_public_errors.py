"""Public calls in the wrong order raise an `MlgoError` with a remedy, also under `python -O`."""

from __future__ import annotations

import io
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import gymnasium as gym
import pytest

from mlgo_gym.corpus.commands.compilation import Compilation
from mlgo_gym.env import CompilerEnv
from mlgo_gym.errors import ActionError, MlgoError
from mlgo_gym.llvm.advisors import EVICTION, INLINING
from mlgo_gym.llvm.tensor_spec import TensorSpec
from mlgo_gym.llvm.training_log import LogHeader
from mlgo_gym.search.search_space import Budget, SearchSpace
from mlgo_gym.session.session import Session
from mlgo_gym.training.pipeline import Pipeline
from mlgo_gym.trajectories.logs import write_log

pytestmark = pytest.mark.usefixtures("nothing_is_left")


@pytest.fixture
def session(compile_calls: Compilation) -> Iterator[Session]:
    with Session(compile_calls.command, (INLINING,)) as started:
        yield started


def test_a_session_answers_pending_decisions_and_finishes_without(session: Session) -> None:
    for call in (lambda: session.advise(bytes(8)), lambda: session.stop_at(b"x")):
        with pytest.raises(MlgoError, match="expected a pending decision, got none; wait"):
            call()
    for _ in range(2):
        with pytest.raises(MlgoError, match="got a pending one; advise"):
            session.finish(30)


def test_answers_ahead_are_of_one_advisor_and_used_in_turn(session: Session, compile_calls: Compilation) -> None:
    session.advise_ahead([bytes(8)] * 100)
    with pytest.raises(MlgoError, match="got 1 and 100; advise"):
        session.advise_ahead([bytes(8)])
    with (
        Session(compile_calls.command, (INLINING, EVICTION)) as two,
        pytest.raises(MlgoError, match="expected one advisor"),
    ):
        two.advise_ahead([bytes(8)])


def test_a_branch_at_its_end_has_no_choice(corpus: Path) -> None:
    env = gym.make("mlgo/Inline-v0", corpus=str(corpus)).unwrapped
    assert isinstance(env, CompilerEnv)
    branch = SearchSpace(env, env.corpus.module("calls"), Budget()).root()
    branch.roll_out()
    for call in (lambda: branch.default, branch.candidates, lambda: branch.take(0)):
        with pytest.raises(ActionError, match="got the end of the compile"):
            call()
    env.close()


def test_a_pipeline_has_a_round_and_a_log_the_header_of_a_channel() -> None:
    with pytest.raises(MlgoError, match="expected rounds ≥ 1, got 0"):
        Pipeline(None, None, rounds=0)  # type: ignore[arg-type] # neither is used
    with pytest.raises(MlgoError, match="got one without advice"):
        write_log(io.BytesIO(), LogHeader((TensorSpec("x", "int64_t", (1,)),)), [], [])


def test_the_checks_hold_without_asserts(compile_calls: Compilation) -> None:
    code = (
        "import sys\nfrom mlgo_gym.errors import MlgoError\nfrom mlgo_gym.llvm.advisors import INLINING\n"
        "from mlgo_gym.session.session import Session\n"
        "with Session(sys.argv[1:], (INLINING,)) as session:\n"
        "    try: session.finish(30)\n"
        "    except MlgoError as error: print(error)\n"
    )
    words = [sys.executable, "-O", "-c", code, *compile_calls.command]
    assert subprocess.check_output(words, text=True).startswith("expected answers to all decisions")
