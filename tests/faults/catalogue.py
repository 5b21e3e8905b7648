"""All faults with their outcomes, which the tests of this folder check; docs/explanation/faults.md has their kinds."""

import re
from dataclasses import dataclass

ENDS = "ends"
"""The episode ends as without a fault."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """Outcome of a fault in an environment; `…` in the message stands for text that varies."""

    where: str  # `reset` (it raises), `step` (the episode ends), or `ends` (it ends as usual)
    error: str = "CompilerError"
    kind: str = ""
    message: str = ""
    stderr: str = ""


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault: its description, and the behaviour of `tests.fakes.fake_clang`."""

    title: str
    spec: str
    outcome: Outcome
    driver: str | None  # reason in the warning of `mlgo-clang`; empty for no warning, None where it cannot occur
    before_fork: bool = False  # whether it happens before the first decision, and so in a fork only by replay


def matches(message: str, text: str) -> bool:
    """Return whether a text starts with a message of the catalogue."""
    return re.match(".*".join(map(re.escape, message.split("…"))), text, re.DOTALL) is not None


POINTS = {
    "start": ("reset", "before it opens its channels"),
    "header": ("reset", "after its header"),
    "question": ("step", "in the middle of an observation"),
    "answer": ("step", "after reading advice"),
    "end": ("step", "after the last decision"),
}

STATUS = "clang exited with status {} while a policy decided"
SILENT = "clang gave no sign of life for … s while a policy decided; raise --mlgo-timeout"
TIMEOUT = "expected a decision or the end of clang within … s, got neither; clang was killed"
FAILED = "clang failed with exit status 1"
NOT_HEADER = "expected a header of features and advice, got …"


def _dies(title: str, what: str, kind: str, message: str, words: str, driver: str) -> list[Fault]:
    return [
        Fault(
            f"{title} {when}",
            f"{what}@{point}",
            Outcome(where, kind=kind, message=message, stderr=words.format(point=point)),
            driver,
            before_fork=where == "reset",
        )
        for point, (where, when) in POINTS.items()
    ]


def _reset(title: str, what: str, error: str, message: str, driver: str, kind: str = "", stderr: str = "") -> Fault:
    return Fault(title, what, Outcome("reset", error, kind, message, stderr), driver, before_fork=True)


def _protocol(where: str, title: str, what: str, message: str, driver: str = "") -> Fault:
    outcome = Outcome(where, kind="protocol", message=f"clang violated the protocol of the inlining advisor: {message}")
    return Fault(title, what, outcome, driver or message, before_fork=where == "reset")


def _object(title: str, what: str, message: str, driver: str | None = None) -> Fault:
    message = f"clang succeeded, but its object cannot be measured: {message}"
    return Fault(title, f"object:{what}", Outcome("step", kind="object", message=message), driver)


def _loses(title: str, what: str, driver: str | None) -> Fault:
    outcome = Outcome("step", kind="exit", message=FAILED, stderr="fatal error: lost at the answer")
    return Fault(f"the compiler {title}", f"{what}@answer", outcome, driver)


FAULTS = [
    *_dies("the compiler exits", "exit", "exit", FAILED, "fatal error: lost at the {point}", STATUS.format(1)),
    *_dies("the compiler crashes", "crash", "signal", "clang crashed with signal 11 (SIGSEGV)", "", STATUS.format(-11)),
    *_dies("the compiler stalls", "stall", "timeout", TIMEOUT, "", SILENT),
    _loses("writes 10 MB on standard error, and exits", "chatter", STATUS.format(1)),
    _loses("exits and leaves a child running", "heir", None),
    Fault("the compiler writes an object and leaves a child running", "heir-of-success@end", Outcome(ENDS), None),
    _reset("the folder of its channels disappears", "no-folder@start", "CompilerError", FAILED, STATUS.format(1),
           "exit", "Cannot open inbound file"),
    _reset("the header is of another version", "other-version", "ToolchainError",
           "expected the header … of the inlining advisor, got …; make the environment with the flags", ""),
    _protocol("reset", "the header is malformed JSON", "not-json", NOT_HEADER),
    _protocol("reset", "the channel carries garbage", "garbage", NOT_HEADER),
    _protocol("reset", "a line of the channel never ends", "endless-line",
              "expected a line of at most 1048576 bytes, got a longer one"),
    _protocol("reset", "the header declares observations of 32 GB", "huge-question",
              "expected observations of at most 16777216 bytes, got a header for 32000000304"),
    _protocol("step", "an observation is shorter than the header declares", "too-short",
              "expected 312 bytes of tensors and a newline, got …"),
    _protocol("step", "an observation has a wrong number", "no-number",
              "expected observation 1 of context '', got 7"),
    _protocol("reset", "an observation precedes any context", "no-context",
              "expected a context, got an observation"),
    _protocol("step", "an outcome replaces an observation", "outcome",
              "expected a context with a name or an observation with a number, got …"),
    _reset("a context has no decision", "no-question", "NoDecisionError",
           "expected a decision on inlining in module 'faulty' of corpus …, got none", ""),
    _reset("the compiler closes the log and continues", "close-log", "CompilerError", TIMEOUT, SILENT, "timeout"),
    Fault("the compiler closes the advice pipe and continues", "close-advice", Outcome(ENDS), ""),
    _protocol("step", "the compiler never reads advice and continues", "deaf",
              "it requests decisions and reads no answers; it was killed",
              "clang requests decisions without reading the advice"),
    _object("there is no object", "missing", "expected an ELF object, got 0 bytes",
            "clang succeeded without writing an object"),
    _object("the object is empty", "empty", "expected an ELF object, got 0 bytes"),
    _object("the object is truncated", "cut", "an ELF object of … bytes is cut off"),
    _object("the object is not an ELF file", "text", "expected an ELF object, got 230 bytes that begin with b'this'"),
    Fault("the object is of 32 bits", "object:i386", Outcome(ENDS), None),
    Fault("the object is big-endian", "object:s390x", Outcome(ENDS), None),
]  # fmt: skip


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
