"""What is kept of a compile that crashed, or whose object does something else: all that it takes to see it again.

A reproducer is a folder with the bitcode, `module.bc`, and `reproducer.json`: flags, decisions, what went wrong. Where
at most one advisor asked, `answers.in` holds all answers as clang reads them, and `reproduce.sh` runs clang alone,
without this package: a channel may be a regular file. That is what a report of a bug in LLVM needs.
"""

from __future__ import annotations

import hashlib
import json
import os
import shlex
import shutil
import signal
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from mlgo_gym.corpus.compilation import Compilation
from mlgo_gym.errors import CompilerError, MlgoError
from mlgo_gym.llvm.advisors import ADVISORS, Advisor
from mlgo_gym.session.decision import Decision
from mlgo_gym.session.session import Session
from mlgo_gym.storage.cache import cache_directory, write_atomically
from mlgo_gym.storage.foreign_file import read_foreign
from mlgo_gym.storage.json_text import check_fields, parse_json
from mlgo_gym.storage.leftovers import make_own_folder

FORMAT = 1
FILE = "reproducer.json"
MODULE = "module.bc"
ANSWERS = "answers.in"
SCRIPT = "reproduce.sh"
FOLDER_VARIABLE = "MLGO_REPRODUCERS"
"""The environment variable with the folder of kept crashes: else `reproducers` in the cache; empty: none are kept."""

MOST = 100
"""So many are kept in a folder; of a compiler that crashes all the time the first ones tell as much as all."""

CRASH, WRONG = "crash", "wrong result"
_OUR_DOING = frozenset({signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGXCPU, signal.SIGPIPE, signal.SIGHUP})
_PADDING = 1 << 16


@dataclass(frozen=True, slots=True)
class Reproducer:
    """What went wrong in a compile, and how to see it again.

    Attributes:
        kind: `CRASH` or `WRONG`.
        module: the module's name.
        clang: the compiler's version.
        program: the compiler's command, as it was.
        flags: the `-cc1` arguments, without channels, input and output.
        advisors: the names of the advisors that asked.
        answers: the answer to every question, in order: the bytes of the advice, in hexadecimal.
        exit_status: how clang ended, negative for the number of a signal.
        message: what went wrong, in words.
        stderr: the tail of standard error.
        test: for a wrong result: the words of a command that ends with 0 where an object is right; `{object}` in them
            is replaced by its file, and it runs in the folder of the reproducer.
    """

    kind: str
    module: str
    clang: str
    program: tuple[str, ...]
    flags: tuple[str, ...]
    advisors: tuple[str, ...]
    answers: tuple[str, ...]
    exit_status: int | None = None
    message: str = ""
    stderr: str = ""
    test: tuple[str, ...] = ()


def keep_crash(
    compilation: Compilation, advisors: Sequence[Advisor], answers: Sequence[bytes], error: CompilerError
) -> Path | None:
    """Keep what it takes to see a crash again, and return the folder; None where it was no crash of the compiler's own.

    A compiler that somebody killed has not crashed. Equal crashes (module, flags and answers) are kept once.

    Args:
        compilation: what was compiled.
        advisors: who asked.
        answers: the answers until it crashed.
        error: how it ended.
    """
    ours = error.exit_status is None or -error.exit_status in _OUR_DOING
    wanted = os.environ.get(FOLDER_VARIABLE, str(cache_directory() / "reproducers"))
    if error.kind != "signal" or ours or not wanted or compilation.module.thinlto_index is not None:
        return None
    folder = Path(wanted)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if sum(1 for _ in folder.iterdir()) >= MOST:
            return None
        said = {"exit_status": error.exit_status, "message": error.message, "stderr": error.stderr}
        return keep_reproducer(folder, compilation, advisors, answers, kind=CRASH, **said)  # type: ignore[arg-type] # three types
    except OSError:  # a full disk is no reason to end a training
        return None


def keep_reproducer(
    folder: Path,
    compilation: Compilation,
    advisors: Sequence[Advisor],
    answers: Sequence[bytes],
    *,
    kind: str,
    message: str,
    exit_status: int | None = None,
    stderr: str = "",
    test: Sequence[str] = (),
) -> Path:
    """Write a reproducer below a folder, whole or not at all, and return where it is.

    Args:
        folder: where reproducers are.
        compilation: what was compiled.
        advisors: who asked.
        answers: the answers to all questions, in order.
        kind: `CRASH` or `WRONG`.
        message: what went wrong, in words.
        exit_status: how clang ended.
        stderr: the tail of standard error.
        test: what tells a right object from a wrong one, see `Reproducer`.
    """
    found = Reproducer(
        kind,
        compilation.module.name,
        compilation.toolchain.version_text,
        compilation.toolchain.command,
        compilation.flags,
        tuple(advisor.name for advisor in advisors),
        tuple(answer.hex() for answer in answers),
        exit_status,
        message,
        stderr,
        tuple(test),
    )
    bitcode = compilation.module.bitcode.read_bytes()
    parts = (bitcode.hex(), found.flags, found.answers, found.clang)
    target = folder / hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:16]
    if target.exists():
        return target
    folder.mkdir(parents=True, exist_ok=True)
    unfinished = make_own_folder(folder, ".unfinished-")
    try:
        write_atomically(unfinished / MODULE, bitcode)
        write_atomically(unfinished / FILE, (json.dumps({"format": FORMAT, **asdict(found)}, indent=1) + "\n").encode())
        if len(advisors) < 2:
            _write_script(unfinished, found, advisors)
        unfinished.chmod(0o755)
        unfinished.rename(target)
    except OSError:
        if not target.exists():  # else another process has kept the same
            raise
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
    return target


def _write_script(folder: Path, found: Reproducer, advisors: Sequence[Advisor]) -> None:
    # Without an end of the answers clang would read nothing for ever; behind a crash none of these is read.
    (folder / ANSWERS).write_bytes(bytes.fromhex("".join(found.answers)) + bytes(_PADDING))
    channel = [word for advisor in advisors for word in advisor.flags("answers")]
    words = [*found.program, *found.flags, *channel, "-x", "ir", MODULE, "-o", "object.o"]
    lines = [
        "#!/bin/sh",
        f"# {found.message.splitlines()[0] if found.message else found.kind}; clang {found.clang}",
        'cd "$(dirname "$0")" && rm -f answers.out',
        shlex.join(words),
        "status=$?",
        'echo "clang ended with $status"; exit $status',
    ]
    (folder / SCRIPT).write_text("\n".join(lines) + "\n")
    (folder / SCRIPT).chmod(0o755)


def read_reproducer(folder: Path) -> Reproducer:
    """Return what is in the folder of a reproducer.

    Raises:
        MlgoError: it holds none.
    """
    try:
        value = check_fields(Reproducer, parse_json(read_foreign(folder / FILE)))
        if value.pop("format") != FORMAT:
            raise ValueError("it is of another format")
        bytes.fromhex("".join(value["answers"]))
        lists = {name: tuple(each) for name, each in value.items() if isinstance(each, list)}
        found = Reproducer(**{**value, **lists})
        if set(found.advisors) - {advisor.name for advisor in ADVISORS}:
            raise ValueError(f"unknown advisors {found.advisors}")
    except (OSError, KeyError, TypeError, ValueError) as error:
        raise MlgoError(f"{folder} was to hold a reproducer, and does not: {error}; give one of its folders") from error
    return found


def compile_again(
    reproducer: Reproducer, compilation: Compilation, timeout: float, *, exact: bool = True
) -> tuple[bytes, int]:
    """Compile with the answers of a reproducer; where they are used up with a legal one.

    Args:
        reproducer: whose answers; without advisors it is a plain compile.
        compilation: the compile, of its module or of another.
        timeout: for how long clang may give no sign of life, in seconds.
        exact: give its answers whatever they are; else a legal one in the place of each that is illegal.

    Returns:
        The object file, and how many answers were not those of the reproducer.

    Raises:
        CompilerError: the compile failed.
    """
    advisors = [advisor for advisor in ADVISORS if advisor.name in reproducer.advisors]
    answers = iter(reproducer.answers)
    others = 0
    with Session(compilation.command, advisors, confined=compilation.confined) as session:
        while (decision := session.wait(timeout)) is not None:
            advice = bytes.fromhex(next(answers, ""))
            if not (exact and advice) and not _fits(session, decision, advice):
                header = session.header(decision.advisor)
                assert header is not None  # it came before the question
                advice = advisors[decision.advisor].answer(header, decision.payload)
                others += 1
            session.advise(advice)
        return session.finish(timeout).object_bytes, others


def _fits(session: Session, decision: Decision, advice: bytes) -> bool:
    header = session.header(decision.advisor)
    assert header is not None
    assert header.advice is not None
    if len(advice) != header.advice.nbytes:
        return False
    if "mask" not in [feature.name for feature in header.features]:
        return True
    mask = np.frombuffer(decision.payload, header.dtype)["mask"].reshape(-1)
    column = int.from_bytes(advice, "little", signed=True)
    return 0 <= column < len(mask) and mask[column] == 1
