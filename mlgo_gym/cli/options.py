"""Options that several commands share: annotations, and dataclasses whose fields are options."""

from __future__ import annotations

import functools
import inspect
import json
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import typer

from mlgo_gym.errors import MlgoError
from mlgo_gym.scheduling import Execution
from mlgo_gym.scheduling.ray_cluster import ray_address


def option(text: str, *names: str, **settings: Any) -> Any:
    """Return the declaration of an option with its help text; the names default to that of the parameter."""
    return typer.Option(*names, help=text, **settings)


def argument(text: str, **settings: Any) -> Any:
    """Return the declaration of an argument with its help text."""
    return typer.Argument(help=text, **settings)


CorpusArgument = Annotated[
    str, argument("builtin, a dataset, pypi:NAME==VERSION, csmith:SEED:COUNT, a path; several with commas.")
]
EnvironmentArgument = Annotated[str, argument("Id of the environment, such as mlgo/Inline-v0.")]
EnvironmentOption = Annotated[str, option("Id of the environment.")]
CorpusOption = Annotated[str, option("builtin, a dataset, a folder or a .bc file; several with commas.")]
SeedOption = Annotated[int, option("Random seed; of policies, and of the sample of --limit.")]
CalleeFeaturesOption = Annotated[
    bool, option("Add features of the callee and of earlier decisions.", "--callee-features")
]
JobsOption = Annotated[int | None, option("Number of concurrent jobs. Default: one per CPU.", min=1)]
LargestOption = Annotated[int | None, option("Skip modules with more bytes of bitcode than this.")]
LevelOption = Annotated[str, option("Optimisation level of the modules: Oz, Os, O2 or O3.", "--optimize")]
MetricOption = Annotated[str | None, option("Metric: text, object, linked, or another one of the task.")]
LimitOption = Annotated[int | None, option("Number of modules to take, drawn at random.", min=1)]
NewCorpusOption = Annotated[Path, option("Folder of the new corpus.", "--output")]
TrustFlagsOption = Annotated[bool, option("Run the flags of the corpus unchecked, if you know its author.")]
ClangOption = Annotated[str | None, option("Path, name on PATH, or 'bundled'.", show_default="$MLGO_CLANG or bundled")]


@dataclass(frozen=True, slots=True)
class CompilerOptions:
    """The options of every command that compiles the modules of a corpus."""

    clang: ClangOption = None
    memory_limit: Annotated[float | None, option("Memory of a compile, or inf.", metavar="GIB", show_default="16")] = (
        None
    )
    cpu_limit: Annotated[
        float | None, option("CPU time of a compile, or inf.", metavar="SECONDS", show_default="3600")
    ] = None
    settings: Annotated[
        list[str] | None,
        option(
            "Argument of the environment, or compile_options.ENTRY; VALUE is JSON. Repeatable.",
            "--set",
            metavar="NAME=VALUE",
        ),
    ] = None
    trust_flags: TrustFlagsOption = False

    def arguments(self, **further: Any) -> dict[str, Any]:
        """Return the given arguments of an environment; `further` ones count unless they are None or False.

        Raises:
            MlgoError: `--set` has no name or no equals sign.
        """
        limits = {"memory_limit": self.memory_limit, "cpu_limit": self.cpu_limit}
        # JSON has no infinity.
        entries = {
            name: None if value == float("inf") else value for name, value in limits.items() if value is not None
        }
        settings = parse_settings(self.settings or ())
        entries |= ({"trust_flags": True} if self.trust_flags else {}) | settings.pop("compile_options", {})
        options = {"clang": self.clang, **further}
        arguments = {name: value for name, value in options.items() if value is not None and value is not False}
        return arguments | settings | ({"compile_options": entries} if entries else {})


def parse_settings(texts: Iterable[str]) -> dict[str, Any]:
    """Return the arguments in `NAME=VALUE` texts; NAME may be `compile_options.ENTRY`, and VALUE is JSON or a string.

    Raises:
        MlgoError: A text has no name or no equals sign.
    """
    settings: dict[str, Any] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        group, _, entry = name.rpartition(".")
        if not equals or not entry.isidentifier() or group not in ("", "compile_options"):
            raise MlgoError(f"expected --set NAME=VALUE, got {text!r}; for instance --set observation=vector")
        target = settings.setdefault(group, {}) if group else settings
        try:
            target[entry] = json.loads(value)
        except ValueError:
            target[entry] = value
    return settings


@dataclass(frozen=True, slots=True)
class ExecutionOptions:
    """Options for where the work runs."""

    jobs: Annotated[
        int | None,
        option("Number of worker processes.", min=1, show_default="1; with --ray one per CPU of the cluster"),
    ] = None
    ray: Annotated[
        str | None,
        option(
            "Compile on the Ray cluster at ADDRESS, such as HOST:PORT. Without ADDRESS: the cluster at "
            "$RAY_ADDRESS, or one that is started on this machine.",
            metavar="[ADDRESS]",
        ),
    ] = None

    def execution(self) -> Execution:
        """Return where the work runs."""
        return Execution(self.jobs, None if self.ray is None else ray_address(self.ray))


_ADDRESS = re.compile(r"auto|local|ray://.+|[\w.-]+:\d+|\[[\da-fA-F:]+\]:\d+")


def fill_ray_value(words: Sequence[str]) -> list[str]:
    """Return a command line in which `--ray` has a value: empty if no address follows.

    typer has no options with an optional value.
    """
    following = (*words[1:], "")
    return [
        "--ray=" if word == "--ray" and not _ADDRESS.fullmatch(after) else word
        for word, after in zip(words, following, strict=False)
    ]


def with_options(command: Callable[..., None]) -> Callable[..., None]:
    """Replace each parameter whose type is a dataclass by options: its fields, which have typer annotations.

    The command receives an instance.
    """
    # Not get_type_hints: before Python 3.11 it changes annotations of arguments whose default is None.
    signature = inspect.signature(command, eval_str=True)
    groups: dict[str, tuple[type[Any], list[str]]] = {}
    parameters: list[inspect.Parameter] = []
    for name, parameter in signature.parameters.items():
        group = parameter.annotation
        if not is_dataclass(group):
            parameters.append(parameter)
            continue
        hints = get_type_hints(group, include_extras=True)
        parameters += [
            inspect.Parameter(
                field.name, inspect.Parameter.KEYWORD_ONLY, default=field.default, annotation=hints[field.name]
            )
            for field in fields(group)
        ]
        groups[name] = group, [field.name for field in fields(group)]  # type: ignore[assignment] # a class

    @functools.wraps(command)
    def run(*arguments: Any, **values: Any) -> None:
        for name, (group, names) in groups.items():
            values[name] = group(**{option: values.pop(option) for option in names})
        command(*arguments, **values)

    # typer reads these two instead of the wrapped function.
    run.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined] # functions take attributes
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    del run.__wrapped__
    return run
