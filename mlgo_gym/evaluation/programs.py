"""Runnable programs of a corpus with the objects of each policy: their size, instructions, time and memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from mlgo_gym.episode.metrics.counters import Counter
from mlgo_gym.episode.metrics.programs import link_program, measure_program, modules_of, program_counter, read_programs
from mlgo_gym.errors import MlgoError
from mlgo_gym.evaluation.evaluated_policies import PLAIN, EvaluatedPolicies, PolicyObjects
from mlgo_gym.evaluation.statistics import Change, estimates
from mlgo_gym.evaluation.table import Table, change, percent
from mlgo_gym.storage.temporary_folders import temporary_folder


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

    `trust` allows programs of a corpus that does not come with this package.

    Raises:
        MlgoError: The corpus has no programs, they are not trusted, or nothing counts instructions.
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
            change(estimates(Change(tuple((getattr(row, name), getattr(before, name)) for row, before in pairs))).mean)
            for name in ("size", "instructions")
        )
        title += f"; geometric means in percent with 95 % interval: bytes {size}, instructions {instructions}"
    return Table(title, ("program", "bytes", "change", "million", "change", "ms", "KiB"), tuple(cells))
