"""The manual pages: each environment's docstring and the tables of its features, as Markdown."""

from __future__ import annotations

import inspect
from collections.abc import Iterable
from pathlib import Path

from gymnasium.envs.registration import load_env_creator, registry

from mlgo_gym import ENVIRONMENTS
from mlgo_gym.cli.manual_arguments import argument_table, info_table
from mlgo_gym.env import CompilerEnv
from mlgo_gym.storage.cache import write_atomically
from mlgo_gym.tasks.feature_reference import Feature

_DTYPES = {"int64_t": "int64", "float": "float32"}
_GENERATED = "<!-- made by `mlgo-gym docs` from the docstrings of the classes and the references in mlgo_gym/tasks -->"


def pages() -> dict[str, str]:
    """Return the text of each page by its file name: one for each environment, and `index.md`."""
    texts = {f"{_short(name)}.md": page(name) for name in ENVIRONMENTS}
    return {"index.md": _index(), **texts}


def write_pages(folder: Path) -> list[str]:
    """Write the pages into a folder, and take away pages of environments that are gone.

    Returns:
        The names of the files that changed.
    """
    changed = outdated(folder)
    wanted = pages()
    for name in changed:
        if name in wanted:
            write_atomically(folder / name, wanted[name].encode())
        else:
            (folder / name).unlink()
    return changed


def outdated(folder: Path) -> list[str]:
    """Return the names of the pages in a folder that are missing, differ from what they ought to be, or ought not."""
    wanted = pages()
    found = {path.name: path.read_text() for path in folder.glob("*.md")}
    return sorted(name for name in {*wanted, *found} if wanted.get(name) != found.get(name))


def _short(name: str) -> str:
    return name.partition("/")[2]


def _docstring(name: str) -> str:
    entry_point = registry[name].entry_point
    assert isinstance(entry_point, str)
    text = inspect.getdoc(load_env_creator(entry_point))
    assert text is not None
    return text


def summary(name: str) -> str:
    """Return what a registered environment is about, in a sentence."""
    return _docstring(name).splitlines()[0]


def made(name: str) -> CompilerEnv:
    """Return a registered environment as it is without arguments; the bundled clang can do every task."""
    entry_point = registry[name].entry_point
    assert isinstance(entry_point, str)
    env = load_env_creator(entry_point)(clang="bundled")
    assert isinstance(env, CompilerEnv)
    return env


def _with_table(docstring: str, section: str, table: str) -> str:
    """Return a docstring with a table after the first paragraph of one of its sections."""
    before, heading, after = docstring.partition(f"## {section}\n\n")
    assert heading, f"a manual page has the section {section}"
    paragraph, gap, rest = after.partition("\n\n")
    return f"{before}{heading}{paragraph}\n\n{table}{gap}{rest}"


def _index() -> str:
    rows = [f"| [`{name}`]({_short(name)}.md) | {summary(name)} |" for name in ENVIRONMENTS]
    return "\n".join([_GENERATED, "", "# Environments", "", "| environment | task |", "|---|---|", *rows, ""])


def page(name: str) -> str:
    """Return the page of a registered environment."""
    env = made(name)
    text = _with_table(_docstring(name), "Arguments", argument_table(env))
    text = _with_table(text, "Info", info_table(env))
    parts = [_GENERATED, f"# {name}", text, "## Features"]
    for table in env.task.tables:
        parts += [f"### {table.title}", table.introduction, _table(table.features)]
        parts += [table.note] if table.note else []
        parts += [f"Filled in by `{table.source}`."] if table.source else []
    return "\n\n".join(parts) + "\n"


def _table(features: Iterable[Feature]) -> str:
    rows = ["| name | dtype | shape | meaning | since clang |", "|---|---|---|---|---|"]
    for feature in features:
        lengths = ", ".join(map(str, feature.shape))
        shape = f"({lengths},)" if len(feature.shape) == 1 else f"({lengths})"
        rows.append(f"| `{feature.name}` | {_DTYPES[feature.type]} | {shape} | {feature.meaning} | {feature.since} |")
    return "\n".join(rows)
