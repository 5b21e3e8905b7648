"""A compile whose decisions a policy makes; by clang alone where that fails."""

from __future__ import annotations

import os
import signal

from mlgo_clang.conversation import EVICTION, INLINING, Advisor, Compile, Interrupted, die_by
from mlgo_clang.counters import count
from mlgo_clang.driver import FAILED, become, say
from mlgo_clang.header import ProtocolError
from mlgo_clang.policies import PolicyError, eviction_policy, inlining_policy, network_file

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
    if settings.recipes and (status := _compile_by_recipe(settings, invocation, compiler, rest)) is not None:
        return status
    if settings.leaves_decisions_to_clang:
        become(command)
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


def _compile_by_recipe(
    settings: Settings, invocation: Invocation, compiler: Sequence[str], rest: Sequence[str]
) -> int | None:
    """Compile as search found best for the module; None if nothing was done."""
    from mlgo_clang.recipes import RecipeError, digest_of, front_end_bitcode, read_recipe, search_recipe, was_used

    try:
        bitcode = front_end_bitcode(compiler, rest)
        digest = digest_of(bitcode)
        recipe = read_recipe(settings.recipes, digest)
        if recipe is None and settings.search:
            policy = searched_policy(settings, invocation.level)
            command = [*compiler, *rest]
            problem = search_recipe(
                settings.recipes, invocation.source, bitcode, settings.search, settings.clang, policy, command
            )
            count("searched")
            if problem:
                raise RecipeError(f"the search failed: {problem}")
            recipe = read_recipe(settings.recipes, digest)
        if recipe is None:
            count("without a recipe")
            return None
        was_used(settings.recipes, digest)
        if not recipe.answers:
            count("compiled by a recipe")
            become([*compiler, *rest])
        problem = _run(settings, invocation, compiler, rest, [Advisor(INLINING, recipe.bind)], len(recipe.answers))
    except (RecipeError, ProtocolError, OSError) as error:
        problem = str(error)
    except Interrupted as end:
        return die_by(end.number)
    if not problem:
        count("compiled by a recipe")
        return 0
    count("a recipe that did not hold", f"because {problem.splitlines()[0][:200]}")
    return None


def _compile(settings: Settings, invocation: Invocation, compiler: Sequence[str], rest: Sequence[str]) -> str:
    """Compile with advice, and return what went wrong; nothing is said and nothing is left if anything did."""
    candidates = [_advisors(settings, policy, invocation.level, compiler) for policy in settings.policies]
    if len(candidates) == 1:
        problem = _run(settings, invocation, compiler, rest, candidates[0])
    else:
        problem = _compile_smallest(settings, invocation, compiler, rest, candidates)
    if not problem:
        count("compiled with a policy")
    return problem


def _advisors(settings: Settings, policy: str, level: str, compiler: Sequence[str]) -> list[Advisor]:
    advisors = []
    if policy != "default":
        advisors.append(Advisor(INLINING, inlining_policy(policy, level, compiler)))
    if settings.eviction_policy != "default":
        advisors.append(Advisor(EVICTION, eviction_policy(settings.eviction_policy, level, compiler)))
    return advisors


def _compile_smallest(
    settings: Settings,
    invocation: Invocation,
    compiler: Sequence[str],
    rest: Sequence[str],
    candidates: Sequence[Sequence[Advisor]],
) -> str:
    """Compile with each, leave the object with the fewest bytes of instructions, and return what went wrong."""
    from mlgo_clang.object_size import ObjectSizeError, text_size

    output = invocation.output or default_output(invocation.source)
    sizes = []
    for advisors in candidates:
        warnings = bytearray()
        if problem := _run(settings, invocation, compiler, rest, advisors, warnings=warnings):
            return problem
        try:
            sizes.append(text_size(output))
        except ObjectSizeError as error:
            return str(error)
    best = min(reversed(range(len(sizes))), key=sizes.__getitem__)
    if best != len(sizes) - 1:
        # Compiled once more, not copied: an object is not all that a compile leaves.
        warnings.clear()
        if problem := _run(settings, invocation, compiler, rest, candidates[best], warnings=warnings):
            return problem
    _write_all(2, warnings)
    return ""


def _run(
    settings: Settings,
    invocation: Invocation,
    compiler: Sequence[str],
    rest: Sequence[str],
    advisors: Sequence[Advisor],
    questions: int | None = None,
    warnings: bytearray | None = None,
) -> str:
    """Run clang and return what went wrong; another number of questions than expected counts as that.

    What clang said goes to standard error, or into `warnings` where that is given.
    """
    # A terminal is told at once; what is not seen by anybody can be taken back.
    buffered = warnings is not None or not os.isatty(2)
    stderr = os.memfd_create("mlgo-clang", os.MFD_CLOEXEC) if buffered else 2
    try:
        # The crash of a compile that is made again needs no reproducer.
        run = Compile([*compiler, "-fno-crash-diagnostics"], rest, advisors, stderr, settings.timeout)
        if run.status != 0:
            return f"clang ended with status {run.status} while a policy answered it"
        if questions not in (None, run.questions):
            return f"the module asks {run.questions} questions, and its recipe has {questions} answers"
        if not os.path.exists(invocation.output or default_output(invocation.source)):
            return "clang ended well, and there is no object"
        if buffered:
            os.lseek(stderr, 0, os.SEEK_SET)
            while data := os.read(stderr, 1 << 16):
                if warnings is None:
                    _write_all(2, data)
                else:
                    warnings += data
    finally:
        if buffered:
            os.close(stderr)
    return ""


def _write_all(descriptor: int, data: bytes | bytearray) -> None:
    while data:
        data = data[os.write(descriptor, data) :]


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


def searched_policy(settings: Settings, level: str) -> str:
    """Return the inlining policy as `mlgo-gym` takes it; nothing where it is clang's own, or cannot be read."""
    policy = next((policy for policy in settings.policies if policy != "default"), "")
    if policy.partition(":")[0] in ("", "never", "always", "threshold"):
        return policy
    try:
        return f"mlp:{network_file(policy, level)}"
    except PolicyError:
        return ""


def default_output(source: str) -> str:
    """Return the object that clang makes of a source when no `-o` is given."""
    return f"{os.path.splitext(os.path.basename(source))[0]}.o"
