"""The card of an environment: spaces, reward, features, arguments, infos."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from difflib import get_close_matches
from textwrap import wrap
from typing import Any

from mlgo_gym import APPROXIMATIONS, ENVIRONMENTS
from mlgo_gym.cli.manual_pages import make_default, summary
from mlgo_gym.episode.options import declared_arguments
from mlgo_gym.errors import MlgoError
from mlgo_gym.llvm.toolchain import OLDEST_SUPPORTED
from mlgo_gym.tasks.infos import info_keys

_WIDTH = 80
_LABEL = 24


def listed() -> list[dict[str, str]]:
    """Return id and summary of each registered environment."""
    return [{"id": name, "summary": summary(name)} for name in ENVIRONMENTS]


def list_text() -> str:
    """Return ids and summaries of the registered environments as text."""
    return "\n".join(line for each in listed() for line in _item(each["id"], each["summary"]))


def card(name: str) -> dict[str, Any]:
    """Return the card of an environment as JSON-able data; the id may start with `mlgo_gym:`.

    Raises:
        MlgoError: The id is unknown.
    """
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
    env = make_default(env_id)
    task = env.task
    arguments = list(declared_arguments(env.options_type))
    return {
        "id": env_id,
        "summary": summary(env_id),
        "observation_space": str(env.observation_space),
        "action_space": str(env.action_space),
        "masked": task.masked,
        "reward": next(each.default for each in arguments if each.name == "reward"),
        "metric": task.default_metric,
        "metrics": list(task.metrics),
        "render_modes": list(env.metadata["render_modes"]),
        "decided_by": [advisor.name for advisor in task.advisors],
        "features": [
            {**asdict(feature), "table": table.title, "source": table.source}
            for table in task.tables
            for feature in table.features
        ],
        "arguments": [each._asdict() for each in arguments],
        "info": [dict(zip(key._fields, key[:5], strict=False)) for key in info_keys(task)],
    }


def card_text(found: dict[str, Any]) -> str:
    """Return a card as text of at most 80 columns."""
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
            since = f"; since clang {feature['since']}" if feature["since"] > OLDEST_SUPPORTED else ""
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
    """Return a label and a text beside it; below it if the label is long."""
    start = " " * indent + label
    margin = " " * (_LABEL + indent)
    if len(start) >= _LABEL + indent:
        return [start, *wrap(text, _WIDTH, initial_indent=margin, subsequent_indent=margin)]
    return wrap(text, _WIDTH, initial_indent=start.ljust(len(margin)), subsequent_indent=margin) or [start]


def _filled(text: str, indent: int = 0) -> list[str]:
    return wrap(text, _WIDTH, initial_indent=" " * indent, subsequent_indent=" " * indent)
