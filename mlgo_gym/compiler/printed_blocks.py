"""Loop depth and frequency of the basic blocks of a printed function, from its control flow.

The frequencies are the static estimate of llvm/lib/Analysis/BlockFrequencyInfo.cpp without profiles, with three of the
heuristics of BranchProbabilityInfo.cpp: a loop runs 32 times, exceptions are not thrown, and unreachable code does not
run. All other branches are even.
"""

import re
from collections.abc import Iterable, Mapping, Sequence

_LABEL = re.compile(r'^("[^"\n]*"|[-\w.$]+):', re.MULTILINE)
_SUCCESSOR = re.compile(r'label %("[^"\n]*"|[-\w.$]+)')
_RARE = re.compile(r"^  (?:unreachable\b|%[^ ]+ = (?:landingpad|cleanuppad|catchswitch) )", re.MULTILINE)

_STAY = 31 / 32
"""Probability that a block at the exit of a loop stays in it: 124 of 128 by `LBH_TAKEN_WEIGHT`."""

_MOST_ROUNDS = 4096
"""Limit of the rounds of a loop without an exit, as in llvm/Analysis/BlockFrequencyInfoImpl.h."""


def split_blocks(body: str) -> list[tuple[str, str]]:
    """Return the label and the code of each block of a function's body, in order; the first may have no label."""
    first, *parts = _LABEL.split(body)
    blocks = list(zip(parts[::2], parts[1::2], strict=True))
    return [("", first), *blocks] if first else blocks


def block_facts(blocks: Sequence[tuple[str, str]]) -> list[tuple[int, float]]:
    """Return for each block the number of loops around it, and how often it runs when the function runs once."""
    indices = {label: index for index, (label, _) in enumerate(blocks)}
    after = [[indices[name] for name in _SUCCESSOR.findall(code) if name in indices] for _, code in blocks]
    order = _reverse_postorder(after)
    place = {block: index for index, block in enumerate(order)}
    loops = _loops(after, order, place)
    rare = {block for block in order if _RARE.search(blocks[block][1])}
    for block in reversed(order):
        if after[block] and all(place[successor] > place[block] and successor in rare for successor in after[block]):
            rare.add(block)
    depths = [sum(block in body for body in loops.values()) for block in range(len(blocks))]
    chances = {block: _chances(block, after[block], loops, rare) for block in order}
    scales: dict[int, float] = {}
    for header in sorted(loops, key=lambda header: len(loops[header])):
        inside = [block for block in order if block in loops[header]]
        again = _flow(header, inside, place, chances, scales)[1]
        scales[header] = 1 / max(1 - again, 1 / _MOST_ROUNDS)
    runs, _ = _flow(0, order, place, chances, scales)
    return [(depths[block], runs.get(block, 0.0)) for block in range(len(blocks))]


def _reverse_postorder(after: Sequence[Sequence[int]]) -> list[int]:
    order: list[int] = []
    seen = {0}
    stack = [(0, iter(after[0]))]
    while stack:
        block, unvisited = stack[-1]
        if (successor := next((successor for successor in unvisited if successor not in seen), None)) is None:
            order.append(block)
            stack.pop()
        else:
            seen.add(successor)
            stack.append((successor, iter(after[successor])))
    return order[::-1]


def _loops(after: Sequence[Sequence[int]], order: Sequence[int], place: Mapping[int, int]) -> dict[int, set[int]]:
    """Return the blocks of each loop by its header: those that reach an edge back to the header without it."""
    before: dict[int, list[int]] = {block: [] for block in order}
    for block in order:
        for successor in after[block]:
            before[successor].append(block)
    loops: dict[int, set[int]] = {}
    for block in order:
        for header in (successor for successor in after[block] if place[successor] <= place[block]):
            body, unread = loops.setdefault(header, {header}), [block]
            while unread:
                if (inner := unread.pop()) not in body and place[inner] > place[header]:
                    body.add(inner)
                    unread += before[inner]
    return loops


def _chances(
    block: int, after: Sequence[int], loops: Mapping[int, set[int]], rare: Iterable[int]
) -> list[tuple[int, float]]:
    after = [successor for successor in after if successor not in rare] or after
    inner = min((body for body in loops.values() if block in body), key=len, default=set())
    stays = sum(successor in inner for successor in after)
    leaves = len(after) - stays
    if not stays or not leaves:
        return [(successor, 1 / len(after)) for successor in after]
    return [(successor, _STAY / stays if successor in inner else (1 - _STAY) / leaves) for successor in after]


def _flow(
    start: int,
    blocks: Iterable[int],
    place: Mapping[int, int],
    chances: Mapping[int, Sequence[tuple[int, float]]],
    scales: Mapping[int, float],
) -> tuple[dict[int, float], float]:
    """Return how often each block runs for one run of the first, and how often the last edges lead back to it."""
    runs, again = {start: scales.get(start, 1.0)}, 0.0
    for block in blocks:
        if block != start:
            runs[block] = runs.get(block, 0.0) * scales.get(block, 1.0)
        for successor, chance in chances[block]:
            if successor == start:
                again += runs.get(block, 0.0) * chance
            elif place[successor] > place[block]:
                runs[successor] = runs.get(successor, 0.0) + runs[block] * chance
    return runs, again
