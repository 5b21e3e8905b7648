"""An interrupt at any point of the Python code raises `KeyboardInterrupt`, and nothing is left."""

import gc
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import gymnasium as gym
import pytest

import mlgo_gym
from mlgo_gym.compiler.limits import Limits
from mlgo_gym.compiler.process import CompilerProcess, run_bounded
from mlgo_gym.compiler.session import Session
from mlgo_gym.compiler.waiting import interruptible, uninterrupted
from mlgo_gym.corpus.compilation import Compilation
from mlgo_gym.errors import ToolchainError
from mlgo_gym.llvm.advisors import INLINING
from tests.traces import children, scratch_folders, traces

PACKAGE = str(Path(mlgo_gym.__file__).parent)


class InterruptAt:
    """Sends SIGINT to this process at one step of the package's code; `where` is empty if that ends before."""

    def __init__(self, step: int) -> None:
        self.step = step
        self.where = ""

    def __call__(self, frame: FrameType, event: str, argument: Any) -> Any:
        if not frame.f_code.co_filename.startswith(PACKAGE):
            return None
        self.step -= 1
        if self.step <= 0 and not in_finaliser(frame):
            self.where = f"{frame.f_code.co_filename}:{frame.f_lineno} ({event})"
            sys.settrace(None)
            signal.raise_signal(signal.SIGINT)
        return self


def in_finaliser(frame: FrameType | None) -> bool:
    """Return whether Python may ignore an exception here: in a destructor, or in a generator that it closes."""
    while frame is not None:
        if frame.f_code.co_name in ("__del__", "<genexpr>"):
            return True
        frame = frame.f_back
    return False


def counts() -> tuple[int, ...]:
    """Return the numbers of children, descriptors and scratch folders of this process."""
    return len(children()), len(list(Path("/proc/self/fd").iterdir())), len(scratch_folders())


def interrupts(call: Callable[[], object], stride: int, recover: Callable[[], object] = lambda: None) -> int:
    """Interrupt a function at every n-th step, check that nothing is left, and return the number of interrupts."""
    call()
    gc.collect()
    before, affinity = counts(), os.sched_getaffinity(0)
    handler = signal.getsignal(signal.SIGINT)
    count = 0
    while True:
        tracer = InterruptAt(1 + count * stride)
        sys.settrace(tracer)
        try:
            call()
        except KeyboardInterrupt:
            error: str = "KeyboardInterrupt"
        else:
            error = "none"
        finally:
            sys.settrace(None)
        if not tracer.where:
            return count
        assert error == "KeyboardInterrupt", f"expected KeyboardInterrupt after {tracer.where}, got {error}"
        recover()
        assert all(now <= then for now, then in zip(counts(), before, strict=True)), (tracer.where, before, counts())
        assert os.sched_getaffinity(0) == affinity, tracer.where
        assert signal.getsignal(signal.SIGINT) is handler, tracer.where
        count += 1


STRIDES = {"compile": (97, 7), "confined": (211, 13), "program": (11, 3), "vector": (997, 61)}
STRIDES |= {"reset": (151, 29), "credit": (307, 29)}


@pytest.fixture
def works(compile_calls: Compilation, corpus: Path, tmp_path: Path) -> dict[str, Callable[[], object]]:
    """What is interrupted, by name."""

    def compile_once(confined: bool) -> None:
        with Session(compile_calls.command, (INLINING,), contexts=True, confined=confined) as session:
            for _ in range(3):
                session.wait(30)
                session.advise(bytes(8))
            with session.fork() if session.wait(30) else session:
                pass

    def reset(**options: Any) -> Callable[[], None]:
        env = gym.make("mlgo/Inline-v0", corpus=str(corpus), **options)

        def reset_and_close() -> None:
            try:
                env.reset(seed=1)
            finally:
                sys.settrace(None)
                env.close()

        return reset_and_close

    return {
        "compile": lambda: compile_once(False),
        "confined": lambda: compile_once(True),
        "program": lambda: run_bounded(["/bin/true"], writable=[tmp_path]),
        "reset": reset(),
        "credit": reset(credit=True),
    }


@pytest.mark.parametrize(
    ("name", "stride"),
    [
        pytest.param(name, stride, marks=[pytest.mark.slow] * number)
        for name, strides in STRIDES.items()
        for number, stride in enumerate(strides)
    ],
)
def test_work_can_be_interrupted(name: str, stride: int, works: dict[str, Callable[[], object]], corpus: Path) -> None:
    if name in works:
        assert interrupts(works[name], stride) > 90 // stride
        return
    envs = gym.make_vec("mlgo/Inline-v0", 2, corpus=str(corpus))
    before = traces()

    def reset_and_step() -> None:
        envs.reset(seed=1)
        envs.step(envs.action_space.sample() * 0)

    reset_and_step()
    assert interrupts(reset_and_step, stride, lambda: envs.reset(seed=1)) > 600 // stride
    envs.close()
    assert traces() <= before


def test_a_handler_that_does_not_raise_lets_the_wait_continue_and_one_that_raises_replaces_an_error() -> None:
    handled: list[int] = []
    before = signal.signal(signal.SIGUSR1, lambda number, _: handled.append(number))
    try:
        with uninterrupted():
            signal.raise_signal(signal.SIGUSR1)
            assert not handled
            interruptible(signal.raise_signal, signal.SIGUSR1)
            assert handled == [signal.SIGUSR1] * 2
            signal.raise_signal(signal.SIGUSR1)
            assert len(handled) == 2
        assert len(handled) == 3
    finally:
        signal.signal(signal.SIGUSR1, before)

    @uninterrupted()
    def fail() -> None:
        signal.raise_signal(signal.SIGINT)
        raise ValueError

    with pytest.raises(KeyboardInterrupt) as raised:
        fail()
    assert isinstance(raised.value.__context__, ValueError)


@pytest.mark.usefixtures("nothing_is_left")
def test_limits_that_cannot_be_applied_leave_nothing() -> None:
    with Path(os.devnull).open("wb") as nowhere:
        sink = nowhere.fileno()
        with pytest.raises(OverflowError):
            CompilerProcess.start(["/bin/sleep", "60"], stdout=sink, stderr=sink, limits=Limits(memory=1e12))
    with pytest.raises((OverflowError, ToolchainError)):
        run_bounded(["/bin/sleep", "60"], limits=Limits(memory=1e12))
