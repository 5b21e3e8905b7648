"""One call of `mlgo-clang` or `mlgo-clang++`: it becomes clang, or compiles with a policy."""

from __future__ import annotations

import mlgo_clang.import_path  # noqa: F401 - first, because it decides which modules the others import

# isort: split

import os
import sys

from mlgo_clang.command_lines import missing_linker, shown_text, target_of
from mlgo_clang.compiler import FAILED, become, compiler_command, open_standard_streams, say
from mlgo_clang.counters import count, is_first_of_build
from mlgo_clang.errors import PolicyError, UsageError
from mlgo_clang.files import working_folder
from mlgo_clang.invocation import driven, folding_of_link, is_probe, read_invocation, resolve
from mlgo_clang.settings import BUILD_LOG, PREFIX, show_help, split_arguments
from mlgo_clang.signals import signal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import NoReturn

    from mlgo_clang.invocation import Invocation
    from mlgo_clang.settings import Settings


def run(mode: str, arguments: Sequence[str]) -> int:
    """Run a command line and return the exit status; most often this process becomes clang.

    The mode is `gcc` or `g++`, the language that the driver assumes.
    """
    open_standard_streams()
    try:
        settings, rest = split_arguments(arguments)
        compiler = compiler_command(settings.clang, mode)
    except UsageError as error:
        say(f"error: {error}")
        return FAILED
    if f"{PREFIX}help" in arguments or rest == ["--help"]:
        show_help()
        if rest != ["--help"]:
            return 0
        become([*compiler, *rest])
    if log := os.environ.get(BUILD_LOG):
        from mlgo_clang.build_log import log_command

        log_command(log, rest)
    if rest[:1] in (["-cc1"], ["-cc1as"]):
        # A command line of `-###`: clang takes this word only as its first argument.
        become([word for word in compiler if not word.startswith("-")] + rest)
    if settings.clang != "bundled" and settings.uses_clang_alone:
        _leave_to_clang([*compiler, *rest])
    line, shown = resolve(compiler, rest)
    words = compiler
    if settings.clang == "bundled" and (target := target_of(line)):
        if shown:
            # The default target in front of the arguments would replace that of a configuration file.
            rest = [f"--target={target}", *rest]
        words = _for_other_machine(compiler, mode, line, rest if shown is None else line)
    command = [*words, *rest]
    if settings.uses_clang_alone:
        _leave_to_clang(command)
    if "--version" in rest:
        return _show_version(settings, command)
    invocation = read_invocation(line)
    if invocation.links and not is_probe(invocation.source, working_folder()):
        _warn_of_folding(settings, folding_of_link(line))
    if not invocation.reason and (shown is not None or not invocation.is_clear):
        invocation = driven(invocation, shown_text(words, rest) if shown is None else shown)
    if invocation.reason or settings.problem_of_level(invocation.level, "-O"):
        _report(settings, invocation)
        if invocation.reason or invocation.level == "0" or not settings.internal:
            _leave_to_clang(command)
        settings.decide_nothing()
    from mlgo_clang.advised import compile_advised
    from mlgo_clang.job import Job

    # Python's own end takes a millisecond and has nothing to write.
    os._exit(compile_advised(Job(settings, invocation, words, rest, clang=compiler)))


def _report(settings: Settings, invocation: Invocation) -> None:
    """Count a compile in which no policy decides; if another command helps, a line of a build says so, or all fail."""
    level, reason, source = settings.problem_of_level(invocation.level, "-O"), invocation.reason, invocation.source
    problem = f"{reason}; {invocation.remedy}" if invocation.remedy else "" if reason else level
    if problem and not settings.decides_nothing and not is_probe(source, working_folder()):
        if settings.strict and not level:
            say(f"error: {source}: no policy decides: {problem}")
            sys.exit(FAILED)
        if is_first_of_build():
            say(f"warning: {source}, the first of this build, is compiled by clang alone: {problem}")
    count("left to clang", f"because {reason or f'not at a level of MLGO_LEVELS: -O{invocation.level}'}")


def _warn_of_folding(settings: Settings, mode: str) -> None:
    """Warn once in a build if its link facts are of a link with other identical code folding, or a policy has none."""
    from mlgo_clang.link_facts import folding_of, read_lines

    try:
        known = folding_of(read_lines(settings.link_facts)) if settings.link_facts else ""
    except PolicyError:  # the compiles report it
        return
    got = f"{settings.link_facts} of --icf={known}" if known else "none, without which policies make programs larger"
    is_other = (known == "none") != (mode == "none") if known else mode != "none" and not settings.decides_nothing
    if is_other and is_first_of_build(".icf"):
        say(
            f"warning: expected link facts of --icf={mode}, with which this build links, got {got}; run mlgo-gym build "
            f"--, or mlgo-gym link-facts --icf={mode} on a plain build, and build again"
        )


def _for_other_machine(compiler: list[str], mode: str, line: Sequence[str], rest: Sequence[str]) -> list[str]:
    """Return the words that start clang for the target of its arguments; a link with the wheel's C library runs."""
    from mlgo_clang.other_machines import header_words, library_target, link_command, linker_option

    target, links = library_target(line), read_invocation(line).links
    if target and links:
        count("left to clang")
        # A line of a response file may be too long for the arguments of a program.
        become(link_command(compiler[0], mode, target, rest if target_of(rest) == target_of(line) else line))
    if target:
        return [*compiler, *header_words(compiler[0], target)]
    return [*compiler, *(linker_option(compiler[0], line) if links else ())]


def _leave_to_clang(command: Sequence[str]) -> NoReturn:
    linker = missing_linker(command)
    if linker:
        say(f"error: expected the linker {linker} on PATH, got none; install it, for instance with binutils or lld")
        sys.exit(FAILED)
    become(command)


def _show_version(settings: Settings, command: Sequence[str]) -> int:
    """Print clang's version and a line for each policy, and the facts, by which caches of objects tell them apart."""
    from mlgo_clang.interactive import run_alone

    # A reader such as `head` may end first, which ends a program without a traceback.
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    status = run_alone(command)
    for policy in settings.policies:
        sys.stdout.write(f"mlgo-clang inlining policy: {_describe(policy)}\n")
    if facts := settings.link_facts:
        state = "on" if settings.internal else "off"
        sys.stdout.write(f"mlgo-clang link facts, internal linkage {state}: {_with_digest(facts)}\n")
    return status


def _describe(policy: str) -> str:
    from mlgo_clang.settings import network_file

    try:
        return _with_digest(network_file(policy))
    except PolicyError:
        return policy


def _with_digest(path: str) -> str:
    from mlgo_clang.files import digest_of, read_untrusted

    try:
        return f"{os.path.basename(path)} sha256:{digest_of(read_untrusted(path))}"
    except OSError:
        return path


def c() -> int:
    """Run `mlgo-clang`, for C."""
    return run("gcc", sys.argv[1:])


def cxx() -> int:
    """Run `mlgo-clang++`, for C++."""
    return run("g++", sys.argv[1:])


if __name__ == "__main__":
    sys.exit(c())
