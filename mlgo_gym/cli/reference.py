"""`mlgo-gym env`, and the pages of the environments on the site: Markdown.

Docstrings of the classes, `declared_arguments()`, `KEYS` of infos and the tables of features are the only sources.
"""

import inspect
import re
from collections.abc import Iterable
from typing import Annotated

import typer
from gymnasium.envs.registration import load_env_creator

from mlgo_gym import APPROXIMATIONS, ENVIRONMENTS
from mlgo_gym.cli import options
from mlgo_gym.cli.interface import print_result
from mlgo_gym.env import CompilerEnv
from mlgo_gym.episode.options import Argument, EnvironmentOptions, declared_arguments
from mlgo_gym.errors import MlgoError, did_you_mean
from mlgo_gym.make_env import make_environment
from mlgo_gym.tasks.features import FeatureTable
from mlgo_gym.tasks.infos import KEYS, InfoKey, info_keys

_DTYPES = {"int64_t": "int64", "float": "float32"}
_BASELINE = "baseline_"
_READER = """For people who choose an environment, or train on one. [Arguments and info](arguments.md) and
[features](features.md) have pages of their own; `mlgo-gym env mlgo/Inline-v0` prints all."""

_INFO = f"""The last info of an episode always has the same keys. After a failure its integers are 0, its floats are
NaN, and its collections are empty. Costs and `function_sizes` have a `{_BASELINE}NAME`, that of a plain compile by the
same clang with the same flags."""


def env(
    name: Annotated[
        str | None, typer.Argument(help="Id of an environment: mlgo/Inline-v0, or MODULE:ID.", metavar="[ID]")
    ] = None,
    *,
    as_json: options.Json = False,
) -> None:
    """Show the manual of an environment: spaces, reward, arguments, infos and features; without ID, list all."""
    if name is None:
        summaries = {env_id: _docstring_of(env_id).splitlines()[0] for env_id in ENVIRONMENTS}
        data = [{"id": env_id, "summary": summary} for env_id, summary in summaries.items()]
        print_result(as_json, data, "\n".join(f"{env_id:24}{summary}" for env_id, summary in summaries.items()))
    else:
        print_result(as_json, {"id": name, "manual": manual(name)}, manual(name))


def environments_page() -> str:
    """Return the page of all environments, for the site."""
    return "\n\n".join(["# Environments", _READER, *map(_card, ENVIRONMENTS)])


def manual(name: str) -> str:
    """Return the page of an environment with all its arguments, infos and features; the id may have a module first.

    Raises:
        MlgoError: The id is unknown, or the environment has no compiler.
    """
    env_id = name.removeprefix("mlgo_gym:")
    if env_id not in ENVIRONMENTS and ":" not in env_id:
        hint = did_you_mean(env_id, list(ENVIRONMENTS))
        raise MlgoError(f"expected one of {', '.join(ENVIRONMENTS)} or MODULE:ID, got {name!r}{hint}")
    if env_id in APPROXIMATIONS:
        raise MlgoError(
            f"expected an environment with a compiler, got {name!r}; `python -m pydoc "
            f"{ENVIRONMENTS[env_id].replace(':', '.')}Env` prints its manual"
        )
    env = _make(env_id)
    parts = [f"# {env_id.rpartition(':')[2]}", _docstring(type(env)), _metrics(env)]
    parts += ["## Arguments", _arguments(declared_arguments(env.options_type))]
    parts += ["## Info", _INFO, _info_table(info_keys(env.task)), "## Features"]
    return "\n\n".join([*parts, *(part for table in env.task.tables for part in _features(table))])


def _make(name: str) -> CompilerEnv:
    """Return an environment with default arguments and the bundled clang, which supports every task."""
    return make_environment(name, {"clang": "bundled"})


def _environments() -> dict[str, CompilerEnv]:
    return {name: _make(name) for name in ENVIRONMENTS if name not in APPROXIMATIONS}


def _docstring(env_type: object) -> str:
    text = inspect.getdoc(env_type) or ""
    # The list of arguments has the same declarations; the page of a class has its attributes.
    return re.split(r"\n(?:Args|Attributes):\n", text)[0].rstrip()


def _docstring_of(name: str) -> str:
    return _docstring(load_env_creator(f"{ENVIRONMENTS[name]}Env"))


def _card(name: str) -> str:
    """Return the section of an environment: its docstring, one level lower, and its metrics."""
    text = f"## {name}\n\n{_docstring_of(name).replace('## ', '### ')}"
    return text if name in APPROXIMATIONS else f"{text}\n\n{_metrics(_make(name))}"


def _metrics(env: CompilerEnv) -> str:
    first, *others = (f'`"{metric}"`' for metric in env.task.metrics)
    return f"Values of `metric`: {', '.join([f'{first} (default)', *others])}."


def arguments_page() -> str:
    """Return the page of the arguments and infos of all environments, for the site."""
    shared = list(declared_arguments(EnvironmentOptions))
    own: dict[str, tuple[Argument, list[str]]] = {}
    for name, env in _environments().items():
        for own_argument in declared_arguments(env.options_type):
            if own_argument.name not in {declared.name for declared in shared}:
                own.setdefault(own_argument.name, (own_argument, []))[1].append(f"`{name}`")
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


def features_page() -> str:
    """Return the page of the features of all environments, for the site."""
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
