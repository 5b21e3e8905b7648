"""Trajectories as LLVM training logs, which LLVM's log_reader.py and google/ml-compiler-opt read.

An observation has the features and, as its last tensor, the decision, as in logs of LLVM's own `-training-log`. An
outcome follows each observation, as those readers expect. It is the reward of the step.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import IO

from mlgo_gym.errors import MlgoError, TrainingLogError
from mlgo_gym.integrations.trajectory import Step
from mlgo_gym.llvm.tensor_spec import TensorSpec
from mlgo_gym.llvm.training_log import LogDecoder, LogHeader, LogWriter, Observation, read_events
from mlgo_gym.storage.untrusted_file import open_untrusted
from mlgo_gym.tasks.task import Task

SCORE = TensorSpec("reward", "float", (1,))
"""Tensor of the outcomes; LLVM's register allocation logs have the same name."""


def log_names(module: str, task: Task) -> list[str]:
    """Return the path of a module's log for each advisor of a task, relative to the output.

    Slashes in the name separate folders. Raises `MlgoError` for a name that leads out of the folder.
    """
    if module.startswith("/") or ".." in module.split("/"):
        raise MlgoError(f"expected a module name without a leading slash and `..`, got {module!r}; rename the module")
    advisors = [f".{advisor.name}" for advisor in task.advisors] if len(task.advisors) > 1 else [""]
    return [f"logs/{module}{advisor}.log" for advisor in advisors]


def write_log(stream: IO[bytes], channel: LogHeader, steps: Sequence[Step], rewards: Sequence[float]) -> None:
    """Write the decisions of one advisor and their rewards in order, byte for byte as LLVM's `Logger` would.

    Raises:
        MlgoError: The header has no advice.
    """
    if channel.advice is None:
        raise MlgoError("expected the header of an interactive channel, got one without advice; use a compiler's own")
    log = LogWriter(stream, LogHeader((*channel.features, channel.advice), score=SCORE))
    context: str | None = None
    for step, reward in zip(steps, rewards, strict=True):
        if step.decision.context != context:
            context = step.decision.context
            log.context(context)
        log.observation(step.decision.payload + step.advice)
        log.outcome(reward)


def read_advice(path: Path) -> list[bytes]:
    """Return the advice of each decision in a log, as the bytes of its tensor; raise `MlgoError` without a log."""
    decoder = LogDecoder()
    try:
        with open_untrusted(path) as stream:
            payloads = [event.payload for event in read_events(stream, decoder) if isinstance(event, Observation)]
    except (OSError, TrainingLogError) as error:
        raise MlgoError(f"{path}: expected a training log, got an error: {error}; trace again") from error
    assert decoder.header is not None  # read_events() raises otherwise
    size = decoder.header.features[-1].nbytes
    return [payload[-size:] for payload in payloads]
