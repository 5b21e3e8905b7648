"""Every command of every page runs, or is listed with a reason; every reason is that of a command."""

from __future__ import annotations

import re
import shutil
from itertools import chain

import pytest

from benchmarks import pages

TEXTS = {page: (pages.ROOT / page).read_text(encoding="utf-8") for page in pages.pages()}
OFFLINE = {page: pages.steps(page, text, network=False) for page, text in TEXTS.items()}
STEPS = [*chain(*OFFLINE.values())]
COMMANDS = [step.text for page, steps in OFFLINE.items() if page not in pages.ELSEWHERE for step in steps]


def only(page: str, text: str, *, network: bool = False) -> pages.Step:
    (step,) = pages.steps(page, text, network=network)
    return step


def test_every_step_is_run_or_has_a_reason() -> None:
    assert len(STEPS) > 100
    assert sum(bool(step.words) for step in STEPS) > 30
    assert all(bool(step.words) != bool(step.reason) for step in STEPS)


@pytest.mark.parametrize("page", list(TEXTS))
def test_the_language_of_every_block_is_known(page: str) -> None:
    languages = re.findall(r"^\s*```(\w*)[^\n]*\n.*?^\s*```$", TEXTS[page], re.MULTILINE | re.DOTALL)
    assert set(languages) <= {"python", "sh", "bash", "console", "text", "json", "toml"}


def test_every_page_with_a_reason_has_commands() -> None:
    assert [page for page in pages.ELSEWHERE if not OFFLINE.get(page)] == []


@pytest.mark.parametrize("start", list(chain(*pages.SKIPPED.values())))
def test_every_reason_is_that_of_a_command(start: str) -> None:
    assert [command for command in COMMANDS if command.startswith(start)]


@pytest.mark.parametrize("pattern", [*pages.NEEDED, pages.DATASETS.pattern, *(each for each, _ in pages.SMALLER)])
def test_every_pattern_is_that_of_a_command(pattern: str) -> None:
    offline = [pages.DATASETS.sub("builtin", command) for command in COMMANDS]
    assert [command for command in COMMANDS + offline if re.search(pattern, command)]


def test_every_prepared_page_runs_a_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pages, "_is_installed", lambda name: True)
    texts = {page: TEXTS[page] for page in pages.INPUTS}
    steps = {page: pages.steps(page, text, network=False) for page, text in texts.items()}
    assert [page for page, of_page in steps.items() if not any(step.words for step in of_page)] == []


@pytest.mark.parametrize("reason", [*pages.ELSEWHERE.values(), *pages.SKIPPED])
def test_every_file_that_a_reason_names_is_there(reason: str) -> None:
    assert [
        name for name in re.findall(r"(?:tests|benchmarks)/[\w/.]*\w", reason) if not (pages.ROOT / name).exists()
    ] == []


def test_commands_that_need_a_missing_program_are_skipped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: None)
    step = only("a.md", "```sh\nclang-22 -c source.c\n```\n")
    assert step.reason == "needs clang-22, llvm-config-22, opt-22, ld.lld-22"
    monkeypatch.setattr(shutil, "which", lambda name: f"/usr/bin/{name}")
    assert only("a.md", "```sh\nclang-22 -c source.c\n```\n").words == ("bash", "-c", "clang-22 -c source.c")


def test_without_a_network_the_packaged_corpus_replaces_datasets() -> None:
    text = "Text:\n\n    mlgo-gym evaluate mlgo/Inline-v0 --corpus zstd,builtin@Os \\\n        --policy never  # two\n"
    command = "mlgo-gym evaluate mlgo/Inline-v0 --corpus {} --policy never --limit 1"
    assert only("a.md", text).words[-1] == command.format("builtin")
    assert only("a.md", text, network=True).words[-1] == command.format("zstd,builtin@Os")


def test_steps_are_in_the_order_of_the_page_and_its_python_is_one_program() -> None:
    text = "```python\na = 1\n```\n\n    first\n\n```python\nprint(a)\n```\n\n```console\nsecond\n```\n"
    assert [step.text for step in pages.steps("a.md", text, network=False)] == ["first", "a = 1\nprint(a)\n", "second"]
