"""Objects of the programs of a corpus under policies."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from contextlib import ExitStack, closing
from pathlib import Path

from mlgo_gym.episode.metrics.programs import Program, modules_of
from mlgo_gym.evaluation.linking import PolicyObjects
from mlgo_gym.evaluation.runner import PLAIN, EvaluatedPolicies, RunnerSettings


class PolicyBuilds:
    """Objects of the programs of a corpus, by plain clang and by policies of inlining.

    Args:
        corpus: Name of the corpus.
        policies: The policies.
        resources: Closes the environment and removes the folders.
    """

    def __init__(self, corpus: str, policies: Sequence[str], resources: ExitStack) -> None:
        settings = RunnerSettings("mlgo/Inline-v0", corpus, policies={name: name for name in policies})
        evaluated = resources.enter_context(closing(EvaluatedPolicies(settings)))
        self.env = evaluated.env
        assert self.env.corpus.path is not None
        self.path = self.env.corpus.path
        self.objects = {
            name: PolicyObjects(evaluated, name, Path(resources.enter_context(tempfile.TemporaryDirectory())))
            for name in (PLAIN, *policies)
        }

    def files(self, program: Program, policy: str) -> dict[str, Path]:
        """Return the objects of a program by module, which are compiled if they are missing."""
        return {module: self.objects[policy].file(module) for module in modules_of(program, self.path)}
