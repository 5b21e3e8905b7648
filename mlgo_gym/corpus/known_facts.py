"""What the modules of a corpus share with others, kept on disk: a large one is read once, and then only looked at."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from mlgo_gym.corpus.modules import Modules
from mlgo_gym.corpus.related import Facts, facts_of
from mlgo_gym.errors import CorpusError
from mlgo_gym.storage.cache import JsonCache, key_of

FEWEST = 1000
"""Of smaller corpora nothing is kept: they are read as fast."""

_memory = JsonCache("split-facts")


def known_facts(names: Iterable[str], modules: Modules, corpus: str) -> Mapping[str, Facts]:
    """Return the facts of modules by name; none of those that cannot be read, which say so when they are asked for.

    Args:
        names: the names.
        modules: where they come from.
        corpus: tells the corpus from others, such as its path; what is kept is kept under it.
    """
    wanted = list(names)
    if len(wanted) < FEWEST:
        return {name: _read(modules, name) for name in wanted}
    key = key_of(corpus, len(wanted), wanted[0], wanted[-1])
    before = _memory.get(key) or {}
    after: dict[str, Facts] = {}
    found: dict[str, Facts] = {}
    for name in wanted:
        stamp = modules.stamp(name)
        kept = before.get(stamp) if stamp is not None else None
        facts = tuple(kept) if kept else _read(modules, name)
        found[name] = facts
        if stamp is not None and facts:
            after[stamp] = facts
    if after.keys() != before.keys():
        _memory.put(key, dict(after))
    return found


def _read(modules: Modules, name: str) -> Facts:
    try:
        return facts_of(modules.load(name))
    except (CorpusError, OSError):
        return ()
