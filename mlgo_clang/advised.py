"""A compile whose decisions a policy makes; clang compiles alone if that fails."""

from __future__ import annotations

import os

from mlgo_clang.channel import INLINING, inlining_rule
from mlgo_clang.compiler import CLANG, FAILED, become, die_by, say, write_errors
from mlgo_clang.counters import count
from mlgo_clang.errors import CandidateError, MlgoError, PolicyError, ProtocolError
from mlgo_clang.files import contents_of, digest_of, message_file, remove_file
from mlgo_clang.interactive import InteractiveCompile, Interrupted, run_alone
from mlgo_clang.recipes import replay, stored_decisions
from mlgo_clang.signals import signal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from mlgo_clang.interactive import Advisor
    from mlgo_clang.job import Job
    from mlgo_clang.native import NativeNetwork

    Candidate = tuple[Advisor | None, int | None, NativeNetwork | None]
    """The advisor of one compile, the number of decisions if it is known, and the network that needs two steps."""


class _OneStepError(Exception):
    """A message about the code that clang makes names a line of the source only in a compile in one step."""


def compile_advised(job: Job) -> int:
    """Compile one source to one object with the policies of the settings, and return the compiler's exit status."""
    if signal.getsignal(signal.SIGCHLD) is signal.SIG_IGN:
        # Inherited from the parent; the kernel would discard the compiler's exit status.
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        problem = _attempt(_compile_by_recipe, job) if job.settings.recipes else None
        if problem:
            count("recipe failed", _because(problem))
        if problem == "":
            return 0
        if job.settings.decides_nothing and not job.may_change_linkage and not job.sources.stream():
            become(job.command)
        problem = _attempt(_compile_by_policies, job)
    except Interrupted as interrupted:
        return die_by(interrupted.args[0])
    return _compile_alone(job, problem) if problem else 0


def _attempt(compile_job: Callable[[Job], str | None], job: Job) -> str | None:
    try:
        return compile_job(job)
    except (MlgoError, OSError) as error:
        return str(error)


def _because(problem: str) -> str:
    return f"because {problem.splitlines()[0][:200]}"


def _compile_by_recipe(job: Job) -> str | None:
    """Compile with the decisions of the module's recipe, and return the problem; None without a recipe.

    In a compile with internal functions, the module and its recipe have them, too.
    """
    decisions = stored_decisions(job.settings.recipes, digest_of(job.bitcode()))
    if decisions is None:
        count("without a recipe")
        return None
    if not decisions and not job.changes_linkage:
        job.sources.read()
        count("compiled by a recipe")
        become(job.command)
    try:
        advisor = (INLINING, replay(decisions)) if decisions else None
        problem = _run(job, (advisor, len(decisions), None))
    except _OneStepError:
        job.keep_linkage()
        return _compile_by_recipe(job)
    if not problem:
        count("compiled by a recipe")
        _count_internal(job)
    return problem


def _compile_by_policies(job: Job) -> str:
    """Compile with the policies, and return the problem; after a problem there is neither output nor an object."""
    policies = job.settings.policies
    try:
        problem = _run(job, _candidate(job, policies[0])) if len(policies) == 1 else _compile_smallest(job)
    except _OneStepError:
        job.keep_linkage()
        return _compile_by_policies(job)
    if not problem:
        count("left to clang" if job.settings.decides_nothing else "compiled with a policy")
        _count_internal(job)
    return problem


def _count_internal(job: Job) -> None:
    if job.internal_functions:
        count("functions made internal", number=job.internal_functions)


def _candidate(job: Job, policy: str) -> Candidate:
    if policy == "default":
        return None, None, None
    if (rule := inlining_rule(policy)) is not None:
        return (INLINING, rule), None, None
    from mlgo_clang.native import NativeNetwork

    network = NativeNetwork(policy, job.clang, job.settings.link_facts, job.invocation.source)
    if not network.callee_features:
        return (INLINING, network.bind), None, None
    steps = job.two_steps()
    if steps.exact:
        return (steps.switches, network.bind), None, network
    run, _ = steps.compile(network, (steps.switches, network.bind), os.devnull)
    if run.status != 0:
        raise CandidateError(f"clang exited with status {run.status} while a policy decided in advance")
    return _repetition(run)


def _repetition(run: InteractiveCompile) -> Candidate:
    """Return a compile with the decisions that native code made in another one."""
    decisions = [int(answer) for answer in run.server.answers] if run.server is not None else []
    return (INLINING, replay(decisions)), len(decisions), None


def _compile_smallest(job: Job) -> str:
    """Compile with each policy, keep the smallest object, and return the problem.

    A policy whose compile fails is dropped: inlining decides whether some sources compile.
    """
    candidates: list[tuple[int, Candidate]] = []
    failures: list[MlgoError] = []
    warnings = bytearray()
    for policy in job.settings.policies:
        written = None
        try:
            candidate = _candidate(job, policy)
            candidates.append((_size(job, candidate, warnings), candidate))
            written = candidate if job.output else None
        except (CandidateError, ProtocolError) as error:
            count("dropped a policy of a list", _because(f"{policy}: {error}"))
            failures.append(error)
            if not candidates:
                job.two_steps()  # raises if the source does not compile at all
    if not candidates:
        raise failures[-1]
    # Of equal sizes the last: its object is there if its policy is the last of the list.
    _, best = min(reversed(candidates), key=lambda row: row[0])
    if best is not written:
        # One more compile and no copy: a compile can write more files than the object.
        warnings.clear()
        if problem := _run(job, best, warnings):
            return problem
    write_errors(warnings)
    return ""


def _size(job: Job, candidate: Candidate, warnings: bytearray) -> int:
    """Compile with a candidate and return the size; the output is its object, or of a crate as before.

    The size of a crate is that of its bitcode as clang compiles it, which is that of rustc's object or close.
    """
    if job.output:
        warnings.clear()
        if problem := _run(job, candidate, warnings):
            raise CandidateError(problem)
        return _loaded_bytes(job.output)
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        output = os.path.join(folder, "crate.o")
        run, _ = job.two_steps().compile(None, candidate[0], output)
        if run.status != 0:
            raise CandidateError(f"clang exited with status {run.status} while a policy decided in advance")
        return _loaded_bytes(output)


def _loaded_bytes(path: str) -> int:
    from mlgo_clang.object_size import object_size

    with open(path, "rb") as file:
        data = file.read()
    try:
        return object_size(data, "loaded")
    except MlgoError as error:
        raise PolicyError(f"{path} cannot be measured: {error}; use one policy") from None


def _run(job: Job, candidate: Candidate, warnings: bytearray | None = None) -> str:
    """Run clang and return the problem; another number of decisions than expected is one.

    Clang's standard error goes to this process's, or into `warnings`.
    """
    advisor, decisions, network = candidate
    if network is not None or job.changes_linkage:
        steps = job.two_steps()
        run, printed = steps.compile(network, advisor)
        if problem := _problem(job, run, decisions):
            return problem
        if printed and job.changes_linkage and not job.sources.stream():
            raise _OneStepError
        if not printed or job.sources.stream():
            _pass_on(steps.warnings + printed, warnings)
            return ""
        # A message about the code that clang makes names a line of the source only in a compile in one step.
        return _run(job, _repetition(run), warnings)
    # A terminal shows messages at once; a buffer can be discarded.
    buffered = warnings is not None or not os.isatty(2)
    stderr = message_file() if buffered else 2
    try:
        # After a crash the compiler compiles alone, so no reproducer is needed.
        compiler = [
            *job.compiler,
            *(job.sources.read() if job.dialect is CLANG else ()),  # rustc has no such options
            *job.dialect.without_reports,
        ]
        timeout, option = job.settings.timeout, job.dialect.llvm_option
        run = InteractiveCompile(compiler, job.rest, advisor, stderr, timeout, llvm_option=option)
        problem = _problem(job, run, decisions)
        if buffered and not problem:
            _pass_on(contents_of(stderr), warnings)
    finally:
        if buffered:
            os.close(stderr)
    return problem


def _problem(job: Job, run: InteractiveCompile, decisions: int | None) -> str:
    if run.status != 0:
        return f"{job.dialect.name} exited with status {run.status} while a policy decided"
    if decisions not in (None, run.decisions):
        return f"expected {decisions} requests, got {run.decisions}"
    if job.output and not os.path.exists(job.output):
        return f"{job.dialect.name} succeeded without writing an object"
    return ""


def _pass_on(printed: bytes, warnings: bytearray | None) -> None:
    if warnings is None:
        write_errors(printed)
    else:
        warnings += printed


def _compile_alone(job: Job, problem: str) -> int:
    if job.sources.stream():
        say(f"error: {job.invocation.source}: {problem}", job.dialect)
        return FAILED
    if status := run_alone(job.command):
        # The compiler has reported the error, which is the source's or the machine's.
        return status
    problem = job.explain(problem)
    name = job.dialect.name
    if job.settings.strict:
        if job.output:
            remove_file(job.output)
        say(f"error: {job.invocation.source}: {problem}", job.dialect)
        return FAILED
    say(f"warning: {job.invocation.source} is compiled by {name} alone: {problem}", job.dialect)
    count(f"compiled by {name} alone", _because(problem))
    return 0
