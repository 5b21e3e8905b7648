"""The same work on machines that have none of this one's files: what is sent along."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Generic

from mlgo_gym.scheduling.shelf import Good, Shelf
from mlgo_gym.scheduling.work import Item, Result, Runner


@dataclass(frozen=True, slots=True)
class Abroad(Generic[Item, Result]):
    """How work is done elsewhere.

    Attributes:
        start: makes a runner there; it is told how many items it is given at once, and where the files are that came.
        needs: the name of the files that an item needs, such as its module.
        pack: returns the files of a name; called on this machine, for each item anew where it is not known to be there.
        common: files that every runner needs, by name, such as the networks of policies.
    """

    start: Callable[[int, Shelf], Runner[Item, Result]]
    needs: Callable[[Item], str]
    pack: Callable[[str], Good]
    common: Mapping[str, Good] = field(default_factory=dict)
