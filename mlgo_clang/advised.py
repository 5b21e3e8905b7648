"""A compile whose decisions a policy makes; by clang alone where that fails."""

from __future__ import annotations

import os
import signal

from mlgo_clang.conversation import EVICTION, INLINING, Advisor, Compile, Interrupted, die_by
from mlgo_clang.counters import count
from mlgo_clang.driver import FAILED, say
from mlgo_clang.header import ProtocolError
from mlgo_clang.policies import PolicyError, eviction_policy, inlining_policy

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from mlgo_clang.invocation import Invocation
    from mlgo_clang.settings import Settings


def compile_advised(settings: Settings, invocation: Invocation, compiler: Sequence[str], rest: Sequence[str]) -> int:
    """Compile one source to one object as the policies say, and return clang's exit status.

    Args:
        settings: what the user wants.
        invocation: what the command line asks for.
        compiler: the words that start clang.
        rest: the arguments for it.
    """
    command = [*compiler, *rest]
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        problem = _compile(settings, invocation, compiler, rest)
    except (PolicyError, ProtocolError, OSError) as error:
        problem = str(error)
    except Interrupted as end:
        return die_by(end.number)
    if not problem:
        return 0
    return _compile_plainly(settings, invocation, command, problem)


def _compile(settings: Settings, invocation: Invocation, compiler: Sequence[str], rest: Sequence[str]) -> str:
    """Compile with advice, and return what went wrong; nothing is said and nothing is left if anything did."""
    advisors = []
    if settings.policy != "default":
        advisors.append(Advisor(INLINING, inlining_policy(settings.policy, invocation.level, compiler)))
    if settings.eviction_policy != "default":
        advisors.append(Advisor(EVICTION, eviction_policy(settings.eviction_policy, invocation.level, compiler)))
    # A terminal is told at once; what is not seen by anybody can be taken back.
    buffered = not os.isatty(2)
    stderr = os.memfd_create("mlgo-clang", os.MFD_CLOEXEC) if buffered else 2
    # The crash of a compile that is made again needs no reproducer.
    run = Compile([*compiler, "-fno-crash-diagnostics"], rest, advisors, stderr)
    if run.status != 0:
        return f"clang ended with status {run.status} while a policy answered it"
    if buffered:
        os.lseek(stderr, 0, os.SEEK_SET)
        while data := os.read(stderr, 1 << 16):
            while data:
                data = data[os.write(2, data) :]
    count("compiled with a policy")
    return ""


def _spawn(command: Sequence[str]) -> int:
    return os.posix_spawn(command[0], list(command), os.environ, setsigdef=[signal.SIGPIPE, signal.SIGXFSZ])


def _compile_plainly(settings: Settings, invocation: Invocation, command: Sequence[str], problem: str) -> int:
    status = os.waitstatus_to_exitcode(os.waitpid(_spawn(command), 0)[1])
    if status < 0:
        return die_by(-status)
    if status != 0:
        # Clang has said why: the source is to blame, or the machine, and no policy.
        return status
    if settings.strict:
        try:
            os.unlink(invocation.output or default_output(invocation.source))
        except OSError as error:
            say(f"the object cannot be removed: {error}")
        say(f"error: {invocation.source}: {problem}")
        return FAILED
    say(f"warning: {invocation.source} is compiled by clang alone: {problem}")
    count("compiled by clang alone", f"because {problem.splitlines()[0][:200]}")
    return 0


def default_output(source: str) -> str:
    """Return the object that clang makes of a source if it is told nothing."""
    return f"{os.path.splitext(os.path.basename(source))[0]}.o"
