"""Runnable programs of a corpus: linked from its modules, run, checked, and counted."""

from mlgo_gym.programs.counters import Count, Counter, find_counter
from mlgo_gym.programs.description import PROGRAMS_FILE, Program, Run, read_programs
from mlgo_gym.programs.measurement import ProgramMeasurement, link_program, measure_program, program_counter
from mlgo_gym.programs.module_programs import ExecutedInstructions, ModulePrograms

__all__ = [
    "PROGRAMS_FILE",
    "Count",
    "Counter",
    "ExecutedInstructions",
    "ModulePrograms",
    "Program",
    "ProgramMeasurement",
    "Run",
    "find_counter",
    "link_program",
    "measure_program",
    "program_counter",
    "read_programs",
]
