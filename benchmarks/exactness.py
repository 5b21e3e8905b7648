r"""Write docs/exactness.md from what `own_choices.py`, `same_object.py` and `plain_evictions.py` found.

    python benchmarks/exactness.py --own runs/own.jsonl --ways runs/ways.jsonl --choices runs/plain-evictions.jsonl \
        > docs/exactness.md

The data go to docs/results/exactness.json, beside what is there of other modules; from these the page can be made again
without arguments. What was found of a module by several runs counts as one line, the last of each way.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

DATA = Path(__file__).parents[1] / "docs" / "results" / "exactness.json"

_PAGE = """# Exactness

What an environment measures is what the compiler does. Written by `python benchmarks/exactness.py`; the data are
in [results/exactness.json](results/exactness.json).

## The compiler's own decisions, replayed

Every module is compiled plainly, and again with the compiler's own choice as the answer to each question: the feature
`inlining_default` for inlining, and the rule of `mlgo_gym.llvm.eviction_rule` for evictions, whose features do not show
the choice. Both objects are compared byte for byte. (For priorities the features do not say what clang would do.)

| corpus | environment | modules | questions | same object | explained | not |
|---|---|---|---|---|---|---|
"""

_EXCEPTIONS = """
*Inlining*: clang's ML advisor stops asking, and inlines no more, once its estimate of the module has grown by a factor
of two (`-ml-advisor-size-increase-threshold`), which a plain compile never does. An exception counts as explained when
both objects are the same with the threshold out of the way. A small module reaches it soon: pymunk's `cpSpaceDebug`
after 39 of 60 questions, so that by clang's own answers it becomes 323 bytes larger at -Oz than by clang alone.
*Evictions*: weights are divided by the largest of all columns before we see them; where that is infinite, every finite
one is 0, and the rule cannot tell which is lighter. That this is why was proved of every exception by itself: gdb reads
from a plain compile which register the allocator's own advisor takes at each call, and in the compile that asks for
which call it asks (`benchmarks/plain_evictions.py`; Debian's clang 22.1.8, whose libLLVM names its functions). An
exception counts as explained where clang's own choices, given as answers, make the plain object byte for byte, and each
of them that is not the rule's is at a question whose weights are not to be seen. {proved}

Where the cut-off is not why (modules of jsonnet), it is calls that nothing reaches any more. Where the inliner finds
out that a callee cannot throw, it makes the `invoke` a call, and the landing pad stays without predecessors until the
function is simplified. Clang's own inliner inlines the calls there as any others; the ML advisor neither inlines them
nor asks (`getSkipAdviceIfUnreachableCallsite()` in LLVM's MLInlineAdvisor.cpp). The code there vanishes either way, but
a call that was left takes the address of a local object, which so stays in memory a pass longer than in the plain
compile, and a few instructions end in another order or of another size. It was found by printing the module after each
pass (`-mllvm -print-changed=quiet`): up to the first inlining into `vector<string>::__construct_at_end()` in
`core/lexer.o`, both compiles print the same, and there they differ in one call below a landing pad without
predecessors. And it was proved by forbidding (`noinline`) to both compiles every call that only unwinding reaches
(`benchmarks/unwind_calls.py`): then both objects are the same in all five modules.

This is why the baseline of every episode is a plain compile, and never a replay.

Exceptions, with the bytes of `.text` of the plain compile and of the replay:

| corpus | module | environment | plain | replayed | why |
|---|---|---|---|---|---|
"""

_WAYS = """
## The same answers in every way

One list of random legal answers for a module (up to 2,000, then the compiler's own) is followed in a single environment
and in every other way; each has to make the very same object. *vector*: three environments at once. *forked*: copies of
the running compile at one third and two thirds. *warm*: a copy of a clang that waited at the first decision. *ahead*:
all answers sent before they are asked for, as `replay` does. *by function*: three components of the call graph, or
functions, decided alone, against an episode of the module with the same answers there. *preoptimized*: bitcode
optimised once. *mlgo-clang*: the source, with the answers as a recipe. *plugin*: the answers in a pass plugin, in the
process of Debian's clang, against an environment with that clang. *ray*: in a worker of a Ray cluster, to which the
bitcode is sent. (Recipes of builds and plugins decide on inlining alone.) `tests/test_same_object.py` holds most of it
for a few modules.

| corpus | clang | environment | modules | answers | {names} |
|---|---|---|---|---|{rule}|
"""


EVICT = "mlgo/RegAllocEvict-v0"

_CAUSES = ("the size cut-off", "calls that only unwinding reaches")
"""How an explanation begins that was looked for in the module and found."""


def proves(entry: dict[str, Any]) -> bool:
    """Return whether clang's own choices make the plain object, and differ only where the weights are not seen."""
    return bool(entry.get("equal")) and entry["others"] == entry["unseen"] and not entry["astray"]


def page(own: list[dict[str, Any]], ways: list[dict[str, Any]], choices: list[dict[str, Any]]) -> Iterator[str]:
    """Give the page in pieces."""
    yield _PAGE
    known = {(entry["corpus"], entry["module"]): entry for entry in choices}

    def is_explained(entry: dict[str, Any]) -> bool:
        if entry["environment"] == EVICT:
            return proves(known.get((entry["corpus"], entry["module"]), {}))
        return str(entry.get("explained", "")).startswith(_CAUSES)

    for (corpus, environment), group in _groups(own, "corpus", "environment"):
        equal = sum(entry.get("equal", False) for entry in group)
        explained = sum(is_explained(entry) for entry in group if not entry.get("equal"))
        questions = sum(entry.get("questions", 0) for entry in group)
        rest = len(group) - equal - explained
        yield f"| {corpus} | {environment[5:-3]} | {len(group)} | {questions:,} | {equal} | {explained} | {rest} |\n"
    proved = [entry for entry in choices if proves(entry)]
    questions, others = (sum(entry[name] for entry in proved) for name in ("questions", "others"))
    yield _EXCEPTIONS.format(
        proved=f"So it is in {len(proved)} of {len(choices)} modules\nwith {questions:,} questions, at {others:,} of "
        "which clang chose otherwise than the rule."
    )
    for entry in own:
        if not entry.get("equal"):
            plain, again = entry.get("text") or ("", "")
            why = entry.get("explained") or entry.get("error")
            found = known.get((entry["corpus"], entry["module"]))
            if entry["environment"] == EVICT and found is not None:
                why = f"{why}; clang chose otherwise at {found['others']}"
            name = entry["environment"][5:-3]
            yield f"| {entry['corpus']} | {entry['module']} | {name} | {plain} | {again} | {why} |\n"
    names = list(dict.fromkeys(name for entry in ways for name in entry.get("equal", {})))
    yield _WAYS.format(names=" | ".join(names), rule="|".join(["---"] * len(names)))
    for (corpus, clang, environment), group in _groups(ways, "corpus", "clang", "environment"):
        cells = []
        for name in names:
            held = [entry["equal"][name] for entry in group if name in entry.get("equal", {})]
            cells.append(f"{sum(held)} of {len(held)}" if held else "")
        answers = sum(entry.get("answers", 0) for entry in group)
        yield "| " + " | ".join((corpus, clang, environment[5:-3], f"{len(group)}", f"{answers:,}", *cells)) + " |\n"
    failed = [f"- {entry['corpus']}, {entry['module']}: {entry['error']}\n" for entry in ways if "error" in entry]
    if failed:
        yield "\nNot compared:\n\n" + "".join(failed)


def _groups(found: list[dict[str, Any]], *keys: str) -> Iterator[tuple[tuple[str, ...], list[dict[str, Any]]]]:
    together: dict[tuple[str, ...], list[dict[str, Any]]] = {}
    for entry in found:
        together.setdefault(tuple(entry[key] for key in keys), []).append(entry)
    yield from together.items()


def _lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def _joined(found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return one entry for each module, environment and compiler."""
    together: dict[tuple[str, ...], dict[str, Any]] = {}
    for entry in found:
        key = tuple(entry[name] for name in ("corpus", "environment", "clang", "module"))
        known = together.get(key, {})
        if isinstance(entry.get("equal"), dict):
            entry = {**entry, "equal": {**known.get("equal", {}), **entry["equal"]}}
        together[key] = entry
    return list(together.values())


def main() -> None:
    """Take new data in, and print the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--own", type=Path)
    parser.add_argument("--ways", type=Path)
    parser.add_argument("--choices", type=Path)
    arguments = parser.parse_args()
    data = json.loads(DATA.read_text()) if DATA.exists() else {"own": [], "ways": []}
    data.setdefault("choices", [])
    for name in data:
        if getattr(arguments, name):
            data[name] = _joined([*data[name], *_lines(getattr(arguments, name))])
    parts = [f'"{name}": [\n' + ",\n".join(map(json.dumps, found)) + "\n]" for name, found in data.items()]
    DATA.write_text("{\n" + ",\n".join(parts) + "\n}\n")
    print("".join(page(**data)), end="")


if __name__ == "__main__":
    main()
