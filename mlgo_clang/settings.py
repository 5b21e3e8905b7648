"""Settings of `mlgo-clang` itself: its `--mlgo-…` options, and environment variables for options not given."""

from __future__ import annotations

import os

from mlgo_clang.command_lines import level_of
from mlgo_clang.errors import PolicyError, UsageError
from mlgo_clang.files import working_folder
from mlgo_clang.signals import signal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

PREFIX = "--mlgo-"
"""Prefix of the options; no option of clang starts so."""

BUILD_LOG = "MLGO_BUILD_LOG"
"""Environment variable with the path of a log of `mlgo_clang.build_log`."""

_OPTIONS = {
    "policy": ("MLGO_POLICY", "NAME,NAME", "policies of inlining; the smallest object is kept; default: last-call"),
    "clang": ("MLGO_CLANG", "PATH", "compiler, 17 or newer; default: bundled"),
    "levels": ("MLGO_LEVELS", "LEVEL,LEVEL", "levels at which policies decide; default: s,z"),
    "recipes": ("MLGO_RECIPES", "DIR", "folder of recipes"),
    "link-facts": ("MLGO_LINK_FACTS", "FILE", "file of link facts"),
    "internal": ("MLGO_INTERNAL", "on|off", "internal linkage for functions of one object, by the facts; default: on"),
    "timeout": ("MLGO_TIMEOUT", "SECONDS", "silence after which a clang that requests decisions is stopped"),
}
_STRICT = ("MLGO_STRICT", "", "fail instead of a warning if a policy cannot be used")
_HELP = ("", "", "this text; --help adds that of clang")

VARIABLES = (*(variable for variable, _, _ in _OPTIONS.values()), _STRICT[0])
"""The environment variables of all settings."""

DEFAULT_POLICY = "last-call"
"""Policy of a compile that names none."""

PACKAGE = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "mlgo_gym")
"""Folder of the package whose policies are bundled; an import of it takes longer than a compile."""

_LEVELS = ("0", "1", "2", "3", "s", "z")

DEFAULT_TIMEOUT = 1800.0
"""Seconds; clang writes nothing during the code generation after its last request."""


class Settings:
    """The options of `mlgo-clang` itself, which `show_help()` explains; empty strings for no recipes and no link facts.

    Attributes:
        policies: `default`, `never`, `always`, `threshold:N`, `rule:FILE`, `mlp:FILE`, or a bundled policy's name.
            Several are compiled in order, and the smallest object is kept.
        levels: optimisation levels at which the policies decide, as the letters after `-O`.
        internal: whether functions that one object alone uses, by the link facts, get internal linkage.
    """

    def __init__(self, values: Mapping[str, str], *, strict: bool) -> None:
        named = [policy.strip() for policy in (values.get("policy") or DEFAULT_POLICY).split(",")]
        self.policies = tuple(dict.fromkeys(filter(None, named)))
        self.clang = values.get("clang") or "bundled"
        named = [level.strip() for level in (values.get("levels") or "s,z").split(",")]
        self.levels = tuple(level_of(level) for level in named if level)
        if not self.levels or not set(self.levels) <= set(_LEVELS):
            expected = ",".join(_LEVELS)
            raise UsageError(f"expected --mlgo-levels={expected} or some of them, got {values.get('levels')!r}")
        self.recipes = values.get("recipes") or ""
        self.link_facts = values.get("link-facts") or ""
        internal = values.get("internal") or "on"
        if internal not in ("on", "off"):
            raise UsageError(f"expected --mlgo-internal=on or off, got {internal!r}")
        self.strict = strict
        if not self.policies:
            raise UsageError(f"expected --mlgo-policy=NAME or a list NAME,NAME, got {values.get('policy')!r}")
        self.internal = bool(self.link_facts) and internal == "on"
        self.timeout = _seconds(values.get("timeout"))
        for policy in self.policies:
            # A misspelt name is an error, not a build without a policy.
            if policy not in ("default", DEFAULT_POLICY):
                _check_policy(policy)

    @property
    def decides_nothing(self) -> bool:
        """Whether no policy makes any decision."""
        return self.policies == ("default",)

    def problem_of_level(self, level: str, flag: str) -> str:
        """Return why no policy decides at a level, and the remedy; empty if one decides. `flag`: as before a level."""
        if level in self.levels:
            return ""
        expected = " or ".join(f"{flag}{known}" for known in self.levels)
        other = f", or set MLGO_LEVELS={level}" if level != "0" else ""
        return f"expected {expected}, got {flag}{level}; compile with {expected}{other}"

    def decide_nothing(self) -> None:
        """Leave all decisions to clang."""
        self.policies, self.recipes = ("default",), ""

    @property
    def uses_clang_alone(self) -> bool:
        """Whether neither a policy nor a recipe makes any decision, and no linkage changes."""
        return self.decides_nothing and not self.recipes and not self.internal


def _check_policy(policy: str) -> None:
    from mlgo_clang.channel import inlining_rule

    try:
        if inlining_rule(policy) is None:
            network_file(policy)
    except PolicyError as error:
        raise UsageError(str(error)) from None


def network_file(policy: str) -> str:
    """Return the file of `mlp:FILE`, `rule:FILE` or a bundled policy; raise PolicyError if there is none."""
    kind, colon, path = policy.partition(":")
    if colon:
        if kind not in ("mlp", "rule"):
            raise PolicyError(
                f"expected mlp:FILE, rule:FILE, threshold:N or a policy's name, got {policy!r}; see docs/how_to/ship.md"
            )
        if kind == "rule" and not path.endswith(".rule"):
            raise PolicyError(f"expected a rule's file with the suffix .rule, got {path!r}; rename it")
        path = os.path.join(working_folder(), os.path.expanduser(path))
    else:
        path = os.path.join(PACKAGE, "policies", "bundled", f"{policy}.rule")
    if not os.path.isfile(path):
        raise PolicyError(f"expected the file of a policy, got {policy!r}, and there is no {path}; use last-call")
    return path


def show_help() -> None:
    """Print the help on the options."""
    # A reader such as `head` may end first, which ends a program without a traceback.
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    lines = ["Options of mlgo-clang, each with a variable that replaces it (docs/how_to/ship.md):", ""]
    for name, (variable, value, text) in {**_OPTIONS, "strict": _STRICT, "help": _HELP}.items():
        option = f"{PREFIX}{name}{'=' if value else ''}{value}"
        lines.append(f"  {option:<32} {text}{f' [{variable}]' if variable else ''}")
    print(*lines, "", sep="\n", flush=True)  # noqa: T201 - the help


def _seconds(text: str | None) -> float:
    if not text:
        return DEFAULT_TIMEOUT
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    # poll(2) counts milliseconds in an int.
    if not 0 < seconds < 2e6:
        raise UsageError(f"expected seconds above 0 for --mlgo-timeout, got {text!r}")
    return seconds


def split_arguments(arguments: Sequence[str]) -> tuple[Settings, list[str]]:
    """Return the settings and clang's arguments; raise UsageError if a `--mlgo-` option is unknown or malformed."""
    values = {option: os.environ[words[0]] for option, words in _OPTIONS.items() if words[0] in os.environ}
    strict = os.environ.get("MLGO_STRICT", "") not in ("", "0")
    others = []
    for argument in arguments:
        if not argument.startswith(PREFIX):
            others.append(argument)
            continue
        option, equals, value = argument[len(PREFIX) :].partition("=")
        if argument == f"{PREFIX}strict":
            strict = True
        elif argument == f"{PREFIX}help":
            continue
        elif option in _OPTIONS and equals and value:
            values[option] = value
        else:
            known = ", ".join(f"{PREFIX}{name}=…" for name in _OPTIONS)
            raise UsageError(f"expected one of {known} or {PREFIX}strict, got {argument!r}")
    return Settings(values, strict=strict), others
