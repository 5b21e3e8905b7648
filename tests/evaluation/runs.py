"""Made-up evaluations for the tests of reports, and a reader of pages."""

import json
from collections.abc import Mapping
from dataclasses import asdict
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

from mlgo_gym.evaluation.record import Configuration, EpisodeRecord, ModuleFacts
from mlgo_gym.evaluation.result import EvaluationResult, write_modules

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


CONFIGURATION = configuration()


def record(policy: str, module: str, size: int = 90, baseline: int = 100, **more: Any) -> EpisodeRecord:
    """Return the record of an episode from policy, module and text sizes."""
    fields: dict[str, Any] = {"project": "p", "status": "done", "metrics": {"text": (size, baseline)}}
    return EpisodeRecord(policy, module, **{**fields, **more})


def made_up(
    policies: Mapping[str, Mapping[str, int]], *, baselines: Mapping[str, int] | None = None, **changes: Any
) -> EvaluationResult:
    """Return an evaluation with the sizes of policies by name and module; other sizes are plain clang's."""
    plain = {**SIZES, **(baselines or {})}
    episodes = tuple(
        record(policy, module, sizes.get(module, size), size, project="p" if module < "c" else "q", seconds=0.5)
        for policy, sizes in policies.items()
        for module, size in plain.items()
    )
    modules = {name: ModuleFacts(name, f"digest {name}", None, LANGUAGES[name], ("-cc1", "-Oz")) for name in plain}
    settings = configuration(**{"policies": {name: name for name in policies}, **changes})
    return EvaluationResult(settings, episodes, modules)


def keep(result: EvaluationResult, folder: Path) -> Path:
    """Write an evaluation as `evaluate` would, and return its folder."""
    folder.mkdir(parents=True)
    (folder / "meta.json").write_text(json.dumps(result.configuration.to_json()))
    (folder / "episodes.jsonl").write_text("".join(f"{json.dumps(asdict(each))}\n" for each in result.episodes))
    write_modules(folder, result.modules.values())
    return folder


class Page(HTMLParser):
    """Collects the links and tags of a page, and checks that its elements are closed in order."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.links: list[str] = []
        self.ids: list[str] = []
        self.tags: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_startendtag(tag, attrs)
        if tag not in ("meta", "link", "br", "path", "img"):
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.links += [value or "" for name, value in attrs if name in ("href", "src", "xlink:href")]
        self.ids += [value or "" for name, value in attrs if name == "id"]

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag
