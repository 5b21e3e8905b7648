"""A compile whose decisions a policy makes; by clang alone where that fails."""

from __future__ import annotations

import os
import signal

from mlgo_clang.conversation import EVICTION, INLINING, Advisor, Compile, Interrupted, die_by
from mlgo_clang.counters import count
from mlgo_clang.driver import FAILED, become, say
from mlgo_clang.header import ProtocolError
from mlgo_clang.policies import PolicyError, eviction_policy, inlining_policy, network_file, sees_calls

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from mlgo_clang.invocation import Invocation
    from mlgo_clang.recipes import Recipe
    from mlgo_clang.settings import Settings


class _Job:
    """One source that is to become one object.

    Attributes:
        settings: what the user wants.
        invocation: what the command line asks for.
        compiler: the words that start clang.
        rest: the arguments for it.
    """

    __slots__ = ("compiler", "invocation", "rest", "settings")

    def __init__(
        self, settings: Settings, invocation: Invocation, compiler: Sequence[str], rest: Sequence[str]
    ) -> None:
        self.settings = settings
        self.invocation = invocation
        self.compiler = compiler
        self.rest = rest

    @property
    def command(self) -> list[str]:
        """The compile by clang alone."""
        return [*self.compiler, *self.rest]

    @property
    def output(self) -> str:
        """Where the object goes; clang puts it into the current folder where no `-o` is given."""
        return self.invocation.output or f"{os.path.splitext(os.path.basename(self.invocation.source))[0]}.o"


class _Candidate:
    """What answers in a compile.

    Args:
        decisions: answers that are known already.

    Attributes:
        advisors: what clang asks.
        questions: how many questions there are; None where that is not known.
    """

    __slots__ = ("advisors", "questions")

    def __init__(self, decisions: Recipe | None = None) -> None:
        self.advisors: list[Advisor] = []
        self.questions: int | None = None
        if decisions is not None:
            self.advisors.append(Advisor(INLINING, decisions.bind))
            self.questions = len(decisions.answers)


def compile_advised(settings: Settings, invocation: Invocation, compiler: Sequence[str], rest: Sequence[str]) -> int:
    """Compile one source to one object as the policies say, and return clang's exit status.

    Args:
        settings: what the user wants.
        invocation: what the command line asks for.
        compiler: the words that start clang.
        rest: the arguments for it.
    """
    if signal.getsignal(signal.SIGCHLD) is signal.SIG_IGN:
        # Inherited of what started this; the kernel would forget how clang ended.
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    job = _Job(settings, invocation, compiler, rest)
    if settings.recipes and (status := _compile_by_recipe(job)) is not None:
        return status
    if settings.leaves_decisions_to_clang:
        become(job.command)
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        problem = _compile(job)
    except (PolicyError, ProtocolError, OSError) as error:
        problem = str(error)
    except Interrupted as end:
        return die_by(end.number)
    if not problem:
        return 0
    return _compile_plainly(job, problem)


def _compile_by_recipe(job: _Job) -> int | None:
    """Compile as search found best for the module; None if nothing was done."""
    from mlgo_clang.recipes import RecipeError, digest_of, front_end_bitcode, read_recipe, search_recipe, was_used

    settings = job.settings
    try:
        bitcode = front_end_bitcode(job.compiler, job.rest)
        digest = digest_of(bitcode)
        recipe = read_recipe(settings.recipes, digest)
        if recipe is None and settings.search:
            policy = searched_policy(settings, job.invocation.level)
            problem = search_recipe(
                settings.recipes, job.invocation.source, bitcode, settings.search, settings.clang, policy, job.command
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
            become(job.command)
        problem = _run(job, _Candidate(recipe))
    except (RecipeError, ProtocolError, OSError) as error:
        problem = str(error)
    except Interrupted as end:
        return die_by(end.number)
    if not problem:
        count("compiled by a recipe")
        return 0
    count("a recipe that did not hold", f"because {problem.splitlines()[0][:200]}")
    return None


def _compile(job: _Job) -> str:
    """Compile with advice, and return what went wrong; nothing is said and nothing is left if anything did."""
    candidates = [_candidate(job, policy) for policy in job.settings.policies]
    problem = _run(job, candidates[0]) if len(candidates) == 1 else _compile_smallest(job, candidates)
    if not problem:
        count("compiled with a policy")
    return problem


def _candidate(job: _Job, policy: str) -> _Candidate:
    level, eviction = job.invocation.level, job.settings.eviction_policy
    candidate = _Candidate()
    if sees_calls(policy):
        from mlgo_clang.calls import decided

        decisions = decided(policy, job.settings.clang, job.compiler, job.rest)
        candidate = _Candidate(decisions)
    elif policy != "default":
        candidate.advisors.append(Advisor(INLINING, inlining_policy(policy, level, job.compiler)))
    if eviction != "default":
        candidate.advisors.append(Advisor(EVICTION, eviction_policy(eviction, level, job.compiler)))
        candidate.questions = None
    return candidate


def _compile_smallest(job: _Job, candidates: Sequence[_Candidate]) -> str:
    """Compile with each, leave the object with the fewest bytes of instructions, and return what went wrong."""
    from mlgo_clang.object_size import ObjectSizeError, text_size

    sizes = []
    for candidate in candidates:
        warnings = bytearray()
        if problem := _run(job, candidate, warnings):
            return problem
        try:
            sizes.append(text_size(job.output))
        except ObjectSizeError as error:
            return str(error)
    best = min(reversed(range(len(sizes))), key=sizes.__getitem__)
    if best != len(sizes) - 1:
        # Compiled once more, not copied: an object is not all that a compile leaves.
        warnings.clear()
        if problem := _run(job, candidates[best], warnings):
            return problem
    _write_all(2, warnings)
    return ""


def _run(job: _Job, candidate: _Candidate, warnings: bytearray | None = None) -> str:
    """Run clang and return what went wrong; another number of questions than expected counts as that.

    What clang said goes to standard error, or into `warnings` where that is given.
    """
    # A terminal is told at once; what is not seen by anybody can be taken back.
    buffered = warnings is not None or not os.isatty(2)
    stderr = os.memfd_create("mlgo-clang", os.MFD_CLOEXEC) if buffered else 2
    try:
        # The crash of a compile that is made again needs no reproducer.
        run = Compile(
            [*job.compiler, "-fno-crash-diagnostics"], job.rest, candidate.advisors, stderr, job.settings.timeout
        )
        if run.status != 0:
            return f"clang ended with status {run.status} while a policy answered it"
        if candidate.questions not in (None, run.questions):
            return f"the module asks {run.questions} questions, and there are {candidate.questions} answers"
        if not os.path.exists(job.output):
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


def _compile_plainly(job: _Job, problem: str) -> int:
    status = os.waitstatus_to_exitcode(os.waitpid(_spawn(job.command), 0)[1])
    if status < 0:
        return die_by(-status)
    if status != 0:
        # Clang has said why: the source is to blame, or the machine, and no policy.
        return status
    if job.settings.strict:
        try:
            os.unlink(job.output)
        except OSError as error:
            say(f"the object cannot be removed: {error}")
        say(f"error: {job.invocation.source}: {problem}")
        return FAILED
    say(f"warning: {job.invocation.source} is compiled by clang alone: {problem}")
    count("compiled by clang alone", f"because {problem.splitlines()[0][:200]}")
    return 0


def searched_policy(settings: Settings, level: str) -> str:
    """Return the inlining policy as `mlgo-gym` takes it; nothing where it is clang's own, or cannot be read."""
    policy = next((policy for policy in settings.policies if policy != "default" and not sees_calls(policy)), "")
    if policy.partition(":")[0] in ("", "never", "always", "threshold"):
        return policy
    try:
        return f"mlp:{network_file(policy, level)}"
    except PolicyError:
        return ""
