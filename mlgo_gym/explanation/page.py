"""An explanation as one self-contained HTML page, without scripts, for light and dark."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from mlgo_gym.errors import MissingExtraError
from mlgo_gym.explanation.call_graph import call_graph
from mlgo_gym.explanation.explanation import Explanation, FunctionChange, Shown
from mlgo_gym.explanation.graph_picture import picture
from mlgo_gym.explanation.leading_features import LeadingFeature
from mlgo_gym.explanation.names import readable, short_component, shortened
from mlgo_gym.explanation.text import answer_text, decides_text, number_text, overview, signed

_TEMPLATES = Path(__file__).with_name("templates")
_FUNCTIONS = 30


def as_page(explanation: Explanation, command: str) -> str:
    """Return an explanation as HTML.

    Args:
        explanation: what to show.
        command: the command that made it, for readers who want to repeat it.

    Raises:
        MissingExtraError: Jinja or igraph is not installed.
    """
    first, second = explanation.policies
    rest = explanation.differences[len(explanation.shown) :]
    others = explanation.functions[_FUNCTIONS:]
    graph = call_graph(explanation) if explanation.differences else None
    return render(
        "explanation.html",
        {
            "module": explanation.module,
            "clang": explanation.clang,
            "first": first,
            "second": second,
            "command": command,
            "overview": overview(explanation),
            "sizes": _sizes(explanation),
            "picture": "" if graph is None else _markup(picture(graph, explanation.policies)),
            "nodes": 0 if graph is None else len(graph.nodes),
            "left_out": 0 if graph is None else graph.left_out,
            "calls_left_out": 0 if graph is None else graph.calls_left_out,
            "calls": [_call(shown, explanation.policies) for shown in explanation.shown],
            "all": f"{len(explanation.differences):,}",
            "more": len(rest),
            "more_bytes": signed(sum(each.credited for each in rest)),
            "functions": _functions(explanation.functions[:_FUNCTIONS]),
            "functions_more": len(others),
            "functions_more_bytes": signed(sum(each.change for each in others)),
        },
    )


def render(template: str, values: dict[str, Any]) -> str:
    """Return a template of this folder, filled in; texts are escaped.

    Raises:
        MissingExtraError: Jinja is not installed.
    """
    try:
        import jinja2
    except ImportError as error:
        raise MissingExtraError("a page of HTML", "explain") from error
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(_TEMPLATES), autoescape=True, undefined=jinja2.StrictUndefined
    )
    return environment.get_template(template).render(values)


def _markup(text: str) -> Any:
    """Return HTML of our own making as what a template takes over as it is."""
    from markupsafe import Markup

    return Markup(text)  # noqa: S704 - its parts were escaped by whoever put it together


def _kind(change: float) -> str:
    return "more" if change > 0 else "less" if change < 0 else ""


def _sizes(explanation: Explanation) -> list[dict[str, str]]:
    first, second = explanation.policies
    sizes = [_size("clang alone", explanation.baseline, "", "bytes of machine code")]
    for name, text in ((first, explanation.first.text), (second, explanation.second.text)):
        change = text - explanation.baseline
        share = f"{change / max(explanation.baseline, 1):+.2%}".replace("-", "\N{MINUS SIGN}")
        said = f"{signed(change)} bytes, {share} against clang" if change else "as many as clang alone"
        sizes.append(_size(name, text, _kind(change), said))
    return sizes


def _size(name: str, text: int, kind: str, said: str) -> dict[str, str]:
    return {"name": name, "text": f"{text:,}", "kind": kind, "change": said}


def _call(shown: Shown, policies: tuple[str, str]) -> dict[str, Any]:
    each = shown.difference
    decision = each.decision
    callee = readable(decision.callee)
    pushing = [name for name in policies if any(name in feature.pushes for feature in shown.features)]
    bytes_of = each.credited if each.measured is None else each.measured
    return {
        "caller": short_component(decision.component, 48),
        "caller_full": ", ".join(map(readable, decision.functions)),
        "callee": shortened(callee, 48),
        "callee_full": callee,
        "first": answer_text(each.first),
        "first_kind": "inlines" if each.first else "keeps",
        "second": answer_text(decision.answer),
        "second_kind": "inlines" if decision.answer else "keeps",
        "clang": "inline" if decision.default else "keep",
        "measured": "nothing" if each.measured is None else signed(each.measured),
        "credited": signed(each.credited),
        "kind": _kind(bytes_of),
        "alone": each.alone,
        "unsteady": shown.unsteady,
        "decides": decides_text([feature for feature in shown.features if feature.decides]),
        "pushing": pushing,
        "features": [_feature(feature, pushing) for feature in shown.features],
    }


def _feature(feature: LeadingFeature, pushing: Sequence[str]) -> dict[str, Any]:
    return {
        "name": feature.name,
        "meaning": feature.meaning,
        "value": number_text(feature.value),
        "median": number_text(feature.median),
        "pushes": [f"{feature.pushes.get(name, 0.0):+.2f}".replace("-", "\N{MINUS SIGN}") for name in pushing],
    }


def _functions(changes: Sequence[FunctionChange]) -> list[dict[str, Any]]:
    largest = max((abs(each.change) for each in changes), default=1)
    return [
        {
            "name": readable(each.symbol),
            "first": f"{each.first:,}" if each.first else "not there",
            "second": f"{each.second:,}" if each.second else "gone",
            "change": signed(each.change),
            "kind": _kind(each.change),
            "width": round(100 * abs(each.change) / largest, 1),
        }
        for each in changes
    ]
