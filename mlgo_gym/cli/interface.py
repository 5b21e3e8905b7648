"""The interface of all commands: options, each declared once, and results, as text or with `--json` as one value.

A parameter of a command that comes after `*` is an option, any other an argument. Its declaration is, in this order:

- its own annotation, such as `Annotated[int, option("Number of calls.", min=1)]`;
- for `Annotated[Values, OptionsOf(Labelling, "compiles seed")]`, those of some parameters of a class or a function,
  with the text of its docstring; the command receives a dict of them, or an instance of the annotated class;
- for a dataclass of this file, those of its fields; the command receives an instance;
- the one of its name in `SHARED`.
"""

from __future__ import annotations

import functools
import inspect
import json
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields, is_dataclass
from typing import Annotated, Any, NamedTuple, NoReturn, get_args, get_origin, get_type_hints

import typer

from mlgo_gym.cli import escape_control_characters
from mlgo_gym.errors import MlgoError

FAILED = 1
"""Exit status after a failure; the help of each command says which."""

Values = dict[str, Any]
"""The values of `OptionsOf` by name: arguments of the class or the function."""


def option(text: str, *names: str, **settings: Any) -> Any:
    """Return the declaration of an option with its help text; the names default to that of the parameter."""
    return typer.Option(*names, help=text, **settings)


def argument(text: str, **settings: Any) -> Any:
    """Return the declaration of an argument with its help text."""
    return typer.Argument(help=text, **settings)


SHARED = {
    "as_json": option("Print JSON instead of text.", "--json"),
    "callee_features": option("Add features of the callee and of earlier decisions.", "--callee-features"),
    "clang": option("Path, name on PATH, or 'bundled'.", show_default="$MLGO_CLANG or bundled"),
    "corpus": option("builtin, a dataset, pypi:NAME==VERSION, a path; several with commas."),
    "cpu_limit": option("CPU time of a compile, or inf.", metavar="SECONDS", show_default="3600"),
    "environment": option("Id of the environment, such as mlgo/Inline-v0."),
    "hidden": option("Widths of the hidden layers, separated by commas."),
    "jobs": option("Number of concurrent jobs. Default: one per CPU.", min=1),
    "link_view": option("Compile modules with the linkages of the recorded link.", "--link-view"),
    "limit": option("Number of modules to take, drawn at random.", min=1),
    "memory_limit": option("Memory of a compile, or inf.", metavar="GIB", show_default="16"),
    "metric": option("Metric: text, object, linked, or another one of the task."),
    "optimize": option("Optimisation level of the modules: Oz, Os, O2 or O3.", "--optimize"),
    "seed": option("Random seed; of policies, and of the sample of --limit."),
    "settings": option(
        "Argument of the environment, or compile_options.ENTRY; VALUE is JSON. Repeatable.",
        "--set",
        metavar="NAME=VALUE",
    ),
    "smallest": option("Add a policy that takes the smallest object of all policies.", "--smallest"),
    "steps": option("Steps of the network's optimiser.", min=1),
    "trust_flags": option("Run the flags of the corpus unchecked, if you know its author."),
}
"""The options of several commands by the name of their parameter; as an argument it has the same help text."""


@dataclass(frozen=True, slots=True)
class CompilerOptions:
    """The options of every command that compiles the modules of a corpus."""

    clang: str | None = None
    memory_limit: float | None = None
    cpu_limit: float | None = None
    settings: list[str] | None = None
    trust_flags: bool = False
    link_view: bool = False

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
        options = {"clang": self.clang, "link_view": self.link_view, **further}
        arguments = {name: value for name, value in options.items() if value is not None and value is not False}
        return arguments | settings | ({"compile_options": entries} if entries else {})


def parse_settings(texts: Iterable[str]) -> dict[str, Any]:
    """Return the arguments in `NAME=VALUE` texts; NAME may be `compile_options.ENTRY`, and VALUE is JSON or a string.

    Raises:
        MlgoError: A text has no name or no equals sign, or `compile_options` is no object.
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
        if not isinstance(settings.get("compile_options", {}), dict):
            raise MlgoError(f"expected --set compile_options.ENTRY=VALUE, got {text!r}; for instance timeout=60")
    return settings


_ENTRY = re.compile(r"^ {4}(\w+): (.+(?:\n {8}.+)*)", re.MULTILINE)


class OptionsOf:
    """A declaration of options from some parameters of a class or a function; others are their defaults here.

    Their help is the text of `Args:` or `Attributes:` in the docstring; `(≥ 1)` in it is a limit. The type of a
    parameter is one of typer's, or a tuple, which is a repeatable option.
    """

    def __init__(self, target: Callable[..., Any], names: str, **defaults: Any) -> None:
        self._target, self._names, self._defaults = target, names.split(), defaults

    def parameters(self) -> list[inspect.Parameter]:
        """Return the parameters with their declarations."""
        texts = dict(_ENTRY.findall(inspect.getdoc(self._target) or ""))
        declared = inspect.signature(self._target, eval_str=True).parameters
        return [self._parameter(declared[name], " ".join(texts[name].split())) for name in self._names]

    def _parameter(self, parameter: inspect.Parameter, text: str) -> inspect.Parameter:
        default, kind = self._defaults.get(parameter.name, parameter.default), parameter.annotation
        if get_origin(kind) is tuple:
            kind, default = list[get_args(kind)[0]] | None, None  # type: ignore[misc] # a type at run time
        least = re.search(r"\(≥ (\d+)", text)
        # Typer shows a default other than None.
        text = text if default is None else text.partition(" Default:")[0]
        declaration = option(text, min=int(least[1])) if least else option(text)
        return parameter.replace(default=default, annotation=Annotated[kind, declaration])


def with_options(command: Callable[..., Result | None]) -> Callable[..., None]:
    """Return the command as typer takes it, with a declaration of each parameter, and `--json` if it has a result."""
    # Not get_type_hints: before Python 3.11 it changes annotations of arguments whose default is None.
    signature = inspect.signature(command, eval_str=True)
    groups: dict[str, tuple[Any, list[str]]] = {}
    parameters: list[inspect.Parameter] = []
    for name, parameter in signature.parameters.items():
        group: Any = parameter.annotation
        if is_dataclass(group):
            kind, hints = group, get_type_hints(group, include_extras=True)
            further = [parameter.replace(name=field.name, default=field.default) for field in fields(group)]
            further = [_declared(field.replace(annotation=hints[field.name])) for field in further]
        elif isinstance(next(iter(get_args(group)[1:]), None), OptionsOf):
            kind, further = get_args(group)[0], get_args(group)[1].parameters()
        else:
            parameters.append(_declared(parameter))
            continue
        parameters += [part.replace(kind=inspect.Parameter.KEYWORD_ONLY) for part in further]
        groups[name] = get_origin(kind) or kind, [part.name for part in further]

    adds_json = signature.return_annotation is Result and "as_json" not in signature.parameters
    if adds_json:
        as_json = inspect.Parameter("as_json", inspect.Parameter.KEYWORD_ONLY, default=False, annotation=bool)
        parameters.append(_declared(as_json))

    @functools.wraps(command)
    def run(*arguments: Any, **values: Any) -> None:
        as_json = values.pop("as_json") if adds_json else values.get("as_json", False)
        for name, (make, names) in groups.items():
            values[name] = make(**{option: values.pop(option) for option in names})
        if (result := command(*arguments, **values)) is not None:
            show(as_json, result.data, result.text)
            exit_with(result.failed)

    # typer reads these two instead of the wrapped function.
    run.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined] # functions take attributes
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    del run.__wrapped__
    return run


def _declared(parameter: inspect.Parameter) -> inspect.Parameter:
    if get_origin(parameter.annotation) is Annotated:
        return parameter
    declaration = SHARED[parameter.name]
    if parameter.kind is not inspect.Parameter.KEYWORD_ONLY:
        declaration = argument(declaration.help)
    return parameter.replace(annotation=Annotated[parameter.annotation, declaration])


def echo(text: object, *, err: bool = False) -> None:
    """Print a text on standard output or standard error, with control characters escaped."""
    typer.echo(escape_control_characters(str(text)), err=err)


def show(as_json: bool, data: Any, text: str) -> None:
    """Print a result on standard output: with `--json` the data as one value, else the text unless it is empty."""
    if as_json:
        typer.echo(json.dumps(data, indent=2, default=str))
    elif text:
        echo(text)


class Result(NamedTuple):
    """The result of a command: the value that `--json` prints, else a text; exit status 1 if something failed."""

    data: Any
    text: str
    failed: object = None


def exit_with(failed: object) -> NoReturn:
    """End the command with the exit status `FAILED` if something failed, else 0."""
    raise typer.Exit(FAILED if failed else 0)


def aligned(rows: Iterable[Sequence[object]]) -> str:
    """Return rows of equal length as lines of aligned columns; numbers are on the right of their columns."""
    table = [
        [(f"{cell:,}", ">") if isinstance(cell, (int, float)) else (str(cell), "<") for cell in row] for row in rows
    ]
    widths = [max(len(text) for text, _ in column) for column in zip(*table, strict=True)]
    lines = (
        "  ".join(f"{text:{side}{width}}" for (text, side), width in zip(row, widths, strict=True)) for row in table
    )
    return "\n".join(map(str.rstrip, lines))
