"""What the gains of policies in object files become in the programs: a build's recorded links, done with each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from mlgo_gym.corpus.compilation import Compilation
from mlgo_gym.corpus.flags import edit_flags
from mlgo_gym.corpus.links import Link, read_links
from mlgo_gym.corpus.relink import link_again
from mlgo_gym.env import CompilerEnv
from mlgo_gym.errors import MlgoError
from mlgo_gym.evaluation.contestants import Contestants
from mlgo_gym.evaluation.table import Table
from mlgo_gym.llvm.object_file import object_sizes
from mlgo_gym.policies import Policy
from mlgo_gym.session.session import Session
from mlgo_gym.storage.leftovers import temporary_folder
from mlgo_gym.tasks.action import read_action

PLAIN = "plain clang"
"""What the rows of the compiler itself are called."""


@dataclass(frozen=True, slots=True)
class LinkedSize:
    """What one policy's objects come to in one linked file.

    Attributes:
        policy: its name, or `PLAIN`.
        output: the file, relative to the root of the build.
        lto: `thin` or `full` where code is optimised at the link, else None.
        modules: how many modules are linked.
        objects: the bytes of the executable sections of their objects.
        linked: those of the linked file; 0 where it could not be linked.
        error: why it could not be compiled or linked.
    """

    policy: str
    output: str
    lto: str | None
    modules: int
    objects: int
    linked: int
    error: str | None = None

    def to_json(self) -> dict[str, Any]:
        """Return JSON-able data."""
        return asdict(self)


class LinkedEvaluation:
    """Links what a build linked, with the objects of each policy and of plain clang.

    With link time optimisation a module is compiled as for that: the policy decides up to the object, which is bitcode,
    and the linker's own passes go on from there with nobody asked, as they would in that build. The bytes of the
    objects are then those of a compile without.

    Args:
        contestants: the policies.
        trust: whether a link is done whatever its arguments are; else only with those that shape its result.

    Raises:
        MlgoError: the corpus has no links.
    """

    def __init__(self, contestants: Contestants, *, trust: bool = False) -> None:
        folder = contestants.env.corpus.path
        self._links = read_links(folder) if folder is not None and folder.is_dir() else ()
        if folder is None or not self._links:
            raise MlgoError(
                f"the corpus {contestants.env.corpus.name} has no link steps; `mlgo-gym corpus record` keeps those of "
                "a build, so record it, and name that folder alone"
            )
        self._folder = folder
        self._contestants = contestants
        self._trust = trust

    @property
    def outputs(self) -> tuple[str, ...]:
        """The files that are linked."""
        return tuple(link.output for link in self._links)

    def run(self) -> Iterator[LinkedSize]:
        """Link every file as plain clang's objects make it, then as each policy's do; yield each as it is there."""
        for policy in (PLAIN, *self._contestants.settings.policies):
            with temporary_folder() as scratch:
                objects = _Objects(self._contestants, policy, scratch)
                libraries: dict[str, Path] = {}
                for number, link in enumerate(self._links):
                    yield self._link(link, policy, objects, libraries, scratch / f"linked-{number}")

    def _link(self, link: Link, policy: str, objects: _Objects, libraries: dict[str, Path], output: Path) -> LinkedSize:
        text, linked, error = 0, 0, None
        try:
            text = sum(objects.text(name) for name in link.modules)
            files = {name: objects.file(name, link.lto) for name in link.modules}
            link_again(
                link,
                self._folder,
                files,
                output,
                self._contestants.env.toolchain,
                libraries=libraries,
                trust=self._trust,
                limits=self._contestants.env.setup.settings.limits,
            )
            libraries[link.output] = output
            linked = object_sizes(output.read_bytes()).text
        except MlgoError as problem:
            error = str(problem)
        return LinkedSize(policy, link.output, link.lto, len(link.modules), text, linked, error)


class _Objects:
    """The objects of one policy, each compiled once."""

    def __init__(self, contestants: Contestants, policy: str, folder: Path) -> None:
        self._env: CompilerEnv = contestants.deciding_env(policy)
        self._policy: Policy | None = contestants.policies.get(policy)
        self._timeout = contestants.timeout
        self._most = contestants.settings.arguments.get("max_decisions")
        self._folder = folder
        self._files: dict[tuple[str, str | None], Path] = {}

    def text(self, name: str) -> int:
        """Return the bytes of a module's executable sections without link time optimisation."""
        return object_sizes(self.file(name, None).read_bytes()).text

    def file(self, name: str, lto: str | None) -> Path:
        """Return a module's object, or its bitcode for link time optimisation."""
        known = self._files.get((name, lto))
        if known is None:
            compilation = self._env.compilation(self._env.corpus.module(name))
            known = self._folder / f"{len(self._files)}.o"
            known.write_bytes(self._compile(compilation if lto is None else _for_lto(compilation, lto)))
            self._files[name, lto] = known
        return known

    def _compile(self, compilation: Compilation) -> bytes:
        task = self._env.task
        advisors = () if self._policy is None else task.advisors
        asked = 0
        with Session(
            compilation.command, advisors, confined=compilation.confined, limits=compilation.limits
        ) as session:
            while (decision := session.wait(self._timeout)) is not None:
                advice = None
                if self._policy is not None and (self._most is None or asked < self._most):
                    info = {
                        "module": compilation.module.name,
                        "context": decision.context,
                        "decision": asked,
                        "default_action": task.default_action(decision),
                    }
                    mask = task.action_mask(decision)
                    action = self._policy.act(
                        task.observe(decision), info if mask is None else {**info, "action_mask": mask}
                    )
                    advice = task.encode(decision, read_action(action, task.action_space))
                session.advise(task.default_advice(decision) if advice is None else advice)
                asked += 1
            return session.finish(self._timeout).object_bytes


def _for_lto(compilation: Compilation, lto: str) -> Compilation:
    """Return the compile as it is made for link time optimisation: clang's driver adds these flags."""
    flags = edit_flags(compilation.flags, delete=("-emit-obj",))
    return replace(compilation, flags=(*flags, "-emit-llvm-bc", f"-flto={lto}", "-flto-unit"))


def linked_table(rows: Sequence[LinkedSize]) -> Table:
    """Return a row for each policy and linked file, and one for all files of a policy, against plain clang."""
    plain = {row.output: row for row in rows if row.policy == PLAIN and row.error is None}
    cells: list[tuple[str, ...]] = []
    for policy in dict.fromkeys(row.policy for row in rows):
        pairs = [(row, plain.get(row.output)) for row in rows if row.policy == policy]
        good = [(row, before) for row, before in pairs if before is not None and row.error is None]
        for row, before in pairs:
            name = f"{row.output} ({row.lto} LTO)" if row.lto else row.output
            if before is None or row.error is not None:
                cells.append((policy, name, str(row.modules), "-", "-", "not linked", "-", "-"))
            else:
                cells.append((policy, name, str(row.modules), *_compared([(row, before)])))
        if len(good) > 1:
            cells.append((policy, "all", str(sum(row.modules for row, _ in good)), *_compared(good)))
    columns = (
        "policy",
        "linked file",
        "modules",
        "object bytes",
        "change",
        "linked bytes",
        "change",
        "left of the gain",
    )
    return Table("Executable sections of objects, and of what they are linked into", columns, tuple(cells))


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
