"""The objects of a policy for links and programs: each module is compiled once."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from mlgo_gym.compiler.coroutine import drive
from mlgo_gym.compiler.decision import Decision
from mlgo_gym.corpus.compilation import Compilation
from mlgo_gym.corpus.flags import edit_flags
from mlgo_gym.evaluation.evaluated_policies import EvaluatedPolicies
from mlgo_gym.tasks.infos import decision_info
from mlgo_gym.tasks.task import read_action

PLAIN = "plain clang"
"""Policy name of clang without a policy."""


class PolicyObjects:
    """The objects of one policy, or of `PLAIN`, in a folder, each compiled once."""

    def __init__(self, evaluated: EvaluatedPolicies, policy: str, folder: Path) -> None:
        self._env = evaluated.env_of(policy)
        self._policy = evaluated.policies.get(policy)
        self._folder = folder
        self._folder.mkdir(exist_ok=True)
        self._files: dict[tuple[str, str | None, tuple[str, ...]], Path] = {}

    def file(self, name: str, lto: str | None = None, flags: tuple[str, ...] = ()) -> Path:
        """Return a module's object, or its bitcode for link time optimisation, compiled with further flags."""
        path = self._files.get((name, lto, flags))
        if path is None:
            compilation = self._env.compilation(self._env.corpus.module(name))
            compilation = replace(compilation, flags=(*compilation.flags, *flags))
            path = self._folder / f"{len(self._files)}.o"
            path.write_bytes(self._compile(compilation if lto is None else _for_lto(compilation, lto)))
            self._files[name, lto, flags] = path
        return path

    def clear(self) -> None:
        """Delete the files."""
        for path in self._files.values():
            path.unlink()
        self._files.clear()

    def _compile(self, compilation: Compilation) -> bytes:
        setup, task = self._env.setup, self._env.task
        features = self._policy is not None and setup.options.callee_features
        advisors = () if self._policy is None else task.advisors
        limit = setup.options.max_decisions
        decisions = 0

        def choose(decision: Decision) -> bytes:
            nonlocal decisions
            advice = None
            if self._policy is not None and (limit is None or decisions < limit):
                info = decision_info(task, decision, compilation.module.name, decisions)
                action = self._policy.act(task.observe(decision), info)
                advice = task.encode(decision, read_action(action, task.action_space))
            decisions += 1
            return task.default_advice(decision) if advice is None else advice

        with compilation.session(advisors, contexts=features, callee_features=features) as session:
            return drive(session, choose, setup.timeout).object_bytes


def _for_lto(compilation: Compilation, lto: str) -> Compilation:
    """Return the compile that the clang driver runs for link time optimisation."""
    flags = edit_flags(compilation.flags, delete=("-emit-obj",))
    return replace(compilation, flags=(*flags, "-emit-llvm-bc", f"-flto={lto}", "-flto-unit"))
