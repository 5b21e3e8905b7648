"""Starts one compile that is an episode for several functions at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from mlgo_gym.corpus.module import Module
from mlgo_gym.corpus.order import Turn
from mlgo_gym.episode.component_count import Components, count_components
from mlgo_gym.episode.episode import Episode
from mlgo_gym.episode.episode_maker import Begun
from mlgo_gym.episode.sampler import Sampler
from mlgo_gym.episode.setup import Setup
from mlgo_gym.errors import NoDecisionError
from mlgo_gym.session.work import Work


class SharedBegun(NamedTuple):
    """A compile that waits with the first decision of one of its functions.

    Attributes:
        begun: the compile.
        functions: for each who shares it the function; None where the module has none left.
    """

    begun: Begun
    functions: tuple[str | None, ...]


def begin_shared(
    setup: Setup,
    np_random: np.random.Generator,
    turn: Turn,
    wishes: Sequence[str | None],
    module: Module | None = None,
) -> Work[SharedBegun]:
    """Start a compile that several share, each with an episode of another function, and go on to its first decision.

    Args:
        setup: what all episodes have in common.
        np_random: samples what is not named.
        turn: how far the environment has come in the order of modules; it goes on from there.
        wishes: for each who shares it a function by name, or None where one is to be sampled.
        module: the module; None samples one with a decision.

    Raises:
        NoDecisionError: the module, or a function that is named, has no decision.
        CorpusError: no module of the corpus has one.
        CompilerError: the compiler fails on the module, or on too many that were sampled.
    """
    if module is not None:
        found = yield from _start(setup, np_random, module, wishes)
        if found is None:
            raise NoDecisionError(f"module {module.name!r} of corpus {setup.corpus.name!r} has nothing to decide")
        return found
    sampler = Sampler(setup, np_random, turn)
    found = yield from sampler.first(lambda drawn: _start(setup, np_random, drawn, wishes))
    return found._replace(begun=Begun(found.begun.episode, sampler.skipped))


def _start(
    setup: Setup, np_random: np.random.Generator, module: Module, wishes: Sequence[str | None]
) -> Work[SharedBegun | None]:
    compilation = yield from setup.plan(module)
    components = yield from count_components(compilation, setup.task)
    if not components.decisions:
        return None
    functions = _choose(components, np_random, wishes, module.name)
    yield from setup.refer(compilation)
    episode = Episode(
        compilation,
        setup.task,
        max_decisions=setup.settings.max_decisions,
        functions=[function for function in functions if function is not None],
        contexts=True,
        credit=True,
        baseline=components.measurement,
    )
    try:
        yield from episode.proceed()
        assert episode.decision is not None, "until its first decision a compile is that of clang's own choices"
    except BaseException:
        episode.close()
        raise
    return SharedBegun(Begun(episode, {}), functions)


def _choose(
    components: Components, np_random: np.random.Generator, wishes: Sequence[str | None], module: str
) -> tuple[str | None, ...]:
    """Return a function for each wish, all different; None where there are no more."""
    named = [None if wish is None else components.find(wish) for wish in wishes]
    for wish, function in zip(wishes, named, strict=True):
        if wish is not None and (function is None or named.count(function) > 1):
            why = "has no decision" if function is None else "is wanted twice in one compile"
            raise NoDecisionError(f"function {wish!r} of module {module!r} {why}: choose another")
    free = sorted(components.decisions.keys() - set(named))
    drawn = iter(np_random.permutation(len(free)).tolist())
    return tuple(function if function is not None else next((free[at] for at in drawn), None) for function in named)
