"""Writes docs/explanation/faults.md from the catalogue: `python -m tests.faults.page`."""

from __future__ import annotations

from pathlib import Path

from tests.faults.catalogue import ENDS, FAULTS, HOST_FAULTS, Fault

PAGE = Path(__file__).parents[2] / "docs" / "explanation" / "faults.md"

_START = """<!-- Written by `python -m tests.faults.page`; the tests in tests/faults check every line of it. -->

# Faults and security

For people who run long trainings, or corpora and models of others: the effect of each fault, and the protection.

Every wait has a deadline, and every failure is a typed error with the compiler's standard error. The next `reset()`
works, and no process, descriptor or file is left. A test checks each line of both tables. It uses a fake compiler that
replays a recorded session with one fault, or a machine that lacks a resource.

## Untrusted input

[SECURITY.md](../../SECURITY.md) lists trusted and untrusted input. In short: the flags of a corpus must be on a list,
compilers cannot write outside their scratch folder where the kernel has Landlock, and foreign models run in a process
of their own. `mlgo-gym doctor` prints whether this machine has Landlock.

## Crashes of the compiler

A crash leaves a folder with the module, the flags and the decisions; `info["error"]["reproducer"]` is its path. It lies
below `$MLGO_REPRODUCERS` or in the cache.

    mlgo-gym reproduce FOLDER            # compile again; exit status 1: the crash did not recur
    mlgo-gym reproduce FOLDER --reduce   # reduce the module, where llvm-reduce is installed

The folder also contains `reproduce.sh`, which needs clang only, for a report to LLVM.

## Faults of the compiler

A compile that fails before its first decision makes `reset()` raise. A later failure truncates the episode with
the lowest reward of all, and `info["error"]` has the kind, the message, the exit status and the last 64 KB of standard
error. With `error_reward=None` it raises too. Where modules are sampled, a module on which `reset()` would raise is skipped and
reported in `info["skipped"]`.

- In a *vector environment* the outcome is the same for the environment whose compiler failed. The message starts with
  `environment N: `, and `N` is the error's `env_id`. The others continue.
- A *fork* has the outcome of its original. Where processes cannot be copied, a fork replays the compile. Then `fork()`
  raises a fault before the first decision, and the original continues.
- *`mlgo-clang`* compiles with clang alone, prints one warning, `… is compiled by clang alone: REASON`, and exits
  with 0. With `--mlgo-strict` it prints the same as an error, writes no object, and exits with 1.

| fault | where | kind | message | `mlgo-clang`: reason |
|---|---|---|---|---|
"""

_WHERE = {"reset": "`reset()` raises", "step": "truncated", ENDS: "ends as usual"}

_END = """
A hyphen in the last column: the fault cannot occur. `mlgo-clang` does not check the object, and leaves processes
running that clang leaves running. A child of the compiler in its own process group is not killed.

The maximum silence of a compiler is `timeout` in `compile_options` (default: 60 s), and `--mlgo-timeout` of
`mlgo-clang` (default: 1800 s, since a build may use all CPUs).

## Faults of the host or its machine

| fault | effect |
|---|---|
"""


def render() -> str:
    """Return the page."""
    lines = [_line(fault) for fault in FAULTS]
    host_faults = [f"| {each.title} | {_plain(each.effect)} |" for each in HOST_FAULTS]
    return _START + "\n".join(lines) + "\n" + _END + "\n".join(host_faults) + "\n"


def _line(fault: Fault) -> str:
    outcome = fault.outcome
    kind = f"`{outcome.kind}`" if outcome.kind else ("" if outcome.where == ENDS else f"`{outcome.error}`")
    stderr = f"{outcome.message}; {outcome.stderr}" if outcome.stderr else outcome.message
    driver = "-" if fault.driver is None else fault.driver or "ends as usual"
    return f"| {fault.title} | {_WHERE[outcome.where]} | {kind} | {_plain(stderr)} | {_plain(driver)} |"


def _plain(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;")


if __name__ == "__main__":
    PAGE.write_text(render(), encoding="utf-8")
