"""What there is to know of an environment before it is made: spaces, features, arguments, `info`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from difflib import get_close_matches
from textwrap import wrap
from typing import Any

from mlgo_gym import ENVIRONMENTS
from mlgo_gym.cli.manual_arguments import arguments
from mlgo_gym.cli.manual_pages import made, summary
from mlgo_gym.errors import MlgoError
from mlgo_gym.tasks.info_reference import info_keys

_WIDTH = 80
_LABEL = 24


def listed() -> list[dict[str, str]]:
    """Return id and summary of each registered environment."""
    return [{"id": name, "summary": summary(name)} for name in ENVIRONMENTS]


def list_text() -> str:
    """Return the registered environments, a line or two for each."""
    return "\n".join(line for each in listed() for line in _item(each["id"], each["summary"]))


def card(name: str) -> dict[str, Any]:
    """Return what there is to know of an environment, as JSON-able data.

    Args:
        name: its id, with or without `mlgo_gym:` before it.

    Raises:
        MlgoError: there is no such environment.
    """
    known = name.removeprefix("mlgo_gym:")
    if known not in ENVIRONMENTS:
        close = get_close_matches(known, ENVIRONMENTS, n=1)
        hint = f"did you mean {close[0]}? " if close else ""
        raise MlgoError(f"there is no environment {name!r}; {hint}there are {', '.join(ENVIRONMENTS)}")
    env = made(known)
    task = env.task
    defaults = {each.name: each.default for each in arguments(env)}
    return {
        "id": known,
        "summary": summary(known),
        "observation_space": str(env.observation_space),
        "action_space": str(env.action_space),
        "masked": task.masked,
        "reward": defaults["reward"],
        "metric": task.default_metric,
        "metrics": list(task.metrics),
        "render_modes": list(env.metadata["render_modes"]),
        "decided_by": [advisor.name for advisor in task.advisors],
        "features": [
            {**asdict(feature), "table": table.title, "source": table.source}
            for table in task.tables
            for feature in table.features
        ],
        "arguments": [{"name": each.name, "default": each.default, "meaning": each.meaning} for each in arguments(env)],
        "info": [asdict(key) for key in info_keys(task)],
    }


def card_text(found: dict[str, Any]) -> str:
    """Return a card in lines of at most 80 columns."""
    return "\n".join(_lines(found))


def _lines(found: dict[str, Any]) -> Iterator[str]:
    yield found["id"]
    yield from _filled(found["summary"])
    yield ""
    yield from _item("observation", found["observation_space"])
    yield from _item("action", found["action_space"] + (", masked: action_masks()" if found["masked"] else ""))
    yield from _item("reward", f"{found['reward']}, of {found['metric']}; metrics {', '.join(found['metrics'])}")
    yield from _item("render_mode", ", ".join(found["render_modes"]))
    sources: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for feature in found["features"]:
        sources.setdefault((feature["table"], feature["source"]), []).append(feature)
    for (table, source), features in sources.items():
        yield ""
        yield f"Features: {table}"
        yield from _filled(f"filled in by {source}", 2)
        for feature in features:
            shape = ", ".join(map(str, feature["shape"]))
            since = f"; since clang {feature['since']}" if feature["since"] > 17 else ""
            kind = "int64" if feature["type"] == "int64_t" else feature["type"]
            yield from _item(feature["name"], f"{feature['meaning']} ({kind}, {shape}{since})", 2)
    yield ""
    yield "Arguments"
    for each in found["arguments"]:
        yield from _item(f"{each['name']}={each['default']!r}", each["meaning"].replace("`", ""), 2)
    yield ""
    yield "info"
    for key in found["info"]:
        when = f"{key['when']}, {key['condition']}" if key["condition"] else key["when"]
        yield from _item(key["name"], f"{key['meaning']} ({key['type']}; {when})".replace("`", ""), 2)


def _item(label: str, text: str, indent: int = 0) -> Sequence[str]:
    """Return a label and a text beside it, or below it where the label is long."""
    start = " " * indent + label
    margin = " " * (_LABEL + indent)
    if len(start) >= _LABEL + indent:
        return [start, *wrap(text, _WIDTH, initial_indent=margin, subsequent_indent=margin)]
    return wrap(text, _WIDTH, initial_indent=start.ljust(len(margin)), subsequent_indent=margin) or [start]


def _filled(text: str, indent: int = 0) -> list[str]:
    return wrap(text, _WIDTH, initial_indent=" " * indent, subsequent_indent=" " * indent)
