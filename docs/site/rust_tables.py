"""Tables of the page about Rust."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from docs.site.values import interval, percent, source


def programs() -> Iterator[list[str]]:
    """Yield the change of each program that a policy makes."""
    yield ["program", "policy", "file", "code", "instructions", "CPU time of the build", "output", "own tests"]
    for row in sorted(source("rust-programs"), key=lambda row: (row["program"], row["policy"])):
        plain, chosen = row["plain_build"], row["policy_build"]
        changes = [percent(chosen[key] / plain[key] - 1) for key in ("bytes", "text", "instructions")]
        same = "same" if row["same_output"] else "another"
        yield [
            f"`{row['program']}` {row['version']}",
            f"`{row['policy']}`",
            *changes,
            f"{chosen['seconds'] / plain['seconds']:.1f} times",
            same,
            f"{row['tests']['passed']} pass, {row['tests']['failed']} fail" if "tests" in row else "not run",
        ]


_TITLES = {"plain": "rustc's own, against z"}


def policies() -> Iterator[list[str]]:
    """Yield the policies at each level."""
    yield ["level, policy", "crates", "change", "95 % interval", "total", "smaller", "equal", "larger"]
    for level, found in source("rust-policies").items():
        for policy, each in found.items():
            title = _TITLES.get(policy) or (policy if " " in policy else f"`{policy}`")
            equal = each["modules"] - each["better"] - each["worse"]
            counts = [str(each["better"]), str(equal), str(each["worse"])]
            ends = interval(*each["interval"])
            name = f"{level[1]}, {title}"
            yield [name, str(each["modules"]), percent(each["mean"]), ends, percent(each["total"]), *counts]


def exactness() -> Iterator[list[str]]:
    """Yield how many crates of all families have the code of rustc at each level."""
    same = ["rustc, own choices: same bytes", "clang: same code", "clang, from text: same code"]
    yield ["level", "families", "crates", *same, "difference in total"]
    for level, families in source("rust-exactness").items():
        keys = ("crates", "own_choices", "clang", "clang_as_text", "text", "clang_text")
        *counts, text, clang_text = (sum(family[key] for family in families.values()) for key in keys)
        cells = [str(count) for count in (sum(len(names.split()) for names in families), *counts)]
        yield [f"-{level.capitalize()}", *cells, f"{clang_text - text:+,} of {text:,} bytes"]


TABLES: dict[str, Callable[[], Iterator[list[str]]]] = {
    "rust.programs": programs,
    "rust.policies": policies,
    "rust.exactness": exactness,
}
"""Tables of docs/how_to/rust.md."""
