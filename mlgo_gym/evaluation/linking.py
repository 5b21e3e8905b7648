"""Linked files and runnable programs with the objects of each policy: sizes, and what the programs cost."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from mlgo_gym.compiler.coroutine import drive
from mlgo_gym.compiler.decision import Decision
from mlgo_gym.corpus.compilation import Compilation
from mlgo_gym.corpus.flags import without_flags
from mlgo_gym.corpus.recording.links import check_link_arguments, read_links, relink
from mlgo_gym.episode.metrics.counters import Counter
from mlgo_gym.episode.metrics.programs import link_program, measure_program, modules_of, program_counter, read_programs
from mlgo_gym.errors import MlgoError
from mlgo_gym.evaluation.runner import PLAIN, EvaluatedPolicies
from mlgo_gym.evaluation.statistics import Change
from mlgo_gym.evaluation.table import Table, change, percent
from mlgo_gym.llvm.sizes import object_sizes
from mlgo_gym.policies.protocol import decide
from mlgo_gym.storage.temporary_folders import temporary_folder
from mlgo_gym.tasks.task import read_action


class PolicyObjects:
    """The objects of one policy, or of `PLAIN`, in a folder, each compiled once."""

    def __init__(self, evaluated: EvaluatedPolicies, policy: str, folder: Path) -> None:
        self._env = evaluated.env_of(policy)
        self._policy = evaluated.policies.get(policy)
        self._folder = folder
        self._folder.mkdir(exist_ok=True)
        self._files: dict[tuple[str, str | None], Path] = {}

    def file(self, name: str, lto: str | None = None) -> Path:
        """Return a module's object, or its bitcode for link time optimisation."""
        path = self._files.get((name, lto))
        if path is None:
            compilation = self._env.compilation(self._env.corpus.module(name))
            path = self._folder / f"{len(self._files)}.o"
            if lto is not None:
                flags = without_flags(compilation.flags, ("-emit-obj",))
                compilation = replace(compilation, flags=(*flags, "-emit-llvm-bc", f"-flto={lto}", "-flto-unit"))
            path.write_bytes(self._compile(compilation))
            self._files[name, lto] = path
        return path

    def clear(self) -> None:
        """Delete the files."""
        for path in self._files.values():
            path.unlink()
        self._files.clear()

    def _compile(self, compilation: Compilation) -> bytes:
        setup, task = self._env.setup, self._env.task
        features = self._policy is not None and setup.options.callee_features
        code = self._policy is not None and setup.options.reads_code
        advisors = () if self._policy is None else task.advisors
        limit = setup.options.max_decisions
        decisions = 0

        def choose(decision: Decision) -> bytes:
            nonlocal decisions
            advice = None
            if self._policy is not None and (limit is None or decisions < limit):
                action = decide(self._policy, task, decision, compilation.module.name, decisions)
                advice = task.encode(decision, read_action(action, task.action_space))
            decisions += 1
            return task.default_advice(decision) if advice is None else advice

        with compilation.session(advisors, contexts=features or code, callee_features=features, code=code) as session:
            return drive(session, choose, setup.timeout).object_bytes


@dataclass(frozen=True, slots=True)
class LinkResult:
    """Size of one linked file with the objects of one policy.

    Attributes:
        policy: Name of the policy, or `PLAIN`.
        output: The linked file, relative to the root of the build.
        lto: `thin` or `full` for link time optimisation, else None.
        modules: Number of linked modules.
        objects: Bytes of the executable sections of their objects, compiled without link time optimisation; 0 after an
            error.
        linked: Bytes of the executable sections of the linked file; 0 after an error.
        error: Message of a failed compile or link.
    """

    policy: str
    output: str
    lto: str | None
    modules: int
    objects: int = 0
    linked: int = 0
    error: str | None = None


def linked_sizes(evaluated: EvaluatedPolicies, *, trust_flags: bool = False) -> Iterator[LinkResult]:
    """Repeat the links of a recorded build, first with plain clang's objects, then with those of each policy.

    With link time optimisation, the policy decides in the compile that produces bitcode, as it would in that build. The
    passes of the linker run without a policy. `trust_flags` runs links with arguments that do not only shape their
    result. Raises `MlgoError` if the corpus has no links.
    """
    env = evaluated.env
    build, limits = env.corpus.path, env.setup.options.compile_options.limits
    links = read_links(build) if build is not None and build.is_dir() else ()
    if build is None or not links:
        raise MlgoError(
            f"expected a corpus with link steps, got {env.corpus.name!r}; record a build with `mlgo-gym corpus record` "
            "and name its folder alone"
        )
    with temporary_folder() as scratch:
        (linked := scratch / "linked").mkdir()
        for policy in (PLAIN, *evaluated.settings.policies):
            objects = PolicyObjects(evaluated, policy, scratch / "policy")
            libraries: dict[str, Path] = {}
            for link in links:
                row = LinkResult(policy, link.output, link.lto, len(link.modules))
                try:
                    if not trust_flags:
                        check_link_arguments(link)
                    size = sum(object_sizes(objects.file(name).read_bytes()).text for name in link.modules)
                    files = {name: objects.file(name, link.lto) for name in link.modules}
                    output = linked / str(len(libraries))
                    relink(
                        link,
                        build,
                        files,
                        output,
                        env.toolchain,
                        libraries=libraries,
                        trust_flags=trust_flags,
                        limits=limits,
                    )
                    libraries[link.output] = output
                    yield replace(row, objects=size, linked=object_sizes(output.read_bytes()).text)
                except MlgoError as error:
                    yield replace(row, error=str(error))
            objects.clear()


def linked_table(rows: Sequence[LinkResult]) -> Table:
    """Return one row per policy and linked file, and one for all files of a policy, against plain clang's same link."""
    plain = {row.output: row for row in rows if row.policy == PLAIN and row.error is None}
    cells: list[tuple[str, ...]] = []
    for policy in dict.fromkeys(row.policy for row in rows):
        pairs = [(row, plain.get(row.output)) for row in rows if row.policy == policy]
        complete = [(row, before) for row, before in pairs if before is not None and row.error is None]
        for row, before in pairs:
            title = f"{row.output} ({row.lto} LTO)" if row.lto else row.output
            if before is None or row.error is not None:
                cells.append((policy, title, str(row.modules), "-", "-", "not linked", "-", "-"))
            else:
                cells.append((policy, title, str(row.modules), *_compared([(row, before)])))
        if len(complete) > 1:
            cells.append((policy, "all", str(sum(row.modules for row, _ in complete)), *_compared(complete)))
    sizes = ("object bytes", "change", "linked bytes", "change", "share of gain")
    title = "Executable sections of objects and of linked files; share of gain: linked reduction / object reduction"
    return Table(title, ("policy", "linked file", "modules", *sizes), tuple(cells))


def _compared(pairs: Sequence[tuple[LinkResult, LinkResult]]) -> tuple[str, ...]:
    objects = Change(tuple((row.objects, before.objects) for row, before in pairs))
    linked = Change(tuple((row.linked, before.linked) for row, before in pairs))
    gained = objects.baseline - objects.value
    share = f"{(linked.baseline - linked.value) / gained:.0%}" if gained else "-"
    return f"{objects.value:,}", f"{objects.total:+.2%}", f"{linked.value:,}", f"{linked.total:+.2%}", share


@dataclass(frozen=True, slots=True)
class ProgramResult:
    """Size and cost of one program with the objects of one policy.

    Attributes:
        policy: Name of the policy, or `PLAIN`.
        program: Name of the program.
        held_out: Whether no bundled label is of its project.
        modules: Number of its modules.
        counter: Counter of the instructions: `hardware` or `cachegrind`.
        size: Bytes of the functions of its modules in the linked file; the C library does not count.
        instructions: Executed instructions of all runs.
        seconds: Wall time of all runs.
        memory: Largest resident memory of a run in bytes.
        error: Message of a failed compile, link or run; the numbers are 0 then.
    """

    policy: str
    program: str
    held_out: bool
    modules: int
    counter: Counter
    size: int = 0
    instructions: int = 0
    seconds: float = 0.0
    memory: int = 0
    error: str | None = None


def run_programs(evaluated: EvaluatedPolicies, *, trust: bool = False) -> Iterator[ProgramResult]:
    """Link and run the programs of a corpus, first with plain clang's objects, then with those of each policy.

    A program that fails, hangs or prints a wrong output has an error, and the others run.

    `trust` allows programs of a corpus that does not come with this package. Raises `MlgoError` if the corpus has no
    programs, they are not trusted, or nothing counts instructions.
    """
    env = evaluated.env
    programs = read_programs(env.corpus, trust=trust)
    folder = env.corpus.path
    assert folder is not None, "read_programs() needs it"
    counter = program_counter(programs[0], folder)
    for policy in (PLAIN, *evaluated.settings.policies):
        with temporary_folder() as scratch:
            objects = PolicyObjects(evaluated, policy, scratch)
            for number, program in enumerate(programs):
                row = ProgramResult(policy, program.name, program.held_out, 0, counter)
                executable = scratch / f"program-{number}"
                try:
                    files = {name: objects.file(name) for name in modules_of(program, folder)}
                    row = replace(row, modules=len(files))
                    link_program(program, folder, files, executable, env.toolchain)
                    run = measure_program(program, folder, files, executable, counter)
                except MlgoError as error:
                    yield replace(row, error=str(error))
                else:
                    size, count, seconds, memory = run.size, run.instructions, run.seconds, run.memory
                    yield replace(row, size=size, instructions=count, seconds=seconds, memory=memory)


def programs_tables(rows: Sequence[ProgramResult]) -> list[Table]:
    """Return one table per policy: a row per program, and one for all programs, against plain clang."""
    policies = [policy for policy in dict.fromkeys(row.policy for row in rows) if policy != PLAIN]
    return [_table(rows, policy) for policy in policies or [PLAIN]]


def _table(rows: Sequence[ProgramResult], policy: str) -> Table:
    plain = {row.program: row for row in rows if row.policy == PLAIN and row.error is None}
    own = [row for row in rows if row.policy == policy]
    pairs = [(row, plain[row.program]) for row in own if row.error is None and row.program in plain]
    cells = [
        (
            row.program,
            f"{row.size:,}",
            percent(row.size / max(before.size, 1) - 1),
            f"{row.instructions / 1e6:,.1f}",
            percent(row.instructions / before.instructions - 1),
            f"{row.seconds * 1000:,.0f}",
            f"{row.memory >> 10:,}",
        )
        for row, before in pairs
    ]
    cells += [(row.program, "failed", "-", "-", "-", "-", "-") for row in own if row.error is not None]
    counters = ", ".join(sorted({row.counter for row in rows}))
    title = f"Programs with {policy}, against plain clang; instructions counted by {counters}"
    if len(pairs) > 1 and policy != PLAIN:
        size, instructions = (
            change(Change(tuple((getattr(row, name), getattr(before, name)) for row, before in pairs)).estimate)
            for name in ("size", "instructions")
        )
        title += (
            f"; geometric means in percent with 95 % interval over programs: bytes {size}, instructions {instructions}"
        )
    return Table(title, ("program", "bytes", "change", "million", "change", "ms", "KiB"), tuple(cells))
