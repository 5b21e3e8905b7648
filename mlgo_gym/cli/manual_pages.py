"""The manual pages of the environments as Markdown: docstrings, and tables that the code declares."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable
from pathlib import Path

from gymnasium.envs.registration import load_env_creator, registry

from mlgo_gym import APPROXIMATIONS, ENVIRONMENTS
from mlgo_gym.env import CompilerEnv
from mlgo_gym.episode.options import Argument, EnvironmentOptions, declared_arguments
from mlgo_gym.storage.cache import write_atomically
from mlgo_gym.tasks.feature_table import Feature
from mlgo_gym.tasks.infos import InfoKey, info_keys

_DTYPES = {"int64_t": "int64", "float": "float32"}
_GENERATED = "<!-- made by `mlgo-gym docs` from the docstrings of the classes and the references in mlgo_gym/tasks -->"

_LONGEST_CELL = 120
"""Characters of a table's cell; longer documentation of an argument stands below the table."""

_SHARED = "arguments.md"


def pages() -> dict[str, str]:
    """Return the text of each page by file name: one per environment, `index.md` and the shared `arguments.md`."""
    return {
        "index.md": _index(),
        _SHARED: _shared_page(),
        **{_file_name(name): page(name) for name in ENVIRONMENTS},
    }


def write_pages(folder: Path) -> list[str]:
    """Write the pages into a folder, delete other pages in it, and return the names of the changed files."""
    changed = outdated(folder)
    current = pages()
    for name in changed:
        if name in current:
            write_atomically(folder / name, current[name].encode())
        else:
            (folder / name).unlink()
    return changed


def outdated(folder: Path) -> list[str]:
    """Return the names of missing, changed and superfluous pages in a folder."""
    current = pages()
    found = {path.name: path.read_text() for path in folder.glob("*.md")}
    return sorted(name for name in {*current, *found} if current.get(name) != found.get(name))


def summary(name: str) -> str:
    """Return the first line of an environment's docstring."""
    return _docstring(name).splitlines()[0]


def make_default(name: str) -> CompilerEnv:
    """Return a registered environment with default arguments and the bundled clang, which supports every task."""
    entry_point = registry[name].entry_point
    assert isinstance(entry_point, str)
    env = load_env_creator(entry_point)(clang="bundled")
    assert isinstance(env, CompilerEnv)
    return env


def page(name: str) -> str:
    """Return the page of a registered environment."""
    reader = (
        f"For people who train or measure agents on `{name}`: its observations, actions, rewards and own arguments."
    )
    parts = [_GENERATED, f"# {name}", reader]
    if name in APPROXIMATIONS:
        return "\n\n".join([*parts, _docstring(name)]) + "\n"
    env = make_default(name)
    text = _insert_table(_docstring(name), "Arguments", _own_arguments(env))
    text = _insert_table(text, "Info", _own_info(env))
    parts += [text, "## Features"]
    for table in env.task.tables:
        parts += [f"### {table.title}", table.introduction, _feature_table(table.features)]
        parts += [table.note] if table.note else []
        parts += [f"Filled in by `{table.source}`."] if table.source else []
    return "\n\n".join(parts) + "\n"


_INFO = """The page of an environment has the further keys of its `info`. The last info of an episode always has the
same keys. After a failure its integers are 0, its floats are NaN, and its collections are empty."""


def _index() -> str:
    rows = [(f"[`{name}`]({_file_name(name)})", summary(name)) for name in ENVIRONMENTS]
    reader = (
        f"For people who choose an environment: the tasks. [Arguments and info]({_SHARED}) are those of all with clang."
    )
    return "\n\n".join([_GENERATED, "# Environments", reader, _table(("environment", "task"), rows)]) + "\n"


def _shared_page() -> str:
    declared = [*declared_arguments(EnvironmentOptions)]
    parts = [
        _GENERATED,
        "# Arguments and info of every environment",
        "For people who make an environment: the arguments and the keys of `info` that all environments share.",
        "## Arguments",
        "All are JSON values, except a `Corpus` object.",
        _argument_table([each for each in declared if "." not in each.name]),
        "## Entries of `compile_options`",
        'How each module is compiled, as in `compile_options={"timeout": 20}`.',
        _argument_table([each for each in declared if "." in each.name]),
        "## Info",
        _INFO,
        _info_table(_shared_keys()),
    ]
    return "\n\n".join(parts) + "\n"


def _file_name(name: str) -> str:
    return f"{name.partition('/')[2]}.md"


def _docstring(name: str) -> str:
    entry_point = registry[name].entry_point
    assert isinstance(entry_point, str)
    text = inspect.getdoc(load_env_creator(entry_point))
    assert text is not None
    # The table of arguments has the same declarations; the page of a class has its attributes.
    return re.split(r"\n(?:Args|Attributes):\n", text)[0].rstrip()


def _insert_table(docstring: str, section: str, table: str) -> str:
    """Insert a table after the first paragraph of a section."""
    before, heading, after = docstring.partition(f"## {section}\n\n")
    assert heading, f"expected a section {section} in the docstring of an environment"
    paragraph, gap, rest = after.partition("\n\n")
    return f"{before}{heading}{paragraph}\n\n{table}{gap}{rest}"


def _own_arguments(env: CompilerEnv) -> str:
    shared = {each.name for each in declared_arguments(EnvironmentOptions)}
    own = [each for each in declared_arguments(env.options_type) if each.name not in shared]
    first, *others = env.task.metrics
    metrics = ", ".join([f'`"{first}"` (default)', *(f'`"{metric}"`' for metric in others)])
    parts = [f"[Arguments]({_SHARED}) has those of every environment.", _argument_table(own)]
    return "\n\n".join([*parts, f"Values of `metric`: {metrics}."])


def _argument_table(arguments: Iterable[Argument]) -> str:
    rows: list[tuple[str, ...]] = []
    more: list[str] = []
    for name, default, meaning in arguments:
        shown = f'"{default}"' if isinstance(default, str) else repr(default)
        if len(meaning) > _LONGEST_CELL:
            summary, details = re.split(r": |[.;] ", meaning, maxsplit=1)
            more.append(f"- `{name}`: {details}")
            meaning = f"{summary}; see below."
        rows.append((f"`{name}`", f"`{shown}`", meaning))
    table = _table(("argument", "default", "meaning"), rows)
    return "\n\n".join([table, *(["\n".join(more)] if more else [])])


def _shared_keys() -> list[InfoKey]:
    """Return the keys of `info` of every environment, with the condition of any."""
    tasks = [info_keys(make_default(name).task) for name in ENVIRONMENTS if name not in APPROXIMATIONS]
    common = set.intersection(*({_without_condition(key) for key in keys} for keys in tasks))
    conditions = {_without_condition(key): key for keys in tasks for key in sorted(keys, key=lambda key: key.condition)}
    return [conditions[_without_condition(key)] for key in tasks[0] if _without_condition(key) in common]


def _own_info(env: CompilerEnv) -> str:
    shared = {_without_condition(key) for key in _shared_keys()}
    own = [key for key in info_keys(env.task) if _without_condition(key) not in shared]
    return f"[Info]({_SHARED}) has the keys of every environment.\n\n{_info_table(own)}"


def _without_condition(key: InfoKey) -> InfoKey:
    return key._replace(condition="")


def _info_table(keys: Iterable[InfoKey]) -> str:
    rows = []
    for key in keys:
        when = f"{key.when}, {key.condition}" if key.condition else key.when
        rows.append((f"`{key.name}`", when, key.type, key.meaning))
    return _table(("key", "when", "type", "meaning"), rows)


def _feature_table(features: Iterable[Feature]) -> str:
    rows = []
    for feature in features:
        lengths = ", ".join(map(str, feature.shape))
        shape = f"({lengths},)" if len(feature.shape) == 1 else f"({lengths})"
        rows.append((f"`{feature.name}`", _DTYPES[feature.type], shape, feature.meaning, str(feature.since)))
    return _table(("name", "dtype", "shape", "meaning", "since clang"), rows)


def _table(headings: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    lines = [f"| {' | '.join(headings)} |", "|---" * len(headings) + "|"]
    return "\n".join([*lines, *(f"| {' | '.join(row)} |" for row in rows)])
