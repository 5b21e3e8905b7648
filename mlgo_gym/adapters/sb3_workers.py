"""`SubprocVecEnv` of stable-baselines3, whose workers say why they fail.

The original's worker dies of an error, and all that the program hears is `ConnectionResetError`. `VecEnvAdapter` needs
no workers and is faster; this is for environments in wrappers of one's own.
"""

from __future__ import annotations

import functools
import shutil
import tempfile
import traceback
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from multiprocessing.connection import wait
from pathlib import Path
from typing import Any, TypeVar

import gymnasium as gym
import numpy.typing as npt

from mlgo_gym.errors import MissingExtraError, MlgoError
from mlgo_gym.storage.leftovers import make_own_folder

try:
    from stable_baselines3.common import vec_env
    from stable_baselines3.common.vec_env.base_vec_env import VecEnvIndices, VecEnvObs, VecEnvStepReturn
except ImportError as error:
    raise MissingExtraError("the adapter for stable-baselines3", "sb3") from error

_CLOSING_SECONDS = 10.0
"""How long a worker may take to end its compile and itself."""

T = TypeVar("T")

Env = gym.Env[Any, Any]


class SubprocVecEnv(vec_env.SubprocVecEnv):
    """Runs each environment in a process of its own, as its namesake does.

    ```python
    envs = make_vec_env("mlgo_gym:mlgo/Inline-v0", 4, vec_env_cls=SubprocVecEnv)
    ```

    Args:
        env_fns: functions that make the environments, for the workers to call.
        start_method: how the processes are started, one of `multiprocessing.get_all_start_methods()`.

    Raises:
        MlgoError: a worker failed, here or in any method; the text has its number, its error and its traceback.
    """

    # Said here for a type checker that does not see the library.
    remotes: Any
    closed: bool

    def __init__(self, env_fns: list[Callable[[], Env]], start_method: str | None = None) -> None:
        self._reports = make_own_folder(Path(tempfile.gettempdir()), "mlgo-gym-workers-")
        weakref.finalize(self, shutil.rmtree, self._reports, ignore_errors=True)
        makers: list[Callable[[], Env]] = [
            functools.partial(_make, env_fn, self._report(number)) for number, env_fn in enumerate(env_fns)
        ]
        with self._told():
            super().__init__(makers, start_method)
        self.remotes = tuple(map(_Remote, self.remotes, self.processes))

    def _report(self, number: int) -> Path:
        return self._reports / f"{number}.txt"

    @contextmanager
    def _told(self) -> Iterator[None]:
        """Say of a worker that is gone why it went."""
        try:
            yield
        except (EOFError, ConnectionError) as error:
            self.waiting = False
            for process in self.processes:
                process.join(timeout=0.1 if process.is_alive() else None)
            for number in range(len(self.processes)):
                if self._report(number).exists():
                    text = self._report(number).read_text(encoding="utf-8")
                    raise MlgoError(f"the worker of environment {number} failed: {text}") from error
            statuses = [process.exitcode for process in self.processes]
            raise MlgoError(
                f"a worker ended without a word; their exit statuses are {statuses}, and -9 mostly means that memory "
                "ran out: run fewer at once"
            ) from error

    def step_async(self, actions: npt.NDArray[Any]) -> None:
        """Send the actions, one for each environment."""
        with self._told():
            super().step_async(actions)

    def step_wait(self) -> VecEnvStepReturn:
        """Return observations, rewards (float32), whether an episode has ended (bool), and one info for each."""
        with self._told():
            return super().step_wait()

    def reset(self) -> VecEnvObs:
        """Begin an episode in every environment and return the first observations, one row for each."""
        with self._told():
            return super().reset()

    def get_attr(self, attr_name: str, indices: VecEnvIndices = None) -> list[Any]:
        """Return an attribute of some environments, by default of all."""
        with self._told():
            attributes: list[Any] = super().get_attr(attr_name, indices)
            return attributes

    def env_method(
        self, method_name: str, *method_args: Any, indices: VecEnvIndices = None, **method_kwargs: Any
    ) -> list[Any]:
        """Return what a method of some environments returns."""
        with self._told():
            results: list[Any] = super().env_method(method_name, *method_args, indices=indices, **method_kwargs)
            return results

    def close(self) -> None:
        """End the workers, also after one has failed; one that does not end by itself is killed. Idempotent."""
        if self.closed:
            return
        for remote in self.remotes:
            with suppress(EOFError, OSError):
                if self.waiting:
                    remote.recv()
                remote.send(("close", None))
        for process in self.processes:
            process.join(_CLOSING_SECONDS)
            if process.is_alive():
                process.kill()
                process.join()
        self.closed = True


class _Remote:
    """The host's end of a pipe to a worker; that of a worker which is gone has an end.

    Forked workers hold the ends of each other's pipes, so that the pipe alone does not tell.
    """

    def __init__(self, connection: Any, process: Any) -> None:
        self._connection, self._process = connection, process

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connection, name)

    def recv(self) -> Any:
        if self._connection not in wait([self._connection, self._process.sentinel]):
            raise EOFError
        return self._connection.recv()


class _Tell(gym.Wrapper[Any, Any, Any, Any]):
    """Writes down why a call failed."""

    def __init__(self, env: Env, report: Path) -> None:
        super().__init__(env)
        self._report = report

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        return _tell(self._report, lambda: self.env.reset(seed=seed, options=options))

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        return _tell(self._report, lambda: self.env.step(action))

    def get_wrapper_attr(self, name: str) -> Any:
        found = super().get_wrapper_attr(name)
        if not callable(found):
            return found

        def call(*args: Any, **kwargs: Any) -> Any:
            return _tell(self._report, lambda: found(*args, **kwargs))

        return call


def _make(env_fn: Callable[[], Env], report: Path) -> Env:
    return _Tell(_tell(report, env_fn), report)


def _tell(report: Path, work: Callable[[], T]) -> T:
    try:
        return work()
    except Exception as error:
        report.write_text(f"{type(error).__name__}: {error}\n{traceback.format_exc()}", encoding="utf-8")
        raise
