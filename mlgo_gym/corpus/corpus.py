"""A corpus: named modules, looked up, filtered, split, sampled and joined."""

from __future__ import annotations

import fnmatch
import random
import re
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from functools import cached_property, partial
from itertools import islice
from pathlib import Path
from typing import Literal, overload

from mlgo_gym.corpus.flags import check_edits
from mlgo_gym.corpus.known_facts import known_facts
from mlgo_gym.corpus.module import Module
from mlgo_gym.corpus.modules import ENDLESS, EditedModules, JoinedModules, Modules, TrustedModules
from mlgo_gym.corpus.related import first_of_each
from mlgo_gym.corpus.sampling import PARTS, Part, draw, draw_stratified, is_part
from mlgo_gym.errors import CorpusError

DEFAULT_LEVEL = "Oz"
"""The optimisation level of corpora made here, unless another is asked for."""

Count = Callable[[Module, str], int]
"""The number of decisions of a module for a task, measured by whoever has a compiler to measure with."""


class Corpus:
    """A sequence of modules, each made when it is asked for.

    Args:
        name: what to call it in messages and in joined module names.
        modules: where its modules come from.
        path: the folder or file it was opened from, if there is one.
        names: the modules to take, where not all of `modules`.
        origin: returns the project of a module, and what it is called there. By default the project is the first part
            of a name with slashes, and else the corpus.
        prefix: what a joined corpus puts before the names of its modules; by default its name.

    Attributes:
        name: as given.
        prefix: as given.
        path: as given.
        names: module names, unique, in order.
    """

    def __init__(
        self,
        name: str,
        modules: Modules,
        *,
        path: Path | None = None,
        names: Sequence[str] | None = None,
        origin: Callable[[str], tuple[str, str]] | None = None,
        prefix: str | None = None,
    ) -> None:
        self.name = name
        self.prefix = name if prefix is None else prefix
        self.path = path
        self.names: Sequence[str] = modules.names if names is None else names
        self._modules = modules
        self._origin = origin

    def __repr__(self) -> str:
        return f"Corpus({self.name!r}, {len(self)} modules)"

    def __len__(self) -> int:
        return len(self.names)

    def __iter__(self) -> Iterator[Module]:
        return map(self._modules.load, self.names)

    def __contains__(self, name: object) -> bool:
        return name in self._known

    @overload
    def __getitem__(self, index: int) -> Module: ...

    @overload
    def __getitem__(self, index: slice) -> Corpus: ...

    def __getitem__(self, index: int | slice) -> Module | Corpus:
        if isinstance(index, slice):
            return self._select([self.names[position] for position in range(*index.indices(len(self)))])
        return self._modules.load(self.names[index])

    @property
    def endless(self) -> bool:
        """Whether its modules are generated for as long as they are asked for, so that it cannot be gone through."""
        return len(self.names) >= ENDLESS

    def module(self, name: str) -> Module:
        """Return the module of that name.

        Raises:
            CorpusError: there is none, or its files are missing or broken.
        """
        if name not in self._known:
            close = get_close_matches(name, islice(self.names, 20_000), n=3, cutoff=0.5)
            hint = f"; did you mean {' or '.join(close)}?" if close else "; `mlgo-gym corpus info` lists its modules"
            raise CorpusError(f"the corpus {self.name} has no module {name!r}{hint}")
        return self._modules.load(name)

    def position(self, name: str) -> int:
        """Return the position of a module of this corpus in `names`.

        Raises:
            CorpusError: there is no such module.
        """
        try:
            return self.names.index(name) if self.endless else self._positions[name]
        except (KeyError, ValueError):
            raise CorpusError(f"the corpus {self.name} has no module {name!r}; `names` lists them") from None

    def size(self, name: str) -> int:
        """Return the bytes of bitcode of the module of that name."""
        return self._modules.size(name)

    def project(self, name: str) -> str:
        """Return the project that a module belongs to."""
        return self.origin(name)[0]

    def origin(self, name: str) -> tuple[str, str]:
        """Return the project of a module, and what it is called there: the same alone and in a joined corpus."""
        if self._origin is not None:
            return self._origin(name)
        first, slash, _ = name.partition("/")
        return (first if slash else self.name), name

    def filter(
        self,
        *,
        names: str | Iterable[str] | None = None,
        regex: str | None = None,
        bytes: tuple[int, int | None] | None = None,  # noqa: A002 - the word for what is counted
        decisions: tuple[str, int, int | None] | None = None,
        count: Count | None = None,
    ) -> Corpus:
        """Return the corpus of those modules that fit every condition given, in the same order.

        Args:
            names: a glob, or several of which one has to match the whole name; `*` also matches slashes.
            regex: a regular expression that has to match somewhere in the name.
            bytes: least and most bytes of bitcode; None is no limit.
            decisions: a task, and the least and most decisions it has in the module; None is no limit.
            count: how many decisions a module has for a task; needed with `decisions`.

        Raises:
            CorpusError: the regular expression is malformed, or `decisions` comes without `count`.
        """
        chosen: Iterable[str] = self._all_names()
        if names is not None:
            patterns = [names] if isinstance(names, str) else list(names)
            fits = re.compile("|".join(fnmatch.translate(pattern) for pattern in patterns) or r"(?!)").match
            chosen = filter(fits, chosen)
        if regex is not None:
            try:
                chosen = filter(re.compile(regex).search, chosen)
            except re.error as error:
                raise CorpusError(f"{regex!r} is no regular expression: {error}; correct it") from error
        if bytes is not None:
            chosen = [name for name in chosen if _within(self.size(name), *bytes)]
        if decisions is not None:
            if count is None:
                raise CorpusError("filtering by decisions needs `count`, which measures them")
            task, least, most = decisions
            chosen = [name for name in chosen if _within(count(self._modules.load(name), task), least, most)]
        return self._select(list(chosen))

    def split(
        self,
        part: Part,
        *,
        by: Literal["module", "project"] = "module",
        test_fraction: float = 0.2,
        valid_fraction: float = 0.2,
    ) -> Corpus:
        """Return the part of the corpus for training, the rest for testing, or a part of the part for training.

        A hash of a module's name in its own corpus, or of its project, decides: a module is on the same side alone
        and in a joined corpus, at every optimisation level, and whatever else is added. Modules of one source, as a
        build compiles it twice for a static and a shared library, and modules with the same content are on one side:
        the name of the first of them decides for all.

        Args:
            part: `"train"` or `"test"`; or `"fit"` or `"valid"`, into which `"train"` falls where something is to be
                chosen on modules that were not learned from, and the test kept for the end.
            by: what stays together: the module with others of its source or its content, or its whole project.
            test_fraction: the part for testing, 0 to 1.
            valid_fraction: the part of the rest that is for validation, 0 to 1.

        Raises:
            CorpusError: an argument has another value.
        """
        fractions = (test_fraction, valid_fraction)
        if part not in PARTS or by not in ("module", "project") or not all(0 <= each <= 1 for each in fractions):
            raise CorpusError(
                f"a split is one of {', '.join(PARTS)}, by 'module' or 'project', with fractions of 0 to 1; found "
                f"{part!r}, {by!r}, {test_fraction!r}, {valid_fraction!r}"
            )
        names = self._all_names()
        if by == "project":
            return self._select([name for name in names if is_part(self.origin(name)[0], part, *fractions)])
        keys = self._split_keys(names)
        return self._select([name for name in names if is_part(keys[name], part, *fractions)])

    def _split_keys(self, names: Sequence[str]) -> dict[str, str]:
        """Return the key of each module's side: its name in its own corpus, or the first of those related to it."""
        by_corpus: dict[str, dict[str, str]] = {}
        for name in names:
            local = self.origin(name)[1]
            by_corpus.setdefault(name.removesuffix(local), {})[local] = name
        facts = known_facts(names, self._modules, f"{self.name} {self.path}")
        keys: dict[str, str] = {}
        for members in by_corpus.values():
            related = first_of_each((local, facts[name]) for local, name in members.items())
            keys |= {members[local]: first for local, first in related.items()}
        return keys

    def named(self, name: str) -> Corpus:
        """Return the same modules under another corpus name; in joined corpora their own names stay the same."""
        return self._select(self.names, name)

    def sorted_by_size(self, *, descending: bool = False) -> Corpus:
        """Return the same modules, smallest bitcode first, or largest first."""
        sign = -1 if descending else 1
        return self._select(sorted(self._all_names(), key=lambda name: (sign * self.size(name), name)))

    def sample(self, count: int, *, seed: int, replacement: bool = False, strata: int | None = None) -> list[Module]:
        """Return modules drawn at random; the same ones for the same seed.

        Args:
            count: how many.
            seed: what the draw depends on.
            replacement: whether a module can be drawn again.
            strata: cut the modules, sorted by size, into so many groups and draw from each in turn; None draws
                uniformly.

        Raises:
            CorpusError: there are too few modules.
        """
        if strata is None:
            drawn = draw(self.names, count, seed=seed, replacement=replacement)
        else:
            drawn = draw_stratified(
                self._all_names(), self.size, count, strata=strata, seed=seed, replacement=replacement
            )
        return [self._modules.load(name) for name in drawn]

    def with_flags(
        self, *, add: Sequence[str] = (), delete: Sequence[str] = (), replace: Mapping[str, str] | None = None
    ) -> Corpus:
        """Return the same modules with edited flags, as `mlgo_gym.corpus.flags.edit_flags` edits them.

        Raises:
            CorpusError: the edits contradict each other. What does not fit a module's flags is raised when that
                module is asked for.
        """
        check_edits(add=add, delete=delete, replace=replace or {})
        edited = EditedModules(self._modules, tuple(add), tuple(delete), dict(replace or {}))
        return Corpus(self.name, edited, path=self.path, names=self.names, origin=self._origin, prefix=self.prefix)

    def sampler(self, seed: int) -> ModuleSampler:
        """Return an endless iterator over the modules without replacement: each once, then each again in another order.

        It remembers its place, also when it is pickled, so that a training that goes on does so where it was.
        """
        return ModuleSampler(self, seed)

    def trusted(self) -> Corpus:
        """Return the same modules, whose flags are run whatever they are: for a corpus whose maker one knows.

        Flags can have clang write any file and load any program; see SECURITY.md.
        """
        return Corpus(
            self.name,
            TrustedModules(self._modules),
            path=self.path,
            names=self.names,
            origin=self._origin,
            prefix=self.prefix,
        )

    @cached_property
    def _positions(self) -> dict[str, int]:
        return {name: position for position, name in enumerate(self.names)}

    @cached_property
    def _known(self) -> Container[str]:
        return frozenset(self.names) if isinstance(self.names, list | tuple) else self.names

    def _all_names(self) -> Sequence[str]:
        if self.endless:
            raise CorpusError(
                f"{self.name} has no end, so it cannot be gone through; give a number, as in {self.name}:100"
            )
        return self.names

    def _select(self, names: Sequence[str], name: str | None = None) -> Corpus:
        return Corpus(
            self.name if name is None else name,
            self._modules,
            path=self.path,
            names=names,
            origin=self._origin if name is None else self.origin,
            prefix=self.prefix,
        )


def _within(value: int, least: int, most: int | None) -> bool:
    return least <= value and (most is None or value <= most)


class ModuleSampler(Iterator[Module]):
    """Draws the modules of a corpus without replacement, round after round; made by `Corpus.sampler`.

    Args:
        corpus: whose modules.
        seed: what the order of every round depends on.

    Attributes:
        drawn: how many were drawn so far.
    """

    def __init__(self, corpus: Corpus, seed: int) -> None:
        if not len(corpus):
            raise CorpusError(f"{corpus.name} has no module to draw from; use a larger corpus, or filter less")
        corpus._all_names()
        self._corpus = corpus
        self._seed = seed
        self._order: tuple[int, list[int]] = (-1, [])
        self.drawn = 0

    def __next__(self) -> Module:
        number, place = divmod(self.drawn, len(self._corpus))
        if self._order[0] != number:
            order = list(range(len(self._corpus)))
            random.Random(f"{self._seed} {number}").shuffle(order)  # noqa: S311 - an experiment, not a secret
            self._order = (number, order)
        self.drawn += 1
        return self._corpus[self._order[1][place]]


def join_corpora(corpora: Sequence[Corpus]) -> Corpus:
    """Return one corpus of the modules of several, with `CORPUS/` before their names.

    Raises:
        CorpusError: two have the same name, or one has no end.
    """
    by_name = {corpus.prefix.replace("/", ":"): corpus for corpus in corpora}
    if len(by_name) != len(corpora):
        names = ", ".join(corpus.name for corpus in corpora)
        raise CorpusError(f"joined corpora need different names, found {names}; rename a folder")
    for corpus in corpora:
        corpus._all_names()
    joined = JoinedModules([(name, corpus.names, corpus._modules) for name, corpus in by_name.items()])
    return Corpus(",".join(corpus.name for corpus in corpora), joined, origin=partial(_origin, joined, by_name))


def _origin(joined: JoinedModules, by_name: Mapping[str, Corpus], name: str) -> tuple[str, str]:
    """Return where a module of joined corpora is from; a function of the module, so that corpora go to processes."""
    member, local = joined.split_name(name)
    return by_name[member].origin(local)
