"""The decisions of several baselines mixed: for each function those of the baseline that made it smallest.

`.text` is the sum of its functions, and a decision mostly changes the one that it stands in. So what a function would
come to with the decisions of another baseline is known, as long as nothing else changes it. Where something does, the
compile of the mixture shows it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from mlgo_gym.training.baselines import Place, Played


def mix(plays: Mapping[str, Played], compile_mixture: Callable[[dict[Place, int]], Played]) -> Played | None:
    """Return the best mixture of some baselines, or None where all functions are best in the same one.

    The first compile takes each component of the call graph from the baseline in which its functions are smallest. The
    second one leaves those out that did not come to the bytes that they had there.

    Args:
        plays: what each baseline did with the module, and the bytes of its functions.
        compile_mixture: compiles the module by the answers at places, and clang's own at others.
    """
    winner = max(plays.values(), key=lambda played: played.reward)
    chosen: dict[str, Played] = {}
    for component in {place[0] for played in plays.values() for place in played.places}:
        best = _smallest(component, plays, winner)
        if best is not winner:
            chosen[component] = best
    if not chosen:
        return None
    mixed = compile_mixture(_answers(winner, chosen))
    exact = {
        component: played
        for component, played in chosen.items()
        if _bytes(component, mixed.functions) == _bytes(component, played.functions)
    }
    if 0 < len(exact) < len(chosen):
        mixed = max(mixed, compile_mixture(_answers(winner, exact)), key=lambda played: played.reward)
    return mixed


def _smallest(component: str, plays: Mapping[str, Played], winner: Played) -> Played:
    """Return in which compile the functions of a component are smallest, of those that keep as many of them.

    A function that another compile dropped has not become smaller: its code stands where it was inlined.
    """
    kept = _kept(component, winner)
    rivals = [played for played in plays.values() if _kept(component, played) == kept]
    least = min((_bytes(component, played.functions) for played in rivals), default=0)
    if not kept or _bytes(component, winner.functions) == least:
        return winner
    return next(played for played in rivals if _bytes(component, played.functions) == least)


def _kept(component: str, played: Played) -> set[str]:
    return {function for function in component.split(", ") if function in played.functions}


def _bytes(component: str, functions: Mapping[str, int]) -> int:
    return sum(functions.get(function, 0) for function in component.split(", "))


def _answers(winner: Played, chosen: Mapping[str, Played]) -> dict[Place, int]:
    """Return the answers of the winner, but for those components that are taken from others."""
    answers = {
        place: int(answer)
        for place, answer in zip(winner.places, winner.answers.answers, strict=True)
        if place[0] not in chosen
    }
    for component, played in chosen.items():
        answers |= {
            place: int(answer)
            for place, answer in zip(played.places, played.answers.answers, strict=True)
            if place[0] == component
        }
    return answers
