"""Sizes of linked files: the recorded links of a build, repeated with the objects of each policy."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mlgo_gym.corpus.recording.links import read_links
from mlgo_gym.corpus.recording.relink import relink
from mlgo_gym.errors import MlgoError
from mlgo_gym.evaluation.compiled_objects import PLAIN, PolicyObjects
from mlgo_gym.evaluation.evaluated_policies import EvaluatedPolicies
from mlgo_gym.evaluation.table import Table
from mlgo_gym.llvm.object_file import object_sizes
from mlgo_gym.storage.temporary_folders import temporary_folder


@dataclass(frozen=True, slots=True)
class LinkedSize:
    """Size of one linked file with the objects of one policy.

    Attributes:
        policy: Name of the policy, or `PLAIN`.
        output: The linked file, relative to the root of the build.
        lto: `thin` or `full` for link time optimisation, else None.
        modules: Number of linked modules.
        objects: Bytes of the executable sections of their objects, compiled without link time optimisation.
        linked: Bytes of the executable sections of the linked file; 0 after an error.
        error: Message of a failed compile or link.
    """

    policy: str
    output: str
    lto: str | None
    modules: int
    objects: int
    linked: int
    error: str | None = None


def linked_sizes(evaluated: EvaluatedPolicies, *, trust_flags: bool = False) -> Iterator[LinkedSize]:
    """Repeat the links of a recorded build, first with plain clang's objects, then with those of each policy.

    With link time optimisation, the policy decides in the compile that produces bitcode, as it would in that build. The
    passes of the linker then run without a policy. `trust_flags` allows link arguments that do more than shape the
    result.

    Raises:
        MlgoError: The corpus has no links.
    """
    env = evaluated.env
    build = env.corpus.path
    links = read_links(build) if build is not None and build.is_dir() else ()
    if build is None or not links:
        raise MlgoError(
            f"expected a corpus with link steps, got {env.corpus.name!r}; record a build with `mlgo-gym corpus record` "
            "and name its folder alone"
        )
    given: dict[str, Any] = {"trust_flags": trust_flags, "limits": env.setup.options.compile_options.limits}
    for policy in (PLAIN, *evaluated.settings.policies):
        with temporary_folder() as scratch:
            objects = PolicyObjects(evaluated, policy, scratch)
            libraries: dict[str, Path] = {}
            for number, link in enumerate(links):
                output = scratch / f"linked-{number}"
                text, linked, error = 0, 0, None
                try:
                    text = sum(object_sizes(objects.file(name, None).read_bytes()).text for name in link.modules)
                    files = {name: objects.file(name, link.lto) for name in link.modules}
                    relink(link, build, files, output, env.toolchain, libraries=libraries, **given)
                    libraries[link.output] = output
                    linked = object_sizes(output.read_bytes()).text
                except MlgoError as problem:
                    error = str(problem)
                yield LinkedSize(policy, link.output, link.lto, len(link.modules), text, linked, error)


def linked_table(rows: Sequence[LinkedSize]) -> Table:
    """Return one row per policy and linked file, and one for all files of a policy, against plain clang."""
    plain = {row.output: row for row in rows if row.policy == PLAIN and row.error is None}
    cells: list[tuple[str, ...]] = []
    for policy in dict.fromkeys(row.policy for row in rows):
        pairs = [(row, plain.get(row.output)) for row in rows if row.policy == policy]
        complete = [(row, before) for row, before in pairs if before is not None and row.error is None]
        for row, before in pairs:
            name = f"{row.output} ({row.lto} LTO)" if row.lto else row.output
            if before is None or row.error is not None:
                cells.append((policy, name, str(row.modules), "-", "-", "not linked", "-", "-"))
            else:
                cells.append((policy, name, str(row.modules), *_compared([(row, before)])))
        if len(complete) > 1:
            cells.append((policy, "all", str(sum(row.modules for row, _ in complete)), *_compared(complete)))
    sizes = ("object bytes", "change", "linked bytes", "change", "share of gain")
    title = "Executable sections of objects and of linked files; share of gain: linked reduction / object reduction"
    return Table(title, ("policy", "linked file", "modules", *sizes), tuple(cells))


def _compared(pairs: Sequence[tuple[LinkedSize, LinkedSize]]) -> tuple[str, ...]:
    objects, linked = (sum(getattr(row, name) for row, _ in pairs) for name in ("objects", "linked"))
    objects_before, linked_before = (sum(getattr(row, name) for _, row in pairs) for name in ("objects", "linked"))
    gained = objects_before - objects
    return (
        f"{objects:,}",
        f"{objects / max(objects_before, 1) - 1:+.2%}",
        f"{linked:,}",
        f"{linked / max(linked_before, 1) - 1:+.2%}",
        f"{(linked_before - linked) / gained:.0%}" if gained else "-",
    )
