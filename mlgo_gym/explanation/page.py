"""An explanation as one self-contained HTML page, without scripts, for light and dark."""

from __future__ import annotations

from pathlib import Path

from mlgo_gym.explanation.call_graph import call_graph
from mlgo_gym.explanation.explanation import Explanation
from mlgo_gym.explanation.graph_picture import picture
from mlgo_gym.explanation.names import readable, short_context, shortened
from mlgo_gym.explanation.text import answer_text, decisive_text, number_text, overview, signed
from mlgo_gym.extras import library

_TEMPLATES = Path(__file__).with_name("templates")
_MAX_FUNCTIONS = 30


def as_page(explanation: Explanation, command: str) -> str:
    """Return an explanation as HTML, with the command that reproduces it.

    Raises:
        MissingExtraError: Jinja or igraph is not installed.
    """
    jinja2, markupsafe = (library(name, "a page of HTML", "explain") for name in ("jinja2", "markupsafe"))
    templates = jinja2.Environment(
        loader=jinja2.FileSystemLoader(_TEMPLATES), autoescape=True, undefined=jinja2.StrictUndefined
    )
    templates.filters |= {
        "answer": answer_text,
        "decisive": lambda features: decisive_text([feature for feature in features if feature.decisive_for]),
        "kind": lambda change: "more" if change > 0 else "less" if change < 0 else "",
        "number": number_text,
        "readable": readable,
        "short_context": short_context,
        "shortened": shortened,
        "signed": signed,
    }
    graph = call_graph(explanation) if explanation.differences else None
    # The parts of the picture are escaped.
    drawn = "" if graph is None else markupsafe.Markup(picture(graph, explanation.policies))
    text: str = templates.get_template("explanation.html").render(
        command=command,
        explanation=explanation,
        first=explanation.policies[0],
        second=explanation.policies[1],
        graph=graph,
        max_functions=_MAX_FUNCTIONS,
        overview=overview(explanation),
        picture=drawn,
    )
    return text
