"""Tables of the pages in docs/explanation, and of the negative results."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod
from typing import Any

from benchmarks import exactness
from docs.site import values
from mlgo_gym.evaluation.compiled_objects import PLAIN


def own_choices() -> Iterator[list[str]]:
    """Yield the rows of plain compiles against replays of clang's own choices."""
    data = values.source("exactness")
    yield from exactness.own_choices(data["own"], data["choices"])


def ways_to_answer() -> Iterator[list[str]]:
    """Yield the rows of the ways to send the same decisions."""
    yield from exactness.ways_to_answer(values.source("exactness")["ways"])


def policies() -> Iterator[list[str]]:
    """Yield the rows of the ways to use a policy."""
    yield from exactness.policies(values.source("exactness")["policies"])


def credit_prices() -> Iterator[list[str]]:
    """Yield the rows of the CPU time of compiles whose sites are followed."""
    modules = values.source("contexts")["modules"]
    yield ["relative CPU time of a compile that follows", "geometric mean", "all modules together"]
    for name, title in (("components", "sites"), ("components and callees", "sites and callees, as for credit")):
        mean = prod(module["ratios"][name] for module in modules) ** (1 / len(modules))
        sums = [sum(min(module["seconds"][each]) for module in modules) for each in (name, "without")]
        yield [title, f"{mean:.2f}", f"{sums[0] / sums[1]:.2f}"]


def credit_agreement() -> Iterator[list[str]]:
    """Yield the rows of credit against counterfactuals."""
    yield ["flipped decisions", "decisions tried", "equal to the byte", "same sign"]
    for name in ("few", "many"):
        tried = [
            pair
            for module in values.source("credit-agreement")["modules"]
            for pair in module["estimate_measured_reduction"][f"undone of {name}"]
        ]
        equal = sum(abs(estimate - measured) < 0.5 for estimate, measured, _ in tried)
        same = sum(_sign(estimate) == _sign(measured) for estimate, measured, _ in tried)
        yield [name, *(str(count) for count in (len(tried), equal, same))]


def policy_intervals() -> Iterator[list[str]]:
    """Yield the rows of both intervals of each bundled policy whose card has them."""
    yield ["policy", "geometric mean on the test split", "over modules", "over projects"]
    for name, card in values.cards().items():
        if "interval_by_project" in card:
            ends = (card["interval"], card["interval_by_project"])
            yield [f"`{name}`", values.percent(card["geometric_mean"]), *(values.interval(*each) for each in ends)]


def linked_agreement() -> Iterator[list[str]]:
    """Yield the rows of predictions of the linked size against links."""
    agreement = values.value("linked-size.oz.agreement")
    groups = ("all", "all policies"), ("bundled", "bundled policies")
    columns = ("rank", "rank correlation"), ("ratio", "median ratio"), ("within", "within a factor of 2")
    yield ["prediction", *(f"{column}, {group}" for _, group in groups for _, column in columns)]
    titles = {
        "objects": "sum of the objects",
        "estimate without links": "`estimated-linked`, without link steps",
        "estimate": "`estimated-linked`",
    }
    for kind, title in titles.items():
        found = [agreement[group][kind] for group, _ in groups]
        cells = ((f"{each['rank']:.2f}", f"{each['ratio']:.2f}", f"{100 * each['within']:.0f} %") for each in found)
        yield [title, *(cell for row in cells for cell in row)]


def estimates() -> Iterator[list[str]]:
    """Yield the rows of the agreement of each estimate with its exact counterpart."""
    yield [
        "estimate",
        "decisions",
        "level",
        "compiles",
        "same sign",
        "of a constant",
        "rank correlation",
        "in a program",
    ]
    for setting, policies in values.read(values.RESULTS / "estimate.json")["summary"].items():
        estimate, environment, level = setting.split(", ")
        row = policies["all"]
        shares = [f"{100 * row[key]:.0f} %" for key in ("same_sign", "constant")]
        ranks = [f"{row[key]:.2f}" if key in row else "-" for key in ("rank", "rank_within")]
        name = environment.removesuffix("-v0")
        yield [f"`{estimate}`", f"`{name}`", f"`{level}`", f"{row['compiles']:,}", *shares, *ranks]


def linked_builds() -> Iterator[list[str]]:
    """Yield the rows of policies on whole builds, without the build in which the C++ library itself shrinks."""
    yield ["policy", "level", "builds", "object bytes", "linked bytes", "share that is left", "builds made larger"]
    chosen = ("Oz", ("inline-oz", "inline-oz-fast")), ("Os", ("inline-os", "inline-os-fast", "threshold:5"))
    for level, policies in chosen:
        builds = values.value(f"linked-size.{level.lower()}")["builds"]
        rows = [build for name, build in builds.items() if name != _SHRINKS_LIBRARY]
        for policy in policies:
            objects = sum(build[policy]["objects"] - build[PLAIN]["objects"] for build in rows)
            linked = [sum(build[policy]["linked"].values()) - sum(build[PLAIN]["linked"].values()) for build in rows]
            cells = (f"{objects:,}", f"{sum(linked):,}", f"{100 * sum(linked) / objects:.0f} %")
            larger = sum(change > 0 for change in linked)
            yield [
                f"`{policy}`",
                f"-{level}",
                str(len(rows)),
                *(each.replace("-", "\N{MINUS SIGN}") for each in cells),
                str(larger),
            ]


def linked_searches() -> Iterator[list[str]]:
    """Yield the rows of searches by object bytes and by the linked price."""
    yield [
        "build",
        "objects, by `text`",
        "linked, by `text`",
        "objects, by `estimated-linked`",
        "linked, by `estimated-linked`",
    ]
    builds = values.source("linked-search")["builds"]
    sums: dict[tuple[str, str], int] = {}
    for name, sizes in builds.items():
        cells = []
        for metric in ("text", "estimated-linked"):
            for key in ("objects", "linked"):
                change = sizes[metric][key] - sizes[PLAIN][key]
                sums[metric, key] = sums.get((metric, key), 0) + change
                cells.append(change)
        yield [name, *map(_bytes, cells)]
    yield ["all", *map(_bytes, sums.values())]


def _bytes(change: int) -> str:
    return f"{change:+,}".replace("-", "\N{MINUS SIGN}")


def link_modes() -> Iterator[list[str]]:
    """Yield the rows of linked sizes by mode of the link, with the places of the policy in a cell."""
    builds = ("muparser", "uchardet", "pcre2")
    yield ["link", *builds]
    titles = {"gc": "`--gc-sections`", "icf": "`--icf=all`", "thin": "ThinLTO", "full": "full LTO"}
    for mode, title in titles.items():
        rows = [[row for row in _modes(build) if row["mode"] == mode] for build in builds]
        yield [title, *(" / ".join(values.percent(row["change"]) for row in each) for each in rows)]


def _modes(build: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = values.source("link-modes")[build]
    return [row for row in found if row["policy"] == "inline-oz"]


_SHRINKS_LIBRARY = "graphite2"


def _sign(number: float) -> int:
    return (number > 0) - (number < 0)


TABLES = {
    "exactness.own_choices": own_choices,
    "exactness.ways": ways_to_answer,
    "exactness.policies": policies,
    "credit.prices": credit_prices,
    "credit.agreement": credit_agreement,
    "statistics.intervals": policy_intervals,
    "statistics.linked": linked_agreement,
    "run_time.estimates": estimates,
    "ship.link_modes": link_modes,
    "bundled.linked": linked_builds,
    "searches.linked": linked_searches,
}
