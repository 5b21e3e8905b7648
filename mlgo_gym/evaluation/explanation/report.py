"""An explanation as text for a terminal of 80 columns, and as an HTML page."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from textwrap import fill

from mlgo_gym.evaluation.explanation.explanation import Difference, Explanation, FeatureEffect
from mlgo_gym.evaluation.explanation.names import readable, short_context, shortened, signed
from mlgo_gym.extras import templates

_TEMPLATES = Path(__file__).with_name("templates")

WIDTH = 80
_MAX_FUNCTIONS, _MAX_PAGE_FUNCTIONS = 12, 30
_MAX_FEATURES = 6
_MAX_DECISIVE = 3


def as_text(explanation: Explanation) -> str:
    """Return an explanation in lines of at most 80 columns."""
    return "\n".join(_lines(explanation))


def _lines(explanation: Explanation) -> Iterator[str]:
    first, second = explanation.policies
    yield f"{explanation.module}, clang {explanation.clang}: {second} against {first}\n"
    width = max(len("plain clang"), len(first), len(second))
    yield f"  {'plain clang':<{width}} {explanation.baseline:>11,} bytes"
    for name, text in ((first, explanation.first.text), (second, explanation.second.text)):
        yield f"  {name:<{width}} {text:>11,} bytes {text / max(explanation.baseline, 1) - 1:+8.2%}"
    yield ""
    if not explanation.differences:
        yield _filled(f"Both policies give the same answers to all {len(explanation.second.decisions)} calls.")
        return
    yield _filled(overview(explanation))
    yield f"\nCalls with different answers, {second} against {first}"
    for number, measured in enumerate(explanation.measured, start=1):
        yield ""
        yield from _measured(number, measured, explanation.policies)
    if rest := explanation.unmeasured:
        total = sum(difference.credited for difference in rest)
        every = len(explanation.differences)
        yield ""
        yield _filled(f"{len(rest):,} more calls, with {total:+,.0f} bytes of credit in total: --show {every}")
    yield f"\n{'Functions that changed':<42}{shortened(first, 12):>12}{shortened(second, 12):>13}{'change':>11}"
    for function in explanation.functions[:_MAX_FUNCTIONS]:
        name = shortened(readable(function.symbol), 40)
        yield f"  {name:<40}{function.first:>12,}{function.second:>13,}{function.change:>+11,}"
    if others := explanation.functions[_MAX_FUNCTIONS:]:
        yield f"  {f'{len(others):,} more':<65}{sum(function.change for function in others):>+11,}"


def overview(explanation: Explanation) -> str:
    """Return a summary of the difference in a few sentences."""
    first, second = explanation.policies
    count, change = len(explanation.differences), explanation.change
    inlined = sum(difference.decision.answer for difference in explanation.differences)
    size = f"{abs(change):,} bytes {'larger' if change > 0 else 'smaller'}" if change else "of equal size"
    sentences = [
        f"{second} decides {len(explanation.second.decisions):,} calls, {first} {len(explanation.first.decisions):,}.",
        f"{count:,} answers differ: {second} inlines {inlined:,} of them and keeps {count - inlined:,}.",
        f"The code of {second} is {size}; {len(explanation.functions):,} functions changed.",
    ]
    if explanation.only_first:
        sentences.append(f"{first} also decides {explanation.only_first:,} other calls against clang's own choice.")
    return " ".join(sentences)


def _measured(number: int, difference: Difference, policies: tuple[str, str]) -> Iterator[str]:
    decision = difference.decision
    first, second = (shortened(name, 20) for name in policies)
    default = "inlines" if decision.default else "keeps"
    exact = " (exact)" if difference.exact else ""
    yield f"{number:>3}. {short_context(decision.context, 34)} calls {shortened(readable(decision.callee), 34)}"
    answers = f"{first} {answer_text(difference.first)}, {second} {answer_text(decision.answer)}"
    yield f"     {answers} (clang {default} it)"
    yield f"     credit {difference.credited:+,.0f}{exact}, measured {difference.measured or 0:+,} bytes"
    for name in difference.random_policies:
        yield f"     {name} is random: it answers this call in two ways"
    for feature in difference.features[:_MAX_FEATURES]:
        mark = "  !" if feature.decisive_for else ""
        value, median = number_text(feature.value), number_text(feature.median)
        yield f"     {feature.name:<37} {value:>9}  median {median:>8}{mark}"
    if decisive := [feature for feature in difference.features if feature.decisive_for]:
        yield _filled(f"! {decisive_text(decisive)}", 5)


def decisive_text(decisive: Sequence[FeatureEffect]) -> str:
    """Return a sentence about decisive features."""
    by_policies: dict[tuple[str, ...], list[FeatureEffect]] = {}
    for feature in decisive:
        by_policies.setdefault(feature.decisive_for, []).append(feature)
    sentences = []
    for names, features in by_policies.items():
        values = [f"{feature.name} were {number_text(feature.median)}" for feature in features]
        hidden = len(values) - _MAX_DECISIVE
        more = f", or any of {hidden} others its median" if hidden > 0 else ""
        sentences.append(
            f"{' and '.join(names)} would answer differently if {' or '.join(values[:_MAX_DECISIVE])}{more}"
        )
    return "; ".join(sentences)


def answer_text(answer: int | None) -> str:
    """Return an answer in words."""
    return "has no such call" if answer is None else "inlines" if answer else "keeps the call"


def number_text(value: float) -> str:
    """Return a number without needless digits."""
    return f"{value:,.0f}" if value == round(value) else f"{value:,.3g}"


def _filled(text: str, indent: int = 0) -> str:
    return fill(text, WIDTH, initial_indent=" " * indent, subsequent_indent=" " * indent)


def as_page(explanation: Explanation, command: str) -> str:
    """Return an explanation as HTML, with the command that reproduces it."""
    environment = templates(_TEMPLATES, "a page of HTML", "explain")
    environment.filters |= {
        "answer": answer_text,
        "decisive": lambda features: decisive_text([feature for feature in features if feature.decisive_for]),
        "kind": lambda change: "more" if change > 0 else "less" if change < 0 else "",
        "number": number_text,
        "readable": readable,
        "short_context": short_context,
        "shortened": shortened,
        "signed": signed,
    }
    text: str = environment.get_template("explanation.html").render(
        command=command,
        explanation=explanation,
        first=explanation.policies[0],
        second=explanation.policies[1],
        max_functions=_MAX_PAGE_FUNCTIONS,
        overview=overview(explanation),
    )
    return text
