"""All faults with their outcomes: the tests of this folder check them, and docs/explanation/faults.md lists them."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

ENDS = "ends"
"""The episode ends as without a fault."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """Outcome of a fault in an environment.

    Attributes:
        where: `reset` (it raises), `step` (the episode is truncated), or `ends` (it ends as usual).
        error: Class of the error; in `info["error"]` always `CompilerError`.
        kind: Kind of a `CompilerError`.
        message: Start of the message; `…` stands for text that varies.
        stderr: Part of the compiler's standard error.
    """

    where: str
    error: str = "CompilerError"
    kind: str = ""
    message: str = ""
    stderr: str = ""


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault.

    Attributes:
        title: Description of the fault.
        spec: Behaviour of `mlgo_gym.testing.fake_clang`.
        outcome: Outcome in an environment.
        driver: Reason in the warning of `mlgo-clang`; empty for no warning, None where the fault cannot occur.
        before_fork: Whether it happens before the first decision, and so in a fork only by replay.
    """

    title: str
    spec: str
    outcome: Outcome
    driver: str | None
    before_fork: bool = field(default=False)


def matches(message: str, text: str) -> bool:
    """Return whether a text starts with a message of the catalogue."""
    return re.match(".*".join(map(re.escape, message.split("…"))), text, re.DOTALL) is not None


AT = {
    "start": "before it opens its channels",
    "header": "after its header",
    "question": "in the middle of an observation",
    "answer": "after reading advice",
    "end": "after the last decision",
}


def _where(point: str) -> str:
    return "reset" if point in ("start", "header") else "step"


def _dies(title: str, what: str, kind: str, message: str, words: str, driver: str) -> list[Fault]:
    return [
        Fault(
            f"{title} {stderr}",
            f"{what}@{point}",
            Outcome(_where(point), kind=kind, message=message, stderr=words.format(point=point)),
            driver,
            before_fork=point in ("start", "header"),
        )
        for point, stderr in AT.items()
    ]


def _protocol(title: str, what: str, where: str, message: str, driver: str) -> Fault:
    full = f"clang violated the protocol of the inlining advisor: {message}"
    return Fault(title, what, Outcome(where, kind="protocol", message=full), driver, before_fork=where == "reset")


def _object(title: str, what: str, message: str) -> Fault:
    full = f"clang succeeded, but its object cannot be measured: {message}"
    return Fault(title, f"object:{what}", Outcome("step", kind="object", message=full), None)


FAULTS = [
    *_dies(
        "the compiler exits",
        "exit",
        "exit",
        "clang failed with exit status 1",
        "fatal error: lost at the {point}",
        "clang exited with status 1 while a policy decided",
    ),
    *_dies(
        "the compiler crashes",
        "crash",
        "signal",
        "clang crashed with signal 11 (SIGSEGV)",
        "",
        "clang exited with status -11 while a policy decided",
    ),
    *_dies(
        "the compiler stalls",
        "stall",
        "timeout",
        "expected a decision or the end of clang within … s, got neither; clang was killed",
        "",
        "clang gave no sign of life for … s while a policy decided; raise --mlgo-timeout",
    ),
    Fault(
        "the compiler writes 10 MB on standard error, and exits",
        "chatter@answer",
        Outcome(
            "step", kind="exit", message="clang failed with exit status 1", stderr="fatal error: lost at the answer"
        ),
        "clang exited with status 1 while a policy decided",
    ),
    Fault(
        "the compiler exits and leaves a child running",
        "heir@answer",
        Outcome(
            "step", kind="exit", message="clang failed with exit status 1", stderr="fatal error: lost at the answer"
        ),
        None,
    ),
    Fault(
        "the compiler writes an object and leaves a child running",
        "heir-of-success@end",
        Outcome(ENDS),
        None,
    ),
    Fault(
        "the folder of its channels disappears",
        "no-folder@start",
        Outcome("reset", kind="exit", message="clang failed with exit status 1", stderr="Cannot open inbound file"),
        "clang exited with status 1 while a policy decided",
        before_fork=True,
    ),
    Fault(
        "the header is of another version",
        "other-version",
        Outcome(
            "reset",
            "ToolchainError",
            message="expected the header … of the inlining advisor, got …; make the environment with the flags",
        ),
        "",
        before_fork=True,
    ),
    _protocol(
        "the header is malformed JSON",
        "not-json",
        "reset",
        "expected a JSON line, got …",
        "expected a header of features and advice, got",
    ),
    _protocol(
        "the channel carries garbage",
        "garbage",
        "reset",
        "expected a JSON line, got …",
        "expected a header of features and advice, got",
    ),
    _protocol(
        "a line of the channel never ends",
        "endless-line",
        "reset",
        "expected a JSON line of at most 1048576 bytes, got a longer one",
        "expected a header of at most 1048576 bytes, got a longer line",
    ),
    _protocol(
        "the header declares observations of 32 GB",
        "huge-question",
        "reset",
        "expected observations of at most 16777216 bytes, got a header for 32000000304",
        "expected observations of at most 16777216 bytes, got a header for 32000000304",
    ),
    _protocol(
        "an observation is shorter than the header declares",
        "too-short",
        "step",
        "expected 312 bytes of tensors and a newline, got …",
        "expected an observation of 312 bytes and a newline, got",
    ),
    _protocol(
        "an observation has a wrong number",
        "no-number",
        "step",
        "expected observation 1 of context '', got 7",
        "",
    ),
    _protocol(
        "an observation precedes any context",
        "no-context",
        "reset",
        "expected a context, got an observation",
        "",
    ),
    _protocol(
        "an outcome replaces an observation",
        "outcome",
        "step",
        "expected no outcome, because the header has no score, got one",
        "expected an observation of 312 bytes and a newline, got",
    ),
    Fault(
        "a context has no decision",
        "no-question",
        Outcome(
            "reset",
            "NoDecisionError",
            message="expected a decision on inlining in module 'faulty' of corpus …, got none",
        ),
        "",
        before_fork=True,
    ),
    Fault(
        "the compiler closes the log and continues",
        "close-log",
        Outcome(
            "reset",
            kind="timeout",
            message="expected a decision or the end of clang within … s, got neither; clang was killed",
        ),
        "clang gave no sign of life for … s while a policy decided; raise --mlgo-timeout",
        before_fork=True,
    ),
    Fault("the compiler closes the advice pipe and continues", "close-advice", Outcome(ENDS), ""),
    _protocol(
        "the compiler never reads advice and continues",
        "deaf",
        "step",
        "it requests decisions and reads no answers; it was killed",
        "clang requests decisions without reading the advice",
    ),
    Fault(
        "there is no object",
        "object:missing",
        Outcome(
            "step",
            kind="object",
            message="clang succeeded, but its object cannot be measured: expected an ELF object, got 0 bytes",
        ),
        "clang succeeded without writing an object",
    ),
    _object("the object is empty", "empty", "expected an ELF object, got 0 bytes"),
    _object("the object is truncated", "cut", "an ELF object of … bytes is cut off"),
    _object("the object is not an ELF file", "text", "expected an ELF object, got 230 bytes that begin with b'this'"),
    Fault("the object is of 32 bits", "object:i386", Outcome(ENDS), None),
    Fault("the object is big-endian", "object:s390x", Outcome(ENDS), None),
]


@dataclass(frozen=True, slots=True)
class HostFault:
    """A fault of a host or its machine.

    Attributes:
        title: Description of the fault.
        effect: Its visible effect.
    """

    title: str
    effect: str


SHORTAGES = {
    "descriptors": "expected about ten free file descriptors, got none of the … that this process may have; raise the "
    "limit",
    "space": "cannot make the channels of a compile in … or its object in memory: …No space left on device",
}
"""Resources that a machine may lack, and the error messages."""

FORKED = "expected the process that started the compile, got a fork of it; call reset() here"
"""Error in a fork of a host."""

IGNORING = "expected the default handling of SIGCHLD, got a process that ignores it"
"""Error in a host that ignores SIGCHLD."""

HOST_FAULTS = [
    HostFault(
        "SIGKILL to the host, at any point of its compile",
        "its compilers are killed; the next host removes its scratch folder",
    ),
    HostFault(
        "SIGINT or SIGTERM to the host, at any point of its compile",
        "it and its compilers exit by that signal (Python by `KeyboardInterrupt`); `mlgo-clang` leaves no object",
    ),
    HostFault(
        "SIGINT in an interactive session",
        "`KeyboardInterrupt` from `reset()` or `step()`; the next `reset()` of the same environment works",
    ),
    HostFault(
        "the host forks in an episode",
        "the original continues its episode; in the fork `reset()` works, and `step()` raises `MlgoError`: " + FORKED,
    ),
    HostFault(
        "no file descriptors are left",
        f"`reset()` or `fork()` raises `MlgoError`: {SHORTAGES['descriptors']}",
    ),
    HostFault(
        "the file system of the scratch folder is full",
        f"`reset()` or `fork()` raises `CompilerError` (`start`): {SHORTAGES['space']}",
    ),
    HostFault("the scratch folder disappears", "none: a new one is made"),
    HostFault(
        "the object exceeds the file size limit (`ulimit -f`)",
        "the episode is truncated, `signal`: clang crashed with signal 25 (SIGXFSZ)",
    ),
    HostFault(
        "the compiler has too little memory to start (`ulimit -v`)",
        "`reset()` raises `CompilerError` (`signal`): clang crashed with signal 11 (SIGSEGV)",
    ),
    HostFault(
        "the host ignores SIGCHLD, perhaps by inheritance",
        f"`reset()` raises `MlgoError`: {IGNORING}, …; the commands `mlgo-gym` and `mlgo-clang` restore the default",
    ),
    HostFault("two hosts share an empty cache", "none: both get the same results"),
    HostFault("the clock jumps by a year", "none"),
]
