"""Every fault of a compiler, and what its user sees: what the tests of this folder hold, and docs/faults.md shows."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

ENDS = "ends"
"""Where a compile ends as if nothing were wrong."""


@dataclass(frozen=True, slots=True)
class Sight:
    """What the user of an environment sees.

    Attributes:
        where: `reset` (it raises), `step` (the episode is truncated), or `ends` (it ends as usual).
        error: the class of the error; that in `info["error"]` is always a `CompilerError`.
        kind: the kind of a `CompilerError`.
        message: the message, as far as it is the same for everybody: `…` stands for what is not.
        words: what the compiler itself said, which the error hands on.
    """

    where: str
    error: str = "CompilerError"
    kind: str = ""
    message: str = ""
    words: str = ""


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault.

    Attributes:
        title: what happens.
        spec: what `compiler.py` is told.
        sight: what the user of an environment sees.
        driver: why `mlgo-clang` says that clang alone compiled, written as a message is; empty where it says nothing,
            None where the fault makes no sense there.
        before_fork: whether it happens before the first question, and so in a fork only where that replays.
        left: how many processes the compiler leaves behind.
    """

    title: str
    spec: str
    sight: Sight
    driver: str | None
    before_fork: bool = field(default=False)
    left: int = 0

    @property
    def name(self) -> str:
        """What it is called in the names of tests."""
        return self.spec


def matches(message: str, text: str) -> bool:
    """Return whether a text begins with a message of the catalogue."""
    return re.match(".*".join(map(re.escape, message.split("…"))), text, re.DOTALL) is not None


AT = {
    "start": "before it opens its channels",
    "header": "after its header",
    "question": "in the middle of a question",
    "answer": "after an answer",
    "end": "after the last answer",
}


def _where(point: str) -> str:
    return "reset" if point in ("start", "header") else "step"


def _dies(title: str, what: str, kind: str, message: str, words: str, driver: str, **more: int) -> list[Fault]:
    return [
        Fault(
            f"{title} {said}",
            f"{what}@{point}",
            Sight(_where(point), kind=kind, message=message, words=words.format(point=point)),
            driver,
            before_fork=point in ("start", "header"),
            **more,
        )
        for point, said in AT.items()
    ]


def _protocol(title: str, what: str, where: str, message: str, driver: str) -> Fault:
    full = f"clang broke the protocol of inlining: {message}"
    return Fault(title, what, Sight(where, kind="protocol", message=full), driver, before_fork=where == "reset")


def _object(title: str, what: str, message: str) -> Fault:
    full = f"clang ended well, and what it left cannot be measured: {message}"
    return Fault(title, f"object:{what}", Sight("step", kind="object", message=full), None)


FAULTS = [
    *_dies(
        "the compiler exits",
        "exit",
        "exit",
        "clang failed with exit status 1",
        "fatal error: lost at the {point}",
        "clang ended with status 1 while a policy answered it",
    ),
    *_dies(
        "the compiler crashes",
        "crash",
        "signal",
        "clang crashed with signal 11 (SIGSEGV)",
        "",
        "clang ended with status -11 while a policy answered it",
    ),
    *_dies(
        "the compiler stalls",
        "stall",
        "timeout",
        "clang was to ask or to finish within … s and did not; it was killed",
        "",
        "clang gave no sign of life for … s while a policy answered it",
    ),
    Fault(
        "the compiler writes 10 MB on standard error, and exits",
        "chatter@answer",
        Sight("step", kind="exit", message="clang failed with exit status 1", words="fatal error: lost at the answer"),
        "clang ended with status 1 while a policy answered it",
    ),
    Fault(
        "the compiler exits and leaves a child behind",
        "heir@answer",
        Sight("step", kind="exit", message="clang failed with exit status 1", words="fatal error: lost at the answer"),
        None,
        left=1,
    ),
    Fault(
        "the compiler leaves an object, and a child behind",
        "heir-of-success@end",
        Sight(ENDS),
        None,
        left=1,
    ),
    Fault(
        "the folder of its channels disappears",
        "no-folder@start",
        Sight("reset", kind="exit", message="clang failed with exit status 1", words="Cannot open inbound file"),
        "clang ended with status 1 while a policy answered it",
        before_fork=True,
    ),
    Fault(
        "the header is of another version",
        "other-version",
        Sight(
            "reset",
            "ToolchainError",
            message="the inlining advisor of clang was to ask with the header that it had when it was probed, … "
            "make the environment anew",
        ),
        "",
        before_fork=True,
    ),
    _protocol(
        "the header is malformed JSON",
        "not-json",
        "reset",
        "a JSON line was expected, found …",
        "a header of features and advice was wanted, found",
    ),
    _protocol(
        "the channel carries garbage",
        "garbage",
        "reset",
        "a JSON line was expected, found …",
        "a header of features and advice was wanted, found",
    ),
    _protocol(
        "a line of the channel never ends",
        "endless-line",
        "reset",
        "no end of line within 1048576 bytes where a JSON line was expected",
        "a header of features and advice was wanted, and no line ended within 1048576 bytes",
    ),
    _protocol(
        "the header announces questions of 32 GB",
        "huge-question",
        "reset",
        "a question of at most 16777216 bytes was wanted, the header says 32000000304",
        "a question of at most 16777216 bytes was wanted, the header says 32000000304",
    ),
    _protocol(
        "a question is shorter than the header says",
        "too-short",
        "step",
        "312 bytes of tensors were to end in a newline, found …",
        "a question of 312 bytes was to end in a newline, and does not",
    ),
    _protocol(
        "a question has another number",
        "no-number",
        "step",
        "observation 1 of context '' was expected, found 7",
        "",
    ),
    _protocol(
        "a question comes before any context",
        "no-context",
        "reset",
        "an observation came before any context",
        "",
    ),
    _protocol(
        "an outcome comes where a question belongs",
        "outcome",
        "step",
        "an outcome came, but the header has no score",
        "a question was wanted, found",
    ),
    Fault(
        "a context has no question",
        "no-question",
        Sight("reset", "NoDecisionError", message="module 'faulty' of corpus … has no inlining decision to learn from"),
        "",
        before_fork=True,
    ),
    Fault(
        "the compiler closes the log and goes on",
        "close-log",
        Sight("reset", kind="timeout", message="clang was to ask or to finish within … s and did not; it was killed"),
        "clang gave no sign of life for … s while a policy answered it",
        before_fork=True,
    ),
    Fault("the compiler closes the pipe of answers, and asks on", "close-advice", Sight(ENDS), ""),
    _protocol(
        "the compiler never reads an answer, and asks on",
        "deaf",
        "step",
        "it asks on and reads no answers, until their pipe was full; it was killed",
        "clang asks on, and does not read the answers",
    ),
    Fault(
        "there is no object",
        "object:missing",
        Sight(
            "step",
            kind="object",
            message="clang ended well, and what it left cannot be measured: an ELF object was expected, found 0 bytes",
        ),
        "clang ended well, and there is no object",
    ),
    _object("the object is empty", "empty", "an ELF object was expected, found 0 bytes"),
    _object("the object is cut off", "cut", "an ELF object of … bytes is cut off"),
    _object("the object is no ELF file", "text", "an ELF object was expected, found 230 bytes that begin with b'this'"),
    Fault("the object is of 32 bits", "object:i386", Sight(ENDS), None),
    Fault("the object is big-endian", "object:s390x", Sight(ENDS), None),
]


@dataclass(frozen=True, slots=True)
class Trouble:
    """What befalls a host, and not its compiler.

    Attributes:
        title: what happens.
        seen: what its user sees.
        tests: the tests that hold it, in `test_host_faults.py`.
    """

    title: str
    seen: str
    tests: tuple[str, ...]


LACKS = {
    "descriptors": "a compile needs about ten file descriptors, and this process has all the … that it may have: raise "
    "the limit first, …",
    "space": "a compile was to have its channels in … and its object in memory, and could not: …No space left on "
    "device",
}
"""What a machine can have no more of, and what is said then."""

FORKED = "the compile belongs to the process that began it, and this is a forked copy of that: reset() here"
"""What is said in a forked copy of a host."""

IGNORING = "how a compiler ends cannot be known while this process ignores SIGCHLD"
"""What is said in a host that ignores the end of its children."""

TROUBLES = [
    Trouble(
        "SIGKILL to the host, wherever its compile stands",
        "its compilers end with it; the scratch folder that it left goes when the next host begins",
        ("test_a_signal_ends_the_host_and_its_compilers",),
    ),
    Trouble(
        "SIGINT or SIGTERM to the host, wherever its compile stands",
        "it ends by that signal (Python by `KeyboardInterrupt`), and its compilers too; `mlgo-clang` leaves no object",
        ("test_a_signal_ends_the_host_and_its_compilers",),
    ),
    Trouble(
        "SIGINT in an interactive session",
        "`KeyboardInterrupt` from `reset()` or `step()`; the next `reset()` of the same environment works",
        (
            "test_an_interrupted_reset_or_step_leaves_an_environment_that_works",
            "test_an_interrupted_reset_or_step_leaves_a_vector_environment_that_works",
        ),
    ),
    Trouble(
        "the host forks in an episode",
        "the episode is the original's, and goes on; in the copy `reset()` works, and `step()` raises `MlgoError`: "
        + FORKED,
        (
            "test_a_host_that_forks_in_an_episode_keeps_it_and_the_copy_begins_another",
            "test_a_host_that_forks_in_an_episode_keeps_its_vector_environment",
        ),
    ),
    Trouble(
        "no file descriptors are left",
        f"`reset()` or `fork()` raises `MlgoError`: {LACKS['descriptors']}",
        ("test_what_lacks_is_said_and_the_next_reset_works", "test_what_lacks_is_said_by_a_vector_environment"),
    ),
    Trouble(
        "the file system of the scratch folder is full",
        f"`reset()` or `fork()` raises `CompilerError` (`start`): {LACKS['space']}",
        ("test_what_lacks_is_said_and_the_next_reset_works", "test_what_lacks_is_said_by_a_vector_environment"),
    ),
    Trouble(
        "the scratch folder disappears",
        "nothing: it is made again",
        ("test_a_scratch_folder_that_disappears_is_made_again",),
    ),
    Trouble(
        "the object is larger than a file may be (`ulimit -f`)",
        "the episode is truncated, `signal`: clang crashed with signal 25 (SIGXFSZ)",
        ("test_an_object_larger_than_a_file_may_be_is_the_compilers_failure",),
    ),
    Trouble(
        "the compiler gets too little memory to start (`ulimit -v`)",
        "`reset()` raises `CompilerError` (`signal`): clang crashed with signal 11 (SIGSEGV)",
        ("test_a_compiler_that_gets_too_little_memory_to_start_is_reported",),
    ),
    Trouble(
        "the host ignores SIGCHLD, or was started so",
        f"`reset()` raises `MlgoError`: {IGNORING}, …; the commands `mlgo-gym` and `mlgo-clang` heed it themselves",
        (
            "test_a_host_that_ignores_the_end_of_its_children_is_told",
            "test_the_commands_heed_the_end_of_their_children",
        ),
    ),
    Trouble("two hosts share one empty cache", "nothing: both get the same", ("test_two_hosts_share_a_cache",)),
    Trouble("the clock jumps by a year", "nothing", ("test_a_clock_that_jumps_changes_nothing",)),
]
