"""`SubprocVecEnv` of stable-baselines3 whose workers report their errors.

The original's worker exits after an error, and the program only gets a `ConnectionResetError`. `VecEnvAdapter` is
faster and needs no workers; this class is for environments in the user's own wrappers.
"""

from __future__ import annotations

import functools
import shutil
import tempfile
import traceback
import weakref
from collections.abc import Callable
from contextlib import suppress
from multiprocessing.connection import wait
from pathlib import Path
from typing import Any, TypeVar

import gymnasium as gym

from mlgo_gym.errors import MissingExtraError, MlgoError
from mlgo_gym.storage.temporary_folders import make_process_folder

try:
    from stable_baselines3.common import vec_env
except ImportError as error:
    raise MissingExtraError("the adapter for stable-baselines3", "sb3") from error

_CLOSING_SECONDS = 10.0  # in which a worker must end its compile and exit

T = TypeVar("T")
Env = gym.Env[Any, Any]


class SubprocVecEnv(vec_env.SubprocVecEnv):
    """Runs each environment in a worker process: `make_vec_env(ENV_ID, 4, vec_env_cls=SubprocVecEnv)`.

    Args:
        env_fns: functions that make the environments; the workers call them.
        start_method: one of `multiprocessing.get_all_start_methods()`.

    Raises:
        MlgoError: a worker failed, here or in any method; the text has its number, its error and its traceback.
    """

    remotes: Any  # type checkers without the library need both
    closed: bool

    def __init__(self, env_fns: list[Callable[[], Env]], start_method: str | None = None) -> None:
        self._reports = make_process_folder(Path(tempfile.gettempdir()), "mlgo-gym-workers-")
        weakref.finalize(self, shutil.rmtree, self._reports, ignore_errors=True)
        reports = [self._reports / f"{number}.txt" for number in range(len(env_fns))]
        makers: list[Callable[[], Env]] = list(map(functools.partial, [_make] * len(env_fns), env_fns, reports))
        try:
            super().__init__(makers, start_method)
        except (EOFError, ConnectionError) as error:
            raise self._failure() from error
        pairs = zip(self.remotes, self.processes, strict=True)
        self.remotes = tuple(_Remote(connection, process, self._failure) for connection, process in pairs)

    def _failure(self) -> MlgoError:
        """Return the error of the worker that failed."""
        self.waiting = False
        for process in self.processes:
            process.join(timeout=0.1 if process.is_alive() else None)
        for report in sorted(self._reports.glob("*.txt")):
            text = report.read_text(encoding="utf-8")
            return MlgoError(f"the worker of environment {report.stem} failed: {text}")
        return MlgoError(
            f"a worker exited without a report; the exit statuses are {[each.exitcode for each in self.processes]}. -9 "
            "mostly means that memory ran out; run fewer environments"
        )

    def close(self) -> None:
        """End the workers, also after a failure; kill those that do not exit. Idempotent."""
        if self.closed:
            return
        for remote in self.remotes:
            with suppress(MlgoError, EOFError, OSError):
                if self.waiting and remote.responds(_CLOSING_SECONDS):
                    remote.recv()
                remote.send(("close", None))
        for process in self.processes:
            process.join(_CLOSING_SECONDS)
            if process.is_alive():
                process.kill()
                process.join(_CLOSING_SECONDS)
        self.closed = True


class _Remote:
    """The host's end of the pipe to a worker; it notices when the worker exits.

    Forked workers hold the ends of each other's pipes, so the pipe alone does not show an exit.
    """

    def __init__(self, connection: Any, process: Any, failure: Callable[[], MlgoError]) -> None:
        self._connection, self._process, self._failure = connection, process, failure

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connection, name)

    def send(self, message: object) -> None:
        try:
            self._connection.send(message)
        except ConnectionError as error:
            raise self._failure() from error

    def responds(self, seconds: float) -> bool:
        """Return whether the worker sends something, or exits, within some seconds."""
        return bool(wait([self._connection, self._process.sentinel], seconds))

    def recv(self) -> Any:
        try:
            if self._connection not in wait([self._connection, self._process.sentinel]):
                raise EOFError
            return self._connection.recv()
        except (EOFError, ConnectionError) as error:
            raise self._failure() from error


class _Reporter(gym.Wrapper[Any, Any, Any, Any]):
    """Writes the error of a failed call to a file."""

    def __init__(self, env: Env, report: Path) -> None:
        super().__init__(env)
        self._report = report

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        return _reported(self._report, lambda: self.env.reset(seed=seed, options=options))

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        return _reported(self._report, lambda: self.env.step(action))

    def get_wrapper_attr(self, name: str) -> Any:
        if not callable(found := super().get_wrapper_attr(name)):
            return found
        return lambda *args, **kwargs: _reported(self._report, lambda: found(*args, **kwargs))


def _make(env_fn: Callable[[], Env], report: Path) -> Env:
    return _Reporter(_reported(report, env_fn), report)


def _reported(report: Path, work: Callable[[], T]) -> T:
    try:
        return work()
    except Exception as error:
        report.write_text(f"{type(error).__name__}: {error}\n{traceback.format_exc()}", encoding="utf-8")
        raise
