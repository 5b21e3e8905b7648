"""Options that several commands have: their types, and the arguments of an environment that they stand for."""

import json
from collections.abc import Iterable
from typing import Annotated, Any

from typer import Argument, Option

from mlgo_gym.errors import MlgoError

_CORPUS = "builtin, a dataset, pypi:NAME==VERSION, a path; several with commas."

Clang = Annotated[str | None, Option(help="Path, name on PATH, or 'bundled'.", show_default="$MLGO_CLANG or bundled")]
CorpusArgument = Annotated[str, Argument(help=_CORPUS)]
Corpus = Annotated[str, Option(help=_CORPUS)]
EnvironmentArgument = Annotated[str, Argument(help="Id of the environment, such as mlgo/Inline-v0.")]
Jobs = Annotated[int | None, Option(help="Number of concurrent jobs. Default: one per CPU.", min=1)]
Json = Annotated[bool, Option("--json", help="Print JSON instead of text.")]
Limit = Annotated[int | None, Option(help="Number of modules to take, drawn at random.", min=1)]
LinkView = Annotated[bool, Option("--link-view", help="Compile modules with the linkages of the recorded link.")]
Metric = Annotated[str | None, Option(help="Metric: text, object, linked, or another one of the task.")]
Optimize = Annotated[str, Option(help="Optimisation level of the modules: Oz, Os, O2 or O3.")]
Ray = Annotated[
    str | None,
    Option(
        help="Address of a Ray cluster: `HOST:PORT`, `ray://HOST:PORT`, `auto` for the cluster on this machine, or "
        "`local` to start one for the call. Default: no cluster."
    ),
]
Seed = Annotated[int, Option(help="Random seed; of policies, and of the sample of --limit.")]
Settings = Annotated[
    list[str] | None,
    Option(
        "--set",
        help="Argument of the environment, or compile_options.ENTRY; VALUE is JSON. Repeatable.",
        metavar="NAME=VALUE",
    ),
]
TrustFlags = Annotated[bool, Option(help="Run the flags of the corpus unchecked, if you know its author.")]
Workers = Annotated[
    int | None,
    Option(
        "--jobs",
        help="Number of workers (≥ 1). Default: 1, which is this process; with `ray` one worker per CPU of the "
        "cluster.",
        min=1,
    ),
]


def environment_arguments(
    clang: str | None = None,
    settings: Iterable[str] | None = None,
    trust_flags: bool = False,
    link_view: bool = False,
    **further: Any,
) -> dict[str, Any]:
    """Return the arguments of an environment from options of a command; None and False count as not given.

    Raises `MlgoError` if `--set` has no name or no equals sign.
    """
    arguments = parse_settings(settings or ())
    entries = ({"trust_flags": True} if trust_flags else {}) | arguments.pop("compile_options", {})
    options = {"clang": clang, "link_view": link_view, **further}
    given = {name: value for name, value in options.items() if value is not None and value is not False}
    return given | arguments | ({"compile_options": entries} if entries else {})


def parse_settings(texts: Iterable[str]) -> dict[str, Any]:
    """Return the arguments in `NAME=VALUE` texts; NAME may be `compile_options.ENTRY`, and VALUE is JSON or a string.

    Raises `MlgoError` if a text has no name or no equals sign, or `compile_options` is no object.
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
