"""Made-up evaluations for the tests of reports."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mlgo_gym.evaluation.configuration import Configuration
from mlgo_gym.evaluation.episode_result import EpisodeResult
from mlgo_gym.evaluation.module_facts import ModuleFacts, write_modules
from mlgo_gym.evaluation.result import EvaluationResult

SIZES = {"a": 100, "b": 200, "c": 300, "d": 400}
LANGUAGES = {"a": "C", "b": "C++", "c": "C", "d": "Rust"}


def configuration(**changes: Any) -> Configuration:
    """Return the configuration of a made-up evaluation."""
    fields: dict[str, Any] = {
        "environment": "mlgo/Inline-v0",
        "arguments": {},
        "metric": "text",
        "corpus": "folder",
        "modules": len(SIZES),
        "modules_digest": "abc",
        "levels": {"folder": {"Oz": len(SIZES)}},
        "clang": "22.1.8",
        "mlgo_gym": "0.1.0",
        "seed": 0,
        "policies": {"default": "default"},
    }
    return Configuration(**{**fields, **changes})


def made_up(
    policies: Mapping[str, Mapping[str, int]], *, baselines: Mapping[str, int] | None = None, **changes: Any
) -> EvaluationResult:
    """Return an evaluation with the sizes of policies by name and module; other sizes are plain clang's."""
    plain = {**SIZES, **(baselines or {})}
    episodes = tuple(
        EpisodeResult(
            policy, module, "p" if module < "c" else "q", "done", {"text": (found.get(module, size), size)},
            seconds=0.5,
        )
        for policy, found in policies.items()
        for module, size in plain.items()
    )  # fmt: skip
    modules = {name: ModuleFacts(name, f"digest {name}", None, LANGUAGES[name], ("-cc1", "-Oz")) for name in plain}
    kept = configuration(**{"policies": {name: name for name in policies}, **changes})
    return EvaluationResult(kept, episodes, modules)


def keep(result: EvaluationResult, folder: Path) -> Path:
    """Write an evaluation as `evaluate` would, and return its folder."""
    folder.mkdir(parents=True)
    (folder / "meta.json").write_text(json.dumps(result.configuration.to_json()))
    (folder / "episodes.jsonl").write_text("".join(f"{json.dumps(each.to_json())}\n" for each in result.episodes))
    write_modules(folder, result.modules.values())
    return folder
