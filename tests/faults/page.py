"""Write docs/faults.md from the catalogue that the tests hold: `python -m tests.faults.page`."""

from __future__ import annotations

from pathlib import Path

from tests.faults.catalogue import ENDS, FAULTS, TROUBLES, Fault

PAGE = Path(__file__).parents[2] / "docs" / "faults.md"

_BEGIN = """<!-- Written by `python -m tests.faults.page`; the tests in tests/faults hold every line of it. -->

# What happens when something fails

Nothing waits for ever, every failure is a typed error with the compiler's own words, the next `reset()` works, and
nothing is left behind: no process, no descriptor, no file. Each line below is a test, with a compiler that plays a
recorded session again with one fault in it, or with a machine that lacks something.

## The compiler fails

A compile that fails before its first decision makes `reset()` raise; one that fails later truncates the episode, and
`info["error"]` has the kind, the message, the exit status and the last 64 KB of what the compiler said
(`on_error="raise"` raises that too). Where modules are sampled, a module on which `reset()` would raise is passed over,
and reported in `info["skipped"]`.

- A *vector environment* shows the same for the one environment whose compiler failed, with `environment N: ` before the
  message and `N` as the error's `env_id`; the others go on.
- A *fork* sees what its original sees. One that is made by replaying, where processes cannot be copied, compiles anew;
  a fault before the first question is then raised by `fork()`, and the original goes on.
- *`mlgo-clang`* compiles with clang alone, warns in one line, `… is compiled by clang alone: REASON`, and exits with 0;
  with `--mlgo-strict` it leaves no object, says the same as an error, and exits with 1.

| fault | where | kind | message | `mlgo-clang`: reason |
|---|---|---|---|---|
"""

_WHERE = {"reset": "`reset()` raises", "step": "truncated", ENDS: "ends as usual"}

_END = """
A hyphen in the last column: the fault makes no sense there. `mlgo-clang` hands on the object as it is, and leaves alone
what clang leaves behind. A child of the compiler that makes itself a process group of its own is not found.

How long a compiler may be silent is the argument `timeout` of an environment (60 s), and `--mlgo-timeout` of
`mlgo-clang` (1800 s, since a build may keep all processors busy).

## The host, or its machine, fails

| what happens | what is seen |
|---|---|
"""


def render() -> str:
    """Return the page."""
    lines = [_line(fault) for fault in FAULTS]
    troubles = [f"| {each.title} | {_plain(each.seen)} |" for each in TROUBLES]
    return _BEGIN + "\n".join(lines) + "\n" + _END + "\n".join(troubles) + "\n"


def _line(fault: Fault) -> str:
    sight = fault.sight
    kind = f"`{sight.kind}`" if sight.kind else ("" if sight.where == ENDS else f"`{sight.error}`")
    said = f"{sight.message}; {sight.words}" if sight.words else sight.message
    driver = "-" if fault.driver is None else fault.driver or "ends as usual"
    return f"| {fault.title} | {_WHERE[sight.where]} | {kind} | {_plain(said)} | {_plain(driver)} |"


def _plain(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;")


if __name__ == "__main__":
    PAGE.write_text(render(), encoding="utf-8")
