"""What the user wants of `mlgo-clang` itself: its own options, and the environment where an option is not given."""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

PREFIX = "--mlgo-"
"""What each of our own options begins with; no option of clang does."""

_VALUES = {
    "policy": "MLGO_POLICY",
    "eviction-policy": "MLGO_EVICTION_POLICY",
    "clang": "MLGO_CLANG",
    "levels": "MLGO_LEVELS",
    "recipes": "MLGO_RECIPES",
    "search": "MLGO_SEARCH",
    "timeout": "MLGO_TIMEOUT",
}

_DEFAULT_POLICY = "inline"

_SMALLEST = ("never", "threshold:0", "default", "inline")
"""What `smallest` stands for. The last wins most often, and what is not last is compiled again when it wins."""

_DEFAULT_TIMEOUT = 1800.0
"""What comes after the last question, code generation, is one long silence."""


class UsageError(Exception):
    """One of our own options is not understood."""


class Settings:
    """The options of `mlgo-clang` itself.

    Attributes:
        policies: what decides on inlining: `default`, `never`, `always`, `threshold:N`, `mlp:FILE`, or a policy's name;
            of several, in the order of their compiles, the one whose object is smallest. `smallest` is four of them.
        eviction_policy: what decides on evictions; `default` is clang itself.
        clang: the underlying compiler: a path, a name on `PATH`, or `bundled`.
        levels: the optimisation levels whose compiles go through the policies, as the letters behind `-O`.
        recipes: the folder with recipes, or an empty string.
        search: how many compiles a search may take for a module without a recipe; 0 never searches.
        timeout: for how long a clang that a policy answers may give no sign of life, in seconds.
        strict: whether it is an error that a policy could not be followed; otherwise clang alone compiles.
    """

    __slots__ = ("clang", "eviction_policy", "levels", "policies", "recipes", "search", "strict", "timeout")

    def __init__(self, values: Mapping[str, str], *, strict: bool) -> None:
        named = [policy.strip() for policy in (values.get("policy") or _DEFAULT_POLICY).split(",")]
        every = (each for policy in named if policy for each in (_SMALLEST if policy == "smallest" else (policy,)))
        self.policies = tuple(dict.fromkeys(every))
        self.eviction_policy = values.get("eviction-policy") or "default"
        self.clang = values.get("clang") or "bundled"
        self.levels = tuple(level.strip().removeprefix("-O") for level in (values.get("levels") or "s,z").split(","))
        self.recipes = values.get("recipes") or ""
        self.strict = strict
        if not self.policies:
            raise UsageError("--mlgo-policy takes the name of a policy, or several with commas between them")
        search = values.get("search") or "0"
        if not search.isdigit():
            raise UsageError(f"--mlgo-search takes a number of compiles, found {search!r}")
        self.search = int(search)
        self.timeout = _seconds(values.get("timeout"))
        if self.search and not self.recipes:
            raise UsageError("--mlgo-search keeps what it finds: name a folder with --mlgo-recipes=DIR")

    @property
    def leaves_decisions_to_clang(self) -> bool:
        """Whether no policy decides anything."""
        return self.policies == ("default",) and self.eviction_policy == "default"

    @property
    def leaves_all_to_clang(self) -> bool:
        """Whether nothing but clang ever decides, and no recipe either."""
        return self.leaves_decisions_to_clang and not self.recipes


def _seconds(text: str | None) -> float:
    if not text:
        return _DEFAULT_TIMEOUT
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    # poll(2) counts milliseconds in an int.
    if not 0 < seconds < 2e6:
        raise UsageError(f"--mlgo-timeout takes a number of seconds above 0, found {text!r}")
    return seconds


def split_arguments(arguments: Sequence[str]) -> tuple[Settings, list[str]]:
    """Return our own settings, and clang's arguments.

    Raises:
        UsageError: an option that begins with `--mlgo-` is unknown, or its value is malformed.
    """
    values = {option: os.environ[variable] for option, variable in _VALUES.items() if variable in os.environ}
    strict = os.environ.get("MLGO_STRICT", "") not in ("", "0")
    kept = []
    for argument in arguments:
        if not argument.startswith(PREFIX):
            kept.append(argument)
            continue
        option, equals, value = argument[len(PREFIX) :].partition("=")
        if argument == f"{PREFIX}strict":
            strict = True
        elif option in _VALUES and equals and value:
            values[option] = value
        else:
            known = ", ".join(f"{PREFIX}{name}=…" for name in _VALUES)
            raise UsageError(f"there is no option {argument!r}; there are {known} and {PREFIX}strict")
    return Settings(values, strict=strict), kept
