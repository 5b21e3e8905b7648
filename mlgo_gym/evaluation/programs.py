"""Runnable programs of a corpus with the objects of each policy: their size, instructions, time and memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from mlgo_gym.errors import MlgoError
from mlgo_gym.evaluation.compiled_objects import PLAIN, PolicyObjects
from mlgo_gym.evaluation.evaluated_policies import EvaluatedPolicies
from mlgo_gym.evaluation.statistics import Change, Estimate, estimates
from mlgo_gym.evaluation.table import Table, change, percent
from mlgo_gym.storage.temporary_folders import temporary_folder
from mlgo_gym.tasks.metrics import Counter, link_program, measure_program, program_counter, read_programs
from mlgo_gym.tasks.metrics.programs import modules_of


@dataclass(frozen=True, slots=True)
class ProgramResult:
    """Size and cost of one program with the objects of one policy.

    Attributes:
        policy: Name of the policy, or `PLAIN`.
        program: Name of the program.
        held_out: Whether no bundled policy was trained on its project.
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

    Args:
        evaluated: the environment, its corpus and the policies.
        trust: whether to run programs of a corpus that does not come with this package.

    Raises:
        MlgoError: the corpus has no programs, they are not trusted, or nothing counts instructions.
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
                executable = scratch / f"program-{number}"
                names: tuple[str, ...] = ()
                try:
                    names = modules_of(program, folder)
                    files = {name: objects.file(name) for name in names}
                    link_program(program, folder, files, executable, env.toolchain)
                    found = measure_program(program, folder, files, executable, counter)
                except MlgoError as error:
                    given = (policy, program.name, program.held_out, len(names), counter)
                    yield ProgramResult(*given, error=str(error))
                    continue
                yield ProgramResult(
                    policy,
                    program.name,
                    program.held_out,
                    len(names),
                    counter,
                    found.size,
                    found.instructions,
                    found.seconds,
                    found.memory,
                )


def paired(rows: Sequence[ProgramResult], policy: str) -> list[tuple[ProgramResult, ProgramResult]]:
    """Return the complete results of a policy, each with that of plain clang."""
    plain = {row.program: row for row in rows if row.policy == PLAIN and row.error is None}
    return [
        (row, plain[row.program]) for row in rows if row.policy == policy and row.error is None and row.program in plain
    ]


def programs_tables(rows: Sequence[ProgramResult]) -> list[Table]:
    """Return one table per policy: a row per program, and one for all programs, against plain clang."""
    policies = [policy for policy in dict.fromkeys(row.policy for row in rows) if policy != PLAIN]
    return [_table(rows, policy) for policy in policies or [PLAIN]]


def _table(rows: Sequence[ProgramResult], policy: str) -> Table:
    pairs = paired(rows, policy)
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
    failed = (row.program for row in rows if row.policy == policy and row.error is not None)
    cells += [(name, "failed", "-", "-", "-", "-", "-") for name in failed]
    counters = ", ".join(sorted({row.counter for row in rows}))
    title = f"Programs with {policy}, against plain clang; instructions counted by {counters}"
    if len(pairs) > 1 and policy != PLAIN:
        size, instructions = (mean_change(pairs, name) for name in ("size", "instructions"))
        title += f"; geometric means in percent with 95 % interval: bytes {change(size)}, instructions "
        title += change(instructions)
    return Table(title, ("program", "bytes", "change", "million", "change", "ms", "KiB"), tuple(cells))


def mean_change(pairs: Sequence[tuple[ProgramResult, ProgramResult]], name: str) -> Estimate:
    """Return the change of the geometric mean of a field over programs, with its interval."""
    return estimates(Change(tuple((getattr(row, name), getattr(before, name)) for row, before in pairs))).mean
