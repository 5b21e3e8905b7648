"""The reference of the environments: manual pages as Markdown, and cards.

Docstrings of the classes, `declared_arguments()`, `KEYS` of infos and the tables of features are the only sources.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable
from dataclasses import asdict
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from gymnasium.envs.registration import load_env_creator

from mlgo_gym import APPROXIMATIONS, ENVIRONMENTS
from mlgo_gym.env import CompilerEnv
from mlgo_gym.episode.options import Argument, EnvironmentOptions, declared_arguments
from mlgo_gym.errors import MlgoError
from mlgo_gym.storage.cache import write_atomically
from mlgo_gym.tasks.feature_table import FeatureTable
from mlgo_gym.tasks.infos import KEYS, InfoKey, info_keys

_GENERATED = "<!-- made by `mlgo-gym docs` from the docstrings of the classes and the tables in mlgo_gym/tasks -->"
_DTYPES = {"int64_t": "int64", "float": "float32"}
_BASELINE = "baseline_"

_INFO = f"""The last info of an episode always has the same keys. After a failure its integers are 0, its floats are
NaN, and its collections are empty. Costs and `function_sizes` have a `{_BASELINE}NAME`, that of a plain compile by the
same clang with the same flags."""


def pages() -> dict[str, str]:
    """Return the text of each page by file name: one per environment, and the pages that these share."""
    shared = {"index.md": _index(), "arguments.md": _shared_page(), "features.md": _features_page()}
    texts = shared | {_file_name(name): _page(name) for name in ENVIRONMENTS}
    return {name: f"{_GENERATED}\n\n{text}\n" for name, text in texts.items()}


def write_pages(folder: Path) -> list[str]:
    """Write the pages into a folder, delete other pages in it, and return the names of the changed files."""
    changed, current = outdated(folder), pages()
    for name in changed:
        if name in current:
            write_atomically(folder / name, current[name].encode())
        else:
            (folder / name).unlink()
    return changed


def outdated(folder: Path) -> list[str]:
    """Return the names of missing, changed and superfluous pages in a folder."""
    current = pages()
    stored = {path.name: path.read_text() for path in folder.glob("*.md")}
    return sorted(name for name in {*current, *stored} if current.get(name) != stored.get(name))


def listed() -> list[dict[str, str]]:
    """Return id and summary of each registered environment."""
    return [{"id": name, "summary": _docstring(name).splitlines()[0]} for name in ENVIRONMENTS]


def card(name: str) -> dict[str, Any]:
    """Return the card of an environment as JSON-able data; the id may start with `mlgo_gym:`.

    Raises:
        MlgoError: The id is unknown, or the environment has no compiler.
    """
    env_id, env = _known(name)
    task, arguments = env.task, list(declared_arguments(env.options_type))
    return {
        "id": env_id,
        "summary": _docstring(env_id).splitlines()[0],
        "observation_space": str(env.observation_space),
        "action_space": str(env.action_space),
        "masked": task.masked,
        "reward": next(argument.default for argument in arguments if argument.name == "reward"),
        "metric": task.default_metric,
        "metrics": list(task.metrics),
        "render_modes": list(env.metadata["render_modes"]),
        "decided_by": [advisor.name for advisor in task.advisors],
        "features": [
            {**asdict(feature), "table": table.title, "source": table.source}
            for table in task.tables
            for feature in table.features
        ],
        "arguments": [argument._asdict() for argument in arguments],
        "info": [dict(zip(key._fields, key[:5], strict=False)) for key in info_keys(task)],
    }


def manual(name: str) -> str:
    """Return the page of an environment with all its arguments, infos and features; errors as of `card()`."""
    env_id, env = _known(name)
    parts = [f"# {env_id}", _docstring(env_id), _metrics(env)]
    parts += ["## Arguments", _arguments(declared_arguments(env.options_type))]
    parts += ["## Info", _INFO, _info_table(info_keys(env.task)), "## Features"]
    return "\n\n".join([*parts, *(part for table in env.task.tables for part in _features(table))])


def _known(name: str) -> tuple[str, CompilerEnv]:
    env_id = name.removeprefix("mlgo_gym:")
    if env_id not in ENVIRONMENTS:
        close = get_close_matches(env_id, ENVIRONMENTS, n=1)
        hint = f"; did you mean {close[0]}?" if close else ""
        raise MlgoError(f"expected one of {', '.join(ENVIRONMENTS)}, got {name!r}{hint}")
    if env_id in APPROXIMATIONS:
        raise MlgoError(
            f"expected an environment with a compiler, got {name!r}; `python -m pydoc "
            f"{ENVIRONMENTS[env_id].replace(':', '.')}Env` prints its manual"
        )
    return env_id, _make(env_id)


def _make(name: str) -> CompilerEnv:
    """Return an environment with default arguments and the bundled clang, which supports every task."""
    env = load_env_creator(f"{ENVIRONMENTS[name]}Env")(clang="bundled")
    assert isinstance(env, CompilerEnv)
    return env


def _environments() -> dict[str, CompilerEnv]:
    return {name: _make(name) for name in ENVIRONMENTS if name not in APPROXIMATIONS}


def _docstring(name: str) -> str:
    text = inspect.getdoc(load_env_creator(f"{ENVIRONMENTS[name]}Env")) or ""
    # The list of arguments has the same declarations; the page of a class has its attributes.
    return re.split(r"\n(?:Args|Attributes):\n", text)[0].rstrip()


def _file_name(name: str) -> str:
    return f"{name.partition('/')[2]}.md"


def _index() -> str:
    rows = [(f"[`{entry['id']}`]({_file_name(entry['id'])})", entry["summary"]) for entry in listed()]
    reader = (
        "For people who choose an environment: the tasks. [Arguments and info](arguments.md) and "
        "[features](features.md) have pages of their own. Each id ends with its version; all are the first."
    )
    return "\n\n".join(["# Environments", reader, _table(("environment", "task"), rows)])


def _page(name: str) -> str:
    parts = [f"# {name}", f"For people who train or measure agents on `{name}`. {_docstring(name)}"]
    if name not in APPROXIMATIONS:
        env = _make(name)
        links = ", ".join(f"[{table.title}](features.md#{table.title.lower()})" for table in env.task.tables)
        parts.append(f"Features: {links}. {_metrics(env)} [Arguments and info](arguments.md) has the rest.")
    return "\n\n".join(parts)


def _metrics(env: CompilerEnv) -> str:
    first, *others = (f'`"{metric}"`' for metric in env.task.metrics)
    return f"Values of `metric`: {', '.join([f'{first} (default)', *others])}."


def _shared_page() -> str:
    shared = list(declared_arguments(EnvironmentOptions))
    own: dict[str, tuple[Argument, list[str]]] = {}
    for name, env in _environments().items():
        for argument in declared_arguments(env.options_type):
            if argument.name not in {declared.name for declared in shared}:
                own.setdefault(argument.name, (argument, []))[1].append(f"`{name}`")
    further = [argument._replace(meaning=f"{argument.meaning} Of {', '.join(ids)}.") for argument, ids in own.values()]
    parts = [
        "# Arguments and info",
        "For people who make an environment: its arguments and the keys of `info`.",
        "## Arguments",
        "All are JSON values, except a `Corpus` object. The last ones belong to some environments.",
        _arguments([*(argument for argument in shared if "." not in argument.name), *further]),
        "## Entries of `compile_options`",
        'How each module is compiled, as in `compile_options={"timeout": 20}`.',
        _arguments(argument for argument in shared if "." in argument.name),
        "## Info",
        _INFO,
        _info_table(KEYS),
    ]
    return "\n\n".join(parts)


def _features_page() -> str:
    tables = {table.title: table for env in _environments().values() for table in env.task.tables}
    reader = "For people who read observations: the features of each kind of decision, as clang computes them."
    sections = [part for table in tables.values() for part in _features(table, "##")]
    return "\n\n".join(["# Features", reader, *sections])


def _arguments(arguments: Iterable[Argument]) -> str:
    lines = []
    for name, default, meaning in arguments:
        value = f'"{default}"' if isinstance(default, str) else repr(default)
        lines.append(f"- `{name}` = `{value}`: {meaning}")
    return "\n".join(lines)


def _info_table(keys: Iterable[InfoKey]) -> str:
    rows = [
        (f"`{key.name}`", ", ".join(filter(None, (key.when, key.tasks, key.condition))), key.type, key.meaning)
        for key in keys
        if not key.name.startswith(_BASELINE)
    ]
    return _table(("key", "when", "type", "meaning"), rows)


def _features(table: FeatureTable, level: str = "###") -> list[str]:
    rows = []
    for feature in table.features:
        lengths = ", ".join(map(str, feature.shape))
        shape = f"({lengths},)" if len(feature.shape) == 1 else f"({lengths})"
        rows.append((f"`{feature.name}`", _DTYPES[feature.type], shape, feature.meaning, str(feature.since)))
    source = f" Filled in by `{table.source}`." if table.source else ""
    parts = [f"{level} {table.title}", table.introduction + source]
    parts.append(_table(("name", "dtype", "shape", "meaning", "since clang"), rows))
    return [*parts, table.note] if table.note else parts


def _table(headings: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    lines = [f"| {' | '.join(headings)} |", "|---" * len(headings) + "|"]
    return "\n".join([*lines, *(f"| {' | '.join(row)} |" for row in rows)])
