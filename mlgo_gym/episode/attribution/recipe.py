"""Recipes of modules: written, read, and kept in folders. `mlgo_clang.recipes` has the format of the file."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

from mlgo_clang.files import read_untrusted
from mlgo_clang.recipes import SUFFIX, format_recipe, parse_recipe, read_count
from mlgo_gym.cache import parse_json, write_atomically
from mlgo_gym.compiler.decision import DecisionSite
from mlgo_gym.errors import CorpusError, MlgoError


@dataclass(frozen=True, slots=True)
class Recipe:
    """The decisions of one module.

    Attributes:
        digest: SHA-256 of the bitcode, in hexadecimal.
        flags: The `-cc1` arguments, without input, output and channels.
        text, baseline_text: Bytes of the executable sections with these decisions, and of a plain compile.
        actions: The action at each decision site, in clang's order; empty if the plain compile is the best found.
        compiles: Number of compiles of the search.
        metric: Metric of the search; of several metrics, their weights as JSON.
        cost: Cost with these decisions, and that of a plain compile, by another metric than `text`; else None.
    """

    module: str
    digest: str
    clang: str
    flags: tuple[str, ...]
    text: int
    baseline_text: int
    actions: Mapping[DecisionSite, int]
    compiles: int = 0
    metric: str = "text"
    cost: tuple[float, float] | None = None

    @property
    def answers(self) -> tuple[int, ...]:
        """The actions, in clang's order."""
        return tuple(self.actions.values())

    @property
    def costs(self) -> tuple[float, float]:
        """Cost with these decisions, and that of a plain compile, by the metric."""
        return self.cost or (self.text, self.baseline_text)

    @property
    def change(self) -> float:
        """Relative change of the cost against clang's own decisions: -0.02 is 2 % less."""
        cost, baseline = self.costs
        return cost / baseline - 1 if baseline else 0.0

    def check(self, digest: str, clang: str) -> None:
        """Raise `MlgoError` unless the recipe belongs to a bitcode, by SHA-256, and to a version of the compiler."""
        if digest != self.digest:
            raise MlgoError(
                f"expected bitcode with SHA-256 {self.digest} for this recipe, got module {self.module!r} with "
                f"{digest}: the source, its flags or the front end changed; search again"
            )
        if clang != self.clang:
            raise MlgoError(
                f"expected clang {self.clang} for this recipe, got clang {clang}; use that clang, or search again"
            )


def write_recipe(recipe: Recipe, path: str | Path) -> None:
    """Write a recipe to a file, atomically."""
    fields = {
        "module": recipe.module,
        "digest": recipe.digest,
        "clang": recipe.clang,
        "flags": json.dumps(list(recipe.flags)),
        "text": f"{recipe.text} {recipe.baseline_text}",
        "compiles": str(recipe.compiles),
    }
    if recipe.metric != "text":
        fields["metric"] = recipe.metric
    if recipe.cost is not None:
        fields["cost"] = "{!r} {!r}".format(*recipe.cost)
    visits = (
        (visit, [action for _, action in decisions], context)
        for (context, visit), decisions in groupby(recipe.actions.items(), key=lambda item: item[0][:2])
    )
    write_atomically(Path(path), format_recipe(fields, visits).encode(errors="surrogateescape"))


def recipe_path(folder: str | Path, digest: str) -> Path:
    """Return the path of the recipe for a bitcode, by SHA-256, in a folder."""
    return Path(folder, f"{digest}{SUFFIX}")


def keep_recipe(recipe: Recipe, folder: str | Path, bitcode: bytes) -> Path:
    """Write a recipe and its bitcode to a folder, unless the folder has one that is as good; return its path.

    Searches and builds may use the folder at the same time; all writes are atomic. Recipes compare if compiler, flags
    and the cost of a plain compile are equal; else the new one stays.
    """
    path = recipe_path(folder, recipe.digest)
    stored = comparable_recipe(path, recipe.metric)
    write_atomically(path.with_suffix(".bc"), bitcode)
    new = recipe.clang, recipe.flags, recipe.costs[1]
    if stored is None or (stored.clang, stored.flags, stored.costs[1]) != new or recipe.change < stored.change:
        write_recipe(recipe, path)
    return path


def comparable_recipe(path: Path, metric: str) -> Recipe | None:
    """Return the recipe in a file; None if it is absent or damaged.

    Raises:
        MlgoError: It is of another metric, so that its cost does not compare.
    """
    try:
        stored = read_recipe(path)
    except MlgoError:
        return None
    if stored.metric != metric:
        raise MlgoError(
            f"expected a recipe by {metric} for {stored.module}, got one by {stored.metric} in {path}; use another "
            "folder"
        )
    return stored


def read_recipe(path: str | Path) -> Recipe:
    """Read a recipe; raise `MlgoError` if the file cannot be read, or is not a recipe."""
    try:
        fields, visits = parse_recipe(read_untrusted(path).decode(errors="surrogateescape"))
        text_size, baseline = map(read_count, fields["text"].split(" "))
        flags = parse_json(fields["flags"])
        if not isinstance(flags, list) or not all(isinstance(flag, str) for flag in flags):
            raise ValueError(f"expected flags as a list of strings, got {fields['flags'][:80]!r}")
        cost = None
        if "cost" in fields:
            with_recipe, plain = map(float, fields["cost"].split(" "))
            cost = with_recipe, plain
        actions = {
            DecisionSite(context, visit, index): decision
            for visit, decisions, context in visits
            for index, decision in enumerate(decisions)
        }
        if len(actions) != sum(len(decisions) for _, decisions, _ in visits):
            raise ValueError("expected each visit once, got one twice")
        return Recipe(
            module=fields["module"],
            digest=fields["digest"],
            clang=fields["clang"],
            flags=tuple(flags),
            text=text_size,
            baseline_text=baseline,
            actions=actions,
            compiles=read_count(fields["compiles"]),
            metric=fields["metric"],
            cost=cost,
        )
    except OSError as error:
        raise MlgoError(f"cannot read the recipe {path}: {error}") from error
    except (KeyError, ValueError, MlgoError) as error:
        raise MlgoError(f"expected a recipe in {path}, got a damaged line: {error}") from error


def stored_recipes(folder: Path) -> Iterator[tuple[Path, Recipe | None]]:
    """Yield the path and the contents of each recipe; None for a damaged one, or one with another module's name.

    Raises `CorpusError` if there is no such folder.
    """
    if not folder.is_dir():
        raise CorpusError(f"expected a folder of recipes, got {folder}; mlgo-clang --mlgo-recipes=DIR makes one")
    for path in sorted(folder.glob(f"*{SUFFIX}")):
        try:
            recipe = read_recipe(path)
        except MlgoError:
            recipe = None
        yield path, recipe if recipe is not None and recipe.digest == path.stem else None
