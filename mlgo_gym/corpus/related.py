"""Which modules belong together: those of one source, and those with the same content."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping

from mlgo_gym.corpus.module import Module

Facts = tuple[str, ...]
"""What two modules must not share to be on different sides of a split: a source, its content, or bitcode."""


def facts_of(module: Module) -> Facts:
    """Return what identifies the source and the content of a module, as far as it is known.

    Raises:
        CorpusError: the bitcode is gone.
    """
    metadata = module.metadata
    source, text, bitcode = (metadata.get(key) for key in ("source", "source_sha256", "bitcode_sha256"))
    facts = [f"source {source}"] if isinstance(source, str) and source and text else []
    facts += [f"text {text}"] if isinstance(text, str) else []
    return (*facts, f"bitcode {bitcode if isinstance(bitcode, str) else module.digest()}")


def first_of_each(modules: Iterable[tuple[str, Facts]]) -> Mapping[str, str]:
    """Return for each name the first name, by the alphabet, of all that it is related to: itself for most.

    Args:
        modules: names with their facts; two are related if they share one, or are both related to a third.
    """
    owners: dict[str, list[str]] = defaultdict(list)
    parents: dict[str, str] = {}

    def root(name: str) -> str:
        while parents[name] != name:
            parents[name] = parents[parents[name]]
            name = parents[name]
        return name

    for name, facts in modules:
        parents[name] = name
        for fact in facts:
            owners[fact].append(name)
    for related in owners.values():
        for other in related[1:]:
            one, two = sorted((root(related[0]), root(other)))
            parents[two] = one
    return {name: root(name) for name in parents}
