"""An explanation as text, for a terminal of 80 columns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from textwrap import wrap

from mlgo_gym.explanation.call_sites import Difference
from mlgo_gym.explanation.explanation import Explanation, Shown
from mlgo_gym.explanation.leading_features import LeadingFeature
from mlgo_gym.explanation.names import readable, short_component, shortened

WIDTH = 80
_FUNCTIONS = 12
_MOST_FEATURES = 6
_MOST_DECIDING = 3


def as_text(explanation: Explanation) -> str:
    """Return an explanation in lines of at most 80 columns."""
    return "\n".join(_lines(explanation))


def _lines(explanation: Explanation) -> Iterator[str]:
    first, second = explanation.policies
    yield f"{explanation.module}, clang {explanation.clang}: {second} against {first}"
    yield ""
    width = max(len("clang alone"), len(first), len(second))
    rows = (("clang alone", explanation.baseline), (first, explanation.first.text), (second, explanation.second.text))
    for name, text in rows:
        change = text / max(explanation.baseline, 1) - 1
        yield f"  {name:<{width}} {text:>11,} bytes" + (f" {change:+8.2%}" if name != "clang alone" else "")
    yield ""
    if not explanation.differences:
        yield from _filled(f"The two decide alike about all {len(explanation.second.decisions)} calls.")
        return
    yield from _filled(overview(explanation))
    yield ""
    yield f"Calls decided differently, {second} against {first}; bytes by credit, and measured"
    for number, shown in enumerate(explanation.shown, start=1):
        yield ""
        yield from _shown(number, shown, explanation.policies)
    rest = explanation.differences[len(explanation.shown) :]
    if rest:
        total = sum(each.credited for each in rest)
        yield ""
        every = len(explanation.differences)
        yield from _filled(f"{len(rest):,} more, credited {total:+,.0f} bytes together: --show {every}")
    yield ""
    yield f"{'Functions that changed':<42}{shortened(first, 12):>12}{shortened(second, 12):>13}{'change':>11}"
    for function in explanation.functions[:_FUNCTIONS]:
        name = shortened(readable(function.symbol), 40)
        yield f"  {name:<40}{function.first:>12,}{function.second:>13,}{function.change:>+11,}"
    others = explanation.functions[_FUNCTIONS:]
    if others:
        change = sum(each.change for each in others)
        yield f"  {f'and {len(others):,} more':<65}{change:>+11,}"


def overview(explanation: Explanation) -> str:
    """Return in a few sentences how the two differ."""
    first, second = explanation.policies
    found, change = explanation.differences, explanation.change
    more = sum(each.decision.answer for each in found)
    size = f"{abs(change):,} bytes {'larger' if change > 0 else 'smaller'}" if change else "of the same size"
    asked = len(explanation.first.decisions), len(explanation.second.decisions)
    sentences = [
        f"{second} was asked about {asked[1]:,} calls and {first} about {asked[0]:,}.",
        f"They decide {len(found):,} differently: {second} inlines {more:,} of these and keeps {len(found) - more:,}.",
        f"What it makes is {size}, in {len(explanation.functions):,} functions that changed.",
    ]
    if explanation.only_first:
        sentences.append(
            f"{first} was also asked about {explanation.only_first:,} calls that {second} never saw, and did not do "
            "there as clang would."
        )
    near = explanation.agreement
    if near.measured:
        sentences.append(
            f"Of {near.measured} that were measured exactly, credit is equal in {near.equal} and has the right sign "
            f"in {near.same_sign} of the {near.moved} that moved anything."
        )
    return " ".join(sentences)


def _shown(number: int, shown: Shown, policies: tuple[str, str]) -> Iterator[str]:
    each = shown.difference
    decision = each.decision
    caller, callee = short_component(decision.component, 34), shortened(readable(decision.callee), 34)
    yield f"{number:>3}. {caller} calls {callee}"
    yield f"     {_answers(each, policies)}"
    measured = "not measured" if each.measured is None else f"measured {each.measured:+,}"
    yield f"     credit {each.credited:+,.0f}{' (alone)' if each.alone else ''}, {measured}"
    for name in shown.unsteady:
        yield f"     {name} answers this question now so, now otherwise"
    for feature in shown.features[:_MOST_FEATURES]:
        yield f"     {feature.name:<37} {number_text(feature.value):>9}  median {number_text(feature.median):>8}" + (
            "  !" if feature.decides else ""
        )
    deciding = [feature for feature in shown.features if feature.decides]
    if deciding:
        yield from _filled(f"! {decides_text(deciding)}", 5)


def decides_text(deciding: Sequence[LeadingFeature]) -> str:
    """Return in a sentence what single features decided, those that count most first."""
    by: dict[tuple[str, ...], list[LeadingFeature]] = {}
    for feature in deciding:
        by.setdefault(feature.decides, []).append(feature)
    sentences = []
    for names, features in by.items():
        features.sort(key=lambda feature: -max(map(abs, feature.pushes.values()), default=0.0))
        values = [f"{feature.name} were {number_text(feature.median)}" for feature in features]
        more = f", or any of {len(values) - _MOST_DECIDING} others its median" if len(values) > _MOST_DECIDING else ""
        sentences.append(
            f"{' and '.join(names)} would decide otherwise if {' or '.join(values[:_MOST_DECIDING])}{more}"
        )
    return "; ".join(sentences)


def signed(value: float) -> str:
    """Return a whole number with its sign, a real minus."""
    return f"{value:+,.0f}".replace("-", "\N{MINUS SIGN}")


def answer_text(answer: int | None) -> str:
    """Return an answer in a word."""
    return "was not asked" if answer is None else "inlines" if answer else "keeps the call"


def _answers(each: Difference, policies: tuple[str, str]) -> str:
    own = "inline" if each.decision.default else "keep"
    first, second = (shortened(name, 20) for name in policies)
    return f"{first} {answer_text(each.first)}, {second} {answer_text(each.decision.answer)} (clang would {own})"


def number_text(value: float) -> str:
    """Return a number without what it does not need."""
    return f"{value:,.0f}" if value == round(value) else f"{value:,.3g}"


def _filled(text: str, indent: int = 0) -> list[str]:
    return wrap(text, WIDTH, initial_indent=" " * indent, subsequent_indent=" " * indent)
