"""Tables of the page about Rust."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from docs.site.values import interval, percent, source


def programs() -> Iterator[list[str]]:
    """Yield the change of each program that a policy makes."""
    yield ["program", "policy", "file", "code", "instructions", "CPU time of the build", "output", "own tests"]
    for row in source("rust-programs"):
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
            if policy != "families":
                title = _TITLES.get(policy) or (policy if " " in policy else f"`{policy}`")
                name = f"{level[1]}, {title}"
                counts = [str(each[key]) for key in ("better", "equal", "worse")]
                ends = interval(each["low"], each["high"])
                yield [name, str(each["modules"]), percent(each["mean"]), ends, percent(each["total"]), *counts]


def exactness() -> Iterator[list[str]]:
    """Yield how many crates have the code of rustc at each level."""
    yield ["level", "crates", "rustc, own choices: same bytes", "clang: same code", "difference in total"]
    for level, each in source("rust-exactness").items():
        counts = [f"{each[key]}" for key in ("crates", "own_choices", "clang")]
        yield [f"-{level.capitalize()}", *counts, f"{each['clang_text'] - each['text']:+,} of {each['text']:,} bytes"]


TABLES: dict[str, Callable[[], Iterator[list[str]]]] = {
    "rust.programs": programs,
    "rust.policies": policies,
    "rust.exactness": exactness,
}
"""Tables of docs/how_to/rust.md."""
