"""Metrics beyond one object: the linked size, and runnable programs that are linked, run, checked and counted."""

from mlgo_gym.tasks.metrics.counters import Count, Counter, find_counter
from mlgo_gym.tasks.metrics.estimated_linked_size import EstimatedLinkedSize
from mlgo_gym.tasks.metrics.linked_size import LinkedSize
from mlgo_gym.tasks.metrics.module_programs import ExecutedInstructions, ModulePrograms
from mlgo_gym.tasks.metrics.plain_objects import PlainObjects
from mlgo_gym.tasks.metrics.program_run import ProgramMeasurement, link_program, measure_program, program_counter
from mlgo_gym.tasks.metrics.programs_file import PROGRAMS_FILE, Program, Run, read_programs

__all__ = [
    "PROGRAMS_FILE",
    "Count",
    "Counter",
    "EstimatedLinkedSize",
    "ExecutedInstructions",
    "LinkedSize",
    "ModulePrograms",
    "PlainObjects",
    "Program",
    "ProgramMeasurement",
    "Run",
    "find_counter",
    "link_program",
    "measure_program",
    "program_counter",
    "read_programs",
]
