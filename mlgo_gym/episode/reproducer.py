"""Reproducers: folders from which a crash or a wrong object can be repeated.

A reproducer contains the bitcode, `module.bc`, and `reproducer.json` with flags, answers and the failure. With at most
one advisor it also has `answers.in`, all answers as clang reads them, and `reproduce.sh`, which runs clang without this
package (a channel may be a regular file). A bug report to LLVM needs exactly these.
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
from typing import Any

import numpy as np

from mlgo_clang.files import read_untrusted
from mlgo_gym.cache import cache_directory, parse_json, write_atomically
from mlgo_gym.compiler.coroutine import drive
from mlgo_gym.compiler.decision import Decision
from mlgo_gym.compiler.session import Session
from mlgo_gym.corpus.compilation import Compilation, plan
from mlgo_gym.corpus.corpus import Module
from mlgo_gym.errors import CompilerError, MlgoError
from mlgo_gym.llvm.advisors import ADVISORS, Advisor
from mlgo_gym.llvm.toolchain import Toolchain
from mlgo_gym.storage.json_files import check_fields
from mlgo_gym.storage.temporary_folders import make_process_folder

FORMAT = 2
FILE = "reproducer.json"
MODULE = "module.bc"
ANSWERS = "answers.in"
SCRIPT = "reproduce.sh"
FOLDER_VARIABLE = "MLGO_REPRODUCERS"
"""Environment variable with the folder of crashes. Default: `reproducers` in the cache; empty: keep none."""

MAX_KEPT = 100
"""Largest number of reproducers in a folder."""

_SENT_SIGNALS = frozenset(
    {signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGXCPU, signal.SIGPIPE, signal.SIGHUP}
)
_PADDING = 1 << 16


@dataclass(frozen=True, slots=True)
class Reproducer:
    """A failed compile, with everything that repeats it.

    Attributes:
        program, flags: Command of the compiler, and `-cc1` arguments, without channels, input and output.
        advisors, answers: Names of the advisors, and advice to each decision, in order, as hexadecimal bytes.
        exit_status: Exit status of clang; negative for a signal, 0 for a wrong object.
        message, stderr: Description of the failure, and tail of standard error.
    """

    module: str
    clang: str
    program: tuple[str, ...]
    flags: tuple[str, ...]
    advisors: tuple[str, ...]
    answers: tuple[str, ...]
    exit_status: int | None = None
    message: str = ""
    stderr: str = ""


def keep_crash(
    compilation: Compilation, advisors: Sequence[Advisor], answers: Sequence[bytes], error: CompilerError
) -> Path | None:
    """Keep a crash and return its folder; None if the compiler did not crash by itself, for instance when killed.

    Equal crashes (module, flags and answers) are kept once.
    """
    sent = error.exit_status is None or -error.exit_status in _SENT_SIGNALS
    place = os.environ.get(FOLDER_VARIABLE, str(cache_directory() / "reproducers"))
    if error.kind != "signal" or sent or not place or compilation.module.thinlto_index is not None:
        return None
    folder = Path(place)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if sum(1 for _ in folder.iterdir()) >= MAX_KEPT:
            return None
        failure = {name: getattr(error, name) for name in ("exit_status", "message", "stderr")}
        return keep_reproducer(folder, compilation, advisors, answers, **failure)
    except OSError:  # a full disk must not end a training
        return None


def keep_reproducer(
    folder: Path,
    compilation: Compilation,
    advisors: Sequence[Advisor],
    answers: Sequence[bytes],
    **failure: Any,
) -> Path:
    """Write a reproducer of a compile to a folder below `folder`, atomically, and return it.

    The failure has the fields of `Reproducer` from `exit_status` on.
    """
    reproducer = Reproducer(
        module=compilation.module.name,
        clang=compilation.toolchain.version_text,
        program=compilation.toolchain.command,
        flags=compilation.flags,
        advisors=tuple(advisor.name for advisor in advisors),
        answers=tuple(answer.hex() for answer in answers),
        **failure,
    )
    bitcode = compilation.module.bitcode.read_bytes()
    parts = (bitcode.hex(), reproducer.flags, reproducer.answers, reproducer.clang)
    target = folder / hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:16]
    if target.exists():
        return target
    folder.mkdir(parents=True, exist_ok=True)
    unfinished = make_process_folder(folder, ".unfinished-")
    try:
        write_atomically(unfinished / MODULE, bitcode)
        text = json.dumps({"format": FORMAT, **asdict(reproducer)}, indent=1) + "\n"
        write_atomically(unfinished / FILE, text.encode())
        if len(advisors) < 2:
            _write_script(unfinished, reproducer, advisors)
        unfinished.chmod(0o755)
        unfinished.rename(target)
    except OSError:
        if not target.exists():  # else another process kept the same crash
            raise
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
    return target


def _write_script(folder: Path, reproducer: Reproducer, advisors: Sequence[Advisor]) -> None:
    # Without padding clang would spin at the end of the answers; it never reads the padding behind a crash.
    (folder / ANSWERS).write_bytes(bytes.fromhex("".join(reproducer.answers)) + bytes(_PADDING))
    channel = [word for advisor in advisors for word in advisor.flags("answers")]
    words = [*reproducer.program, *reproducer.flags, *channel, "-x", "ir", MODULE, "-o", "object.o"]
    lines = [
        "#!/bin/sh",
        f"# {reproducer.message.splitlines()[0] if reproducer.message else 'clang failed'}; clang {reproducer.clang}",
        'cd "$(dirname "$0")" && rm -f answers.out',
        shlex.join(words),
        "status=$?",
        'echo "clang exited with $status"; exit $status',
    ]
    (folder / SCRIPT).write_text("\n".join(lines) + "\n")
    (folder / SCRIPT).chmod(0o755)


def read_reproducer(folder: Path) -> Reproducer:
    """Return the reproducer in a folder; raise `MlgoError` if there is none."""
    try:
        value = check_fields(Reproducer, parse_json(read_untrusted(folder / FILE)))
        if value.pop("format") != FORMAT:
            raise ValueError(f"expected format {FORMAT}")
        bytes.fromhex("".join(value["answers"]))
        lists = {name: tuple(entry) for name, entry in value.items() if isinstance(entry, list)}
        reproducer = Reproducer(**{**value, **lists})
        if set(reproducer.advisors) - {advisor.name for advisor in ADVISORS}:
            raise ValueError(f"unknown advisors {reproducer.advisors}")
    except (OSError, KeyError, TypeError, ValueError) as error:
        raise MlgoError(f"expected a reproducer in {folder}, got {error}; name the folder of one") from error
    return reproducer


def compile_reproducer(
    reproducer: Reproducer, compilation: Compilation, timeout: float, *, exact: bool = True
) -> bytes:
    """Return the object of a module with the answers of a reproducer, and with legal answers after its last one.

    Unless `exact`, a legal answer replaces each illegal one. Without advisors this is a plain compile.
    """
    answers = iter(reproducer.answers)

    def advise(decision: Decision) -> bytes:
        advice = bytes.fromhex(next(answers, ""))
        return advice if (exact and advice) or _fits(session, decision, advice) else session.any_answer(decision)

    with compilation.session([advisor for advisor in ADVISORS if advisor.name in reproducer.advisors]) as session:
        return drive(session, advise, timeout).object_bytes


def _fits(session: Session, decision: Decision, advice: bytes) -> bool:
    header = session.header(decision.advisor)
    if header is None or header.advice is None or len(advice) != header.advice.nbytes:
        return False
    if "mask" not in [feature.name for feature in header.features]:
        return True
    mask = np.frombuffer(decision.payload, header.dtype)["mask"].reshape(-1)
    column = int.from_bytes(advice, "little", signed=True)
    return 0 <= column < len(mask) and mask[column] == 1


@dataclass(frozen=True, slots=True)
class Reproduction:
    """Whether the failure of a reproducer occurred as recorded, and the result in words."""

    reproduced: bool
    description: str


def reproduce(
    folder: Path, toolchain: Toolchain, *, bitcode: Path | None = None, timeout: float = 60.0, trust_flags: bool = False
) -> Reproduction:
    """Compile the module of a reproducer with its answers, and compare clang's exit status with the recorded one.

    `bitcode` replaces the recorded module, and clang may be silent for `timeout` seconds. With `trust_flags` the
    recorded flags run without a check.

    Raises:
        MlgoError: the folder has no reproducer.
        UntrustedError: the flags may do more than shape code, and are not trusted.
    """
    reproducer = read_reproducer(folder)
    module = Module(reproducer.module, bitcode or folder / MODULE, ("-cc1", *reproducer.flags[1:]), trusted=trust_flags)
    try:
        compiled = compile_reproducer(reproducer, plan(module, toolchain), timeout, exact=bitcode is None)
    except CompilerError as error:
        return Reproduction(error.exit_status == reproducer.exit_status, error.message)
    description = f"clang {toolchain.version_text} made an object of {len(compiled)} bytes"
    return Reproduction(reproducer.exit_status == 0, description)
