"""Metrics beyond one object: the linked size, and runnable programs that are linked, run, checked and counted."""

from mlgo_gym.episode.metrics.counters import Counter, find_counter
from mlgo_gym.episode.metrics.instructions import ModulePrograms
from mlgo_gym.episode.metrics.linked import EstimatedLinkedSize, LinkedSize, PlainObjects
from mlgo_gym.episode.metrics.programs import Program, link_program, measure_program, program_counter, read_programs

__all__ = [
    "Counter",
    "EstimatedLinkedSize",
    "LinkedSize",
    "ModulePrograms",
    "PlainObjects",
    "Program",
    "find_counter",
    "link_program",
    "measure_program",
    "program_counter",
    "read_programs",
]
