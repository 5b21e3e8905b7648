"""`mlgo-gym env`: the manual of an environment as Markdown, whose parts are also those of the site's pages.

Docstrings and signatures of the classes, `KEYS` of infos and the tables of features are the only sources.
"""

import inspect
import re
from collections.abc import Iterable
from dataclasses import fields
from typing import Annotated, Any

import typer
from gymnasium.envs.registration import load_env_creator

from mlgo_gym import APPROXIMATIONS, ENVIRONMENTS
from mlgo_gym.cli import options
from mlgo_gym.cli.interface import print_result
from mlgo_gym.env import CompilerEnv
from mlgo_gym.episode.argument_types import keyword_parameters
from mlgo_gym.episode.options import COMPILE_OPTIONS, CompileOptions, EnvironmentOptions
from mlgo_gym.errors import MlgoError, did_you_mean
from mlgo_gym.make_env import make_environment
from mlgo_gym.tasks.features import FeatureTable
from mlgo_gym.tasks.infos import InfoKey, info_keys

_DTYPES = {"int64_t": "int64", "float": "float32"}
_BASELINE = "baseline_"
INFO = f"""The last info of an episode always has the same keys. After a failure its integers are 0, its floats are
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
        summaries = {env_id: class_docstring(env_id).splitlines()[0] for env_id in ENVIRONMENTS}
        data = [{"id": env_id, "summary": summary} for env_id, summary in summaries.items()]
        print_result(as_json, data, "\n".join(f"{env_id:24}{summary}" for env_id, summary in summaries.items()))
    else:
        print_result(as_json, {"id": name, "manual": manual(name)}, manual(name))


def manual(name: str) -> str:
    """Return the page of an environment with all its arguments, infos and features; the id may have a module first.

    Raises `MlgoError` if the id is unknown, or the environment has no compiler.
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
    env = default_environment(env_id)
    parts = [f"# {env_id.rpartition(':')[2]}", _docstring(type(env)), metric_values(env)]
    parts += ["## Arguments", "\n".join([*argument_lines(type(env)), *entry_lines()])]
    parts += ["## Info", INFO, info_table(info_keys(env.task)), "## Features"]
    return "\n\n".join([*parts, *(part for table in env.task.tables for part in feature_parts(table))])


def default_environment(name: str) -> CompilerEnv:
    """Return an environment with default arguments and the bundled clang, which supports every task."""
    return make_environment(name, {"clang": "bundled"})


def _docstring(env_type: object) -> str:
    text = inspect.getdoc(env_type) or ""
    # The list of arguments has the same declarations; the page of a class has its attributes.
    return re.split(r"\n(?:Args|Attributes):\n", text)[0].rstrip()


def class_docstring(name: str) -> str:
    """Return the docstring of the class of an environment, without its arguments."""
    return _docstring(load_env_creator(f"{ENVIRONMENTS[name]}Env"))


def metric_values(env: CompilerEnv) -> str:
    """Return a sentence with the metrics of an environment."""
    first, *others = (f'`"{metric}"`' for metric in env.task.metrics)
    return f"Values of `metric`: {', '.join([f'{first} (default)', *others])}."


def argument_lines(env_type: type[CompilerEnv]) -> list[str]:
    """Return a line for each argument of an environment."""
    documented = (EnvironmentOptions, *reversed(env_type.__mro__))
    meanings = {name: text for kind in documented for name, text in _meanings(kind).items()}
    return [
        _argument(name, parameter.default, meanings[name]) for name, parameter in keyword_parameters(env_type).items()
    ]


def entry_lines() -> list[str]:
    """Return a line for each entry of `compile_options`."""
    meanings = _meanings(CompileOptions)
    return [
        _argument(f"{COMPILE_OPTIONS}.{field.name}", field.default, meanings[field.name])
        for field in fields(CompileOptions)
    ]


def _argument(name: str, default: Any, meaning: str) -> str:
    value = f'"{default}"' if isinstance(default, str) else repr(dict(default) if name == COMPILE_OPTIONS else default)
    return f"- `{name}` = `{value}`: {meaning}"


def _meanings(kind: type) -> dict[str, str]:
    """Return the meaning of each argument in the docstring of a class."""
    _, _, section = (inspect.getdoc(kind) or "").partition("\nArgs:\n")
    entries = re.findall(r"^    (\w+): (.+(?:\n {8}.+)*)", section.partition("\n\n")[0], re.MULTILINE)
    return {name: " ".join(text.split()) for name, text in entries}


def info_table(keys: Iterable[InfoKey]) -> str:
    """Return the table of the keys of infos."""
    rows = [
        (f"`{key.name}`", ", ".join(filter(None, (key.when, key.tasks, key.condition))), key.type, key.meaning)
        for key in keys
        if not key.name.startswith(_BASELINE)
    ]
    return _table(("key", "when", "type", "meaning"), rows)


def feature_parts(table: FeatureTable, level: str = "###") -> list[str]:
    """Return heading, introduction, rows and note of a table of features."""
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
