"""Starts episodes: on a named or a sampled module, in a fresh clang or in a copy of one that waits.

A copy skips the compile before the first decision, most of it for register allocation. For inlining the copied pages
cost as much as they save. A clang that waits at a function also serves later functions of its module.
"""

import os
import warnings
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from weakref import WeakSet

import numpy as np

from mlgo_gym.cache import key_of
from mlgo_gym.compiler.coroutine import CompilerCoroutine
from mlgo_gym.compiler.snapshot_support import snapshot_support
from mlgo_gym.compiler.waiting import uninterrupted
from mlgo_gym.corpus.corpus import Module
from mlgo_gym.corpus.module_order import OrderCursor
from mlgo_gym.episode.argument_types import check_type
from mlgo_gym.episode.baseline import count, known_decisions
from mlgo_gym.episode.episode import Episode
from mlgo_gym.episode.setup import Setup
from mlgo_gym.episode.state import EpisodeState
from mlgo_gym.errors import CompilerError, CorpusError, MlgoError, MlgoWarning, NoDecisionError, SnapshotError

_MAX_FAILURES = 10
"""Number of failed modules after which sampling raises."""

MAX_MODULES = 8
"""Largest number of clangs that wait at modules."""

MAX_FUNCTIONS = 32
"""Largest number of clangs that wait at functions; each holds up to ten descriptors."""

MAX_BYTES = 1 << 30
"""Largest resident memory of all waiting clangs together, without shared pages."""


class ForkPool:
    """At most `size` waiting episodes by compile and progress. The least recently used are ended first."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._waiting: OrderedDict[tuple[str, int], tuple[Episode, int]] = OrderedDict()
        self._warned = False

    def copy(self, key: str, place: int) -> Episode | None:
        """Return a copy of the waiting episode of a key with the most progress that is not past `place`, or None.

        If it cannot be copied, a warning gives the reason.
        """
        nearest = max((at for of, at in self._waiting if of == key and at <= place), default=None)
        if nearest is None:
            return None
        episode, _ = self._waiting[key, nearest]
        self._waiting.move_to_end((key, nearest))
        copied = self._snapshot(episode)
        if copied is None:
            self._waiting.pop((key, nearest))[0].close()
        return copied

    def _snapshot(self, episode: Episode) -> Episode | None:
        """Return a snapshot of an episode; None with a warning where only a replay is possible."""
        try:
            return episode.snapshot()
        except SnapshotError as error:
            if not self._warned:
                self._warned = True
                message = f"a waiting clang could not be copied, so an episode starts in a fresh one: {error}"
                warnings.warn(message, MlgoWarning, stacklevel=2)
            return None

    def keep(self, key: str, place: int, episode: Episode) -> None:
        """Keep a snapshot of an episode that waits at its first decision; if that fails, a warning gives the reason."""
        if (key, place) in self._waiting or not snapshot_support()[0]:
            return
        copied = self._snapshot(episode)
        if copied is None:
            return
        self._waiting[key, place] = (copied, _own_bytes(copied.compile.session.pid))
        while len(self._waiting) > self._size or sum(size for _, size in self._waiting.values()) > MAX_BYTES:
            self._waiting.popitem(last=False)[1][0].close()

    @uninterrupted()
    def close(self) -> None:
        """End all waiting episodes. Idempotent; the pool stays usable."""
        while self._waiting:
            self._waiting.popitem()[1][0].close()


def _own_bytes(pid: int) -> int:
    """Return the resident memory of a process without shared pages, in bytes (proc_pid_statm(5))."""
    _, resident, shared, *_ = Path(f"/proc/{pid}/statm").read_text().split()
    return (int(resident) - int(shared)) * os.sysconf("SC_PAGE_SIZE")


def _repeat(episode: Episode, actions: Sequence[int | float]) -> CompilerCoroutine[None]:
    """Take actions at the first decisions of an episode; `MlgoError` unless a decision follows."""
    try:
        for action in actions:
            episode.answer(episode.encode(action))
            yield from episode.proceed()
            if episode.decision is None:
                raise MlgoError(
                    f"expected a decision after {len(actions)} actions, got the end of the episode after "
                    f"{episode.decisions}; use an environment with the arguments of the state, or omit its last action"
                )
    except BaseException:
        episode.close()
        raise


@dataclass(frozen=True, slots=True)
class EpisodeStart:
    """Start of an episode: a module, a function and actions to repeat; None to sample."""

    module: Module | None = None
    function: str | None = None
    actions: tuple[int | float, ...] = ()


ANY = EpisodeStart()
"""Start on a sampled module."""


class EpisodeMaker:
    """Starts episodes, remembers modules without decisions, and keeps clangs waiting for further episodes."""

    def __init__(self, setup: Setup) -> None:
        self.setup = setup
        size = MAX_MODULES if setup.options.scope == "module" else MAX_FUNCTIONS
        self._fork_pool = ForkPool(size) if setup.forks_resets else None
        self._function_order: dict[str, dict[str, int]] = {}
        self._empty: set[tuple[str, str | None]] = set()
        self._users: WeakSet[object] = WeakSet()

    def read_start(self, options: Mapping[str, Any], environment: str) -> EpisodeStart:
        """Return the start that options of `reset()` choose, in an environment of a class.

        It opens the corpus, which may take minutes, where interrupts are not deferred.
        """
        setup = self.setup
        name, function, state = (options.get(key) for key in ("module", "function", "state"))
        if state is not None:
            if name is not None or function is not None:
                given = sorted(key for key, value in options.items() if value is not None)
                raise MlgoError(f"expected the option 'state' alone, got {given}; it has the module")
            saved = state if isinstance(state, EpisodeState) else EpisodeState.from_json(state)
            module = setup.corpus.module(saved.module)
            flags = key_of(setup.compilation(module).flags)
            saved.check(module.digest(), setup.toolchain.version_text, environment, flags)
            return EpisodeStart(module, saved.function, saved.actions)
        check_type("the option 'module'", name, str | None)
        check_type("the option 'function'", function, str | None)
        if function is not None and (name is None or setup.options.scope != "function"):
            raise MlgoError(
                f'expected the option "module" and scope="function" with the option "function", got {function!r}; '
                "name the module, and make the environment with that scope"
            )
        if name is not None:
            return EpisodeStart(setup.corpus.module(name), function)
        setup.order  # noqa: B018 - opens the corpus
        return ANY

    def begin(
        self, np_random: np.random.Generator, start: EpisodeStart = ANY, cursor: OrderCursor | None = None
    ) -> CompilerCoroutine[Episode]:
        """Start an episode and continue to its first decision after the actions of the start, as a coroutine.

        Without a module, the next one with a decision in the order is taken, and `cursor` advances; modules on which
        clang fails are skipped. Without a function, `scope="function"` samples one with a decision. Errors are those of
        `CompilerEnv.reset()`.
        """
        module, function = start.module, start.function
        if module is not None:
            episode = yield from self._first_decision(np_random, module, function)
            if episode is not None:
                yield from _repeat(episode, start.actions)
            else:
                where = f"function {function!r} of " if function is not None else ""
                raise NoDecisionError(
                    f"expected a decision on {self.setup.task.name} in {where}module {module.name!r} of corpus "
                    f"{self.setup.corpus.name!r}, got none; name another, or let reset() sample one"
                )
            return episode
        return (yield from self._sample(np_random, OrderCursor() if cursor is None else cursor))

    def _sample(self, np_random: np.random.Generator, cursor: OrderCursor) -> CompilerCoroutine[Episode]:
        setup, corpus = self.setup, self.setup.corpus
        drawn: set[int] = set()
        skipped: dict[str, str] = {}
        order = cursor.order or setup.order
        while (position := order.draw(np_random, cursor, drawn)) is not None:
            drawn.add(position)
            module = corpus[position]
            try:
                episode = yield from self._first_decision(np_random, module, None)
            except (CompilerError, CorpusError) as error:
                skipped[module.name] = str(error)
                if setup.options.error_reward is None or len(skipped) >= min(_MAX_FAILURES, len(corpus)):
                    raise
                continue
            if episode is not None:
                episode.skipped = skipped
                return episode
        failures = f"; the compiler failed on {len(skipped)} of them" if skipped else ""
        raise CorpusError(
            f"expected a module with a decision on {setup.task.name}, got none among the {len(corpus)} modules "
            f"of corpus {corpus.name!r}{failures}; choose another corpus"
        )

    def _first_decision(
        self, np_random: np.random.Generator, module: Module, function: str | None
    ) -> CompilerCoroutine[Episode | None]:
        episode = yield from self._start(np_random, module, function)
        if episode is None:
            return None
        try:
            yield from episode.proceed()
            if episode.decision is not None:
                if self._fork_pool is not None:
                    place = self._order_of(module.name, episode.function)
                    self._fork_pool.keep(episode.compilation.key("fork"), place, episode)
                return episode
        except BaseException:
            episode.close()
            raise
        self._empty.add((module.name, episode.function))
        episode.close()
        return None

    def _start(
        self, np_random: np.random.Generator, module: Module, function: str | None
    ) -> CompilerCoroutine[Episode | None]:
        """Start an episode; return None if the module or the function is known to have no decision."""
        if (module.name, function) in self._empty or (module.name, None) in self._empty:
            return None
        setup = self.setup
        compilation = yield from setup.plan(module)
        if setup.options.scope == "function":
            counts = yield from count(compilation, setup.task)
            functions = sorted(counts)
            if function is None and functions:
                function = functions[int(np_random.integers(len(functions)))]
            empty = function not in counts
            self._function_order[module.name] = {name: place for place, name in enumerate(counts)}
        else:
            empty = known_decisions(compilation, setup.task) == {}
        if empty:
            self._empty.add((module.name, function))
            return None
        if setup.options.credit:
            yield from setup.reference(compilation)
        if self._fork_pool is not None:
            place = self._order_of(module.name, function)
            fork = self._fork_pool.copy(compilation.key("fork"), place)
            if fork is not None:
                # The waiting clang may have been started for another module with the same bitcode.
                fork.compile.compilation = compilation
                if function is not None and fork.function != function:
                    fork.switch_to(function)
                return fork
        return Episode(setup, compilation, function=function)

    def _order_of(self, module: str, function: str | None) -> int:
        return 0 if function is None else self._function_order[module][function]

    def join(self, user: object) -> None:
        """Keep the waiting clangs until this environment, and each other that joined, has left."""
        self._users.add(user)

    def leave(self, user: object) -> None:
        """End the waiting clangs if no other environment uses them. Idempotent."""
        self._users.discard(user)
        if not self._users and self._fork_pool is not None:
            self._fork_pool.close()
