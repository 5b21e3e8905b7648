"""Starts episodes: on a named or a sampled module, in a fresh clang or in a copy of one that waits."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from mlgo_gym.corpus.module import Module
from mlgo_gym.corpus.order import Turn
from mlgo_gym.episode.component_count import count_components
from mlgo_gym.episode.decision_count import count, known_decisions
from mlgo_gym.episode.episode import Episode
from mlgo_gym.episode.sampler import Sampler
from mlgo_gym.episode.setup import Setup
from mlgo_gym.episode.warm_starts import MOST, MOST_FUNCTIONS, WarmStarts
from mlgo_gym.errors import CompilerError, MlgoError, NoDecisionError
from mlgo_gym.session.work import Work


class Begun(NamedTuple):
    """An episode that waits with its first decision.

    Attributes:
        episode: the episode.
        skipped: the modules that were passed over because the compiler failed on them, with the reason.
    """

    episode: Episode
    skipped: dict[str, str]


class EpisodeMaker:
    """Starts episodes; remembers which modules have no decision, and keeps clangs waiting for further episodes.

    Args:
        setup: what all episodes have in common.
    """

    def __init__(self, setup: Setup) -> None:
        self.setup = setup
        self._warm_starts: WarmStarts | None = None
        settings = setup.settings
        if settings.resets_warm(setup.task) or (settings.warm_resets is None and setup.measures_functions_alone):
            self._warm_starts = WarmStarts(MOST if settings.scope == "module" else MOST_FUNCTIONS)
        self._places: dict[str, dict[str, int]] = {}
        self._empty: set[tuple[str, str | None]] = set()

    def check_choice(self, module: str | None, function: str | None) -> None:
        """Check what a reset may ask for.

        Raises:
            MlgoError: a function was named without its module, or in an environment whose episodes are whole modules.
        """
        if function is not None and (module is None or self.setup.settings.scope != "function"):
            raise MlgoError(
                'the option "function" needs the option "module" too, and an environment of scope="function"'
            )

    def begin(
        self,
        np_random: np.random.Generator,
        module: Module | None = None,
        function: str | None = None,
        turn: Turn | None = None,
    ) -> Work[Begun]:
        """Start an episode and go on to its first decision, passing over modules that have none or that clang fails on.

        The first time that a module is met, it also waits for what is made only once: the optimised bitcode, and the
        count of the decisions in each function.

        Args:
            np_random: samples the module and the function where they are not named.
            module: the module; None samples one with a decision.
            function: the function, for episodes that are one function's; None samples one with a decision.
            turn: how far the environment has come in the order of modules; advanced. Default: at its beginning.

        Raises:
            NoDecisionError: the module, or the function, has no decision.
            CorpusError: no module of the corpus has a decision.
            CompilerError: the compiler fails on the module, or on too many that were sampled.
        """
        if module is not None:
            episode = yield from self._first_decision(np_random, module, function)
            if episode is None:
                raise self._no_decision(module.name, function)
            return Begun(episode, {})
        sampler = Sampler(self.setup, np_random, Turn() if turn is None else turn)
        episode = yield from sampler.first(lambda drawn: self._first_decision(np_random, drawn, None))
        return Begun(episode, sampler.skipped)

    def _first_decision(
        self, np_random: np.random.Generator, module: Module, function: str | None
    ) -> Work[Episode | None]:
        episode = yield from self._start(np_random, module, function)
        if episode is None:
            return None
        try:
            yield from episode.proceed()
            if episode.decision is not None:
                self._keep_warm(episode)
                return episode
        except BaseException as error:
            if isinstance(error, CompilerError):
                episode.keep_crash(error)
            episode.close()
            raise
        self._empty.add((module.name, episode.function))
        episode.close()
        return None

    def _start(self, np_random: np.random.Generator, module: Module, function: str | None) -> Work[Episode | None]:
        """Start an episode, or return None when the module, or the function, is known to have no decision."""
        if (module.name, function) in self._empty or (module.name, None) in self._empty:
            return None
        setup = self.setup
        compilation = yield from setup.plan(module)
        baseline = None
        if setup.settings.scope == "function":
            if setup.of_components:
                components = yield from count_components(compilation, setup.task)
                counts, baseline = dict(components.decisions), components.measurement
                function = None if function is None else components.find(function) or function
            else:
                counts = yield from count(compilation, setup.task)
            functions = sorted(counts)
            if function is None and functions:
                function = functions[int(np_random.integers(len(functions)))]
            empty = function not in counts
            self._places[module.name] = {name: place for place, name in enumerate(counts)}
        else:
            empty = known_decisions(compilation, setup.task) == {}
        if empty:
            self._empty.add((module.name, function))
            return None
        if setup.settings.credit:
            yield from setup.refer(compilation)
        if self._warm_starts is not None:
            place = self._place(module.name, function)
            warm = self._warm_starts.copy(compilation.key("warm"), place, setup.settings.timeout)
            if warm is not None:
                # Another module may have the same bitcode, and be what the waiting clang was started for.
                warm.compilation = compilation
                if function is not None and warm.function != function:
                    warm.turn_to(function)
                return warm
        return Episode(
            compilation,
            setup.task,
            max_decisions=setup.settings.max_decisions,
            function=function,
            alone=setup.measures_functions_alone,
            contexts=setup.settings.follows_inlining(setup.task),
            credit=setup.settings.credit,
            calls=setup.settings.calls,
            baseline=baseline,
        )

    def _no_decision(self, module: str, function: str | None) -> NoDecisionError:
        where = f"function {function!r} of " if function is not None else ""
        return NoDecisionError(
            f"{where}module {module!r} of corpus {self.setup.corpus.name!r} has no {self.setup.task.name} decision to "
            "learn from: choose another, or let reset() sample one"
        )

    def _keep_warm(self, episode: Episode) -> None:
        """Keep a copy of an episode that waits with its first decision, where further ones start from copies."""
        if self._warm_starts is not None:
            place = self._place(episode.compilation.module.name, episode.function)
            key = episode.compilation.key("warm")
            self._warm_starts.keep(key, place, episode, self.setup.settings.timeout)

    def _place(self, module: str, function: str | None) -> int:
        """Return the place of a function in the order in which clang comes to the functions with decisions."""
        return 0 if function is None else self._places[module][function]

    def close(self) -> None:
        """End the clangs that wait for further episodes. Idempotent."""
        if self._warm_starts is not None:
            self._warm_starts.close()
