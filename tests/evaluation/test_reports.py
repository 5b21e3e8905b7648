"""Comparisons of evaluations, and the report as a page."""

import re
import shlex
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from mlgo_gym import MlgoError, evaluate
from mlgo_gym.evaluation.comparison import compare, differences, on_common_modules
from mlgo_gym.evaluation.figures import figures_of
from mlgo_gym.evaluation.report import command_of, notes, page
from mlgo_gym.evaluation.result import EvaluationResult, load_result, load_results
from tests.cli.command import run, run_json
from tests.evaluation.runs import Page, keep, made_up

SVG = "{http://www.w3.org/2000/svg}"
BEFORE = made_up({"default": {}, "rule": {"a": 90, "b": 190, "c": 310}})
AFTER = made_up({"default": {}, "rule": {"a": 90, "b": 180, "c": 320}, "new": {"a": 50}}, seed=3)
RUN = made_up({"default": {}, "<my_rule> & co": {"a": 50, "b": 260, "d": 399}, "threshold:5": {"c": 1}})
OTHER = made_up({"threshold:5": {"c": 250}})


OTHER_MODULES = replace(BEFORE.configuration, modules_digest="other")


def first_difference(first: EvaluationResult, other: EvaluationResult) -> str:
    """Return the first reason why two evaluations cannot be compared; empty if they can."""
    return next(differences(first, other), "")


def test_policies_of_one_name_are_compared_module_by_module_and_others_with_all() -> None:
    found = compare({"before": BEFORE, "after": AFTER})
    assert [(later.policy, before.policy) for later, before, _ in found.pairs] == [
        ("default", "default"), ("rule", "rule"),
    ]  # fmt: skip
    _, _, pair = found.pairs[1]
    assert (pair.better, pair.equal, pair.worse) == (1, 2, 1)
    assert pair.probability == 0.5
    assert found.notes == ("seed: 0 in before, 3 in after", "only in after: new")
    assert "only in before: new" in compare({"before": AFTER, "after": BEFORE}).notes
    text = "\n".join(table.as_text() for table in found.tables())
    assert "Smaller now: rule" in text
    assert "Larger now: rule" in text
    found = compare({"before": made_up({"one": {}}), "after": made_up({"two": {"a": 1}, "three": {}})})
    assert [(later.policy, before.policy) for later, before, _ in found.pairs] == [("two", "one"), ("three", "one")]
    other = replace(BEFORE, configuration=replace(BEFORE.configuration, policies={"rule": "rule 1234"}))
    assert "rule is another policy in after: rule 1234, was rule" in compare({"before": BEFORE, "after": other}).notes
    with pytest.raises(MlgoError, match="two or more evaluations"):
        compare({"before": BEFORE})


def with_module(name: str, **changes: Any) -> EvaluationResult:
    modules = {**BEFORE.modules, name: replace(BEFORE.modules[name], **changes)}
    return replace(made_up({"rule": {}}, modules_digest="other"), modules=modules)


def rule(**changes: Any) -> EvaluationResult:
    return made_up({"rule": {}}, **changes)


FEWER = {name: facts for name, facts in BEFORE.modules.items() if name != "a"}
NESTED = {"compile_options": {"fork_resets": False, "extra_flags": ["-g"]}}


def test_other_settings_are_refused_and_arguments_that_change_no_size_are_not() -> None:
    for other, named in (
        (rule(clang="19.1.0"), "clang is 22.1.8 in the first and 19.1.0 in the second"),
        (rule(metric="object"), "metric is text"),
        (rule(arguments={"max_decisions": 9}), "the argument max_decisions is None in the first and 9 in the second"),
        (rule(arguments=NESTED), "compile_options is None in the first and {'extra_flags': ['-g']}"),
        (rule(modules_digest="other"), "the modules have other contents or flags: files"),
        (with_module("b", digest="new"), "contents or flags: b"),
        (with_module("c", flags=("-cc1", "-Os")), "contents or flags: c"),
        (replace(with_module("c", flags=("-Os",)), modules=FEWER), "contents or flags: a"),
        (rule(baselines={"c": 301}), "plain clang's text of c is 300 in the first and 301 in the second"),
    ):
        assert named in first_difference(BEFORE, other)
        assert first_difference(other, BEFORE)
    options = {"fork_resets": False, "memory_limit": None, "preoptimize": False, "trust_flags": True, "timeout": 3}
    arguments = {"callee_features": True, "reward": "bytes", "credit": True, "module_order": "cycle"}
    same = rule(arguments={**arguments, "observation": "vector", "compile_options": options})
    assert first_difference(BEFORE, same) == ""


def test_a_card_is_good_bad_or_neither() -> None:
    pytest.importorskip("matplotlib", reason="Matplotlib is not installed")
    text = page({"one": made_up({"less": {"a": 1}, "more": {"a": 9999}, "same": {}})})
    assert re.findall(r'<div class="figure (\w*)">(.)', text) == [("good", "-"), ("bad", "+"), ("", "n")]


def test_the_command_prints_tables_or_json(tmp_path: Path) -> None:
    folders = (keep(BEFORE, tmp_path / "x" / "run"), keep(AFTER, tmp_path / "y" / "run"))
    text = run("compare", *folders)
    assert (text.exit_code, "y/run against x/run: text" in text.stdout) == (0, True)
    data = run_json("compare", *folders)
    assert data["pairs"][1]["worst"][0]["module"] == "c"
    runs = [data["pairs"][1][name] for name in ("first", "second")]
    assert runs == [{"run": run, "policy": "rule"} for run in ("y/run", "x/run")]
    with pytest.raises(MlgoError, match=r"got .* twice; name it once"):
        load_results([tmp_path, tmp_path / "." / ""])


def without(result: EvaluationResult, policy: str, *modules: str) -> EvaluationResult:
    """Return an evaluation in which a policy has not finished some modules."""
    kept = (episode for episode in result.episodes if (episode.policy, episode.module in modules) != (policy, True))
    return replace(result, episodes=tuple(kept))


def test_evaluations_that_lack_modules_are_compared_on_common_ones_and_say_so(tmp_path: Path) -> None:
    complete = made_up({"rule": {"a": 90, "b": 190, "c": 310}, "other": {"a": 50}})
    other = made_up({"rule": {"a": 80, "c": 290}})
    lacking = without(other, "rule", "a", "d")
    found = compare({"before": complete, "after": lacking})
    _, _, pair = found.pairs[0]
    assert (pair.modules, pair.pairs) == (("b", "c"), ((200, 190), (290, 310)))
    assert "rule in after lacks 2 modules: compared on 2" in found.notes
    # The second evaluation is compared on the modules of the third.
    assert {pair.modules for *_, pair in compare({"1": complete, "2": other, "3": lacking}).pairs} == {("b", "c")}
    # Policies of one evaluation, and evaluations of one report.
    unfinished = without(complete, "other", "b")
    assert {summary.modules for summary in unfinished.summaries()} == {3}
    assert {pair.modules for *_, pair in unfinished.pairs} == {("a", "c", "d")}
    assert "Compared on the 3 modules of every policy; without a result: other 1" in notes(unfinished)
    runs = [keep(complete, tmp_path / "one"), keep(lacking, tmp_path / "two")]
    data = run_json("report", *runs)
    assert [data[name]["compared"] for name in ("one", "two")] == [["b", "c"], ["b", "c"]]
    assert [row["modules"] for name in ("one", "two") for row in data[name]["policies"]] == [2, 2, 2]
    assert data["two"]["missing"] == {"rule": 2}
    text = run("report", *runs).stdout
    assert "Compared on 2 modules: another evaluation lacks the others" in text
    assert "Compared on the 2 modules of every policy; without a result: rule 2" in text
    assert "Compared on" not in run("report", runs[0]).stdout
    # Evaluations of other modules have their own.
    apart = on_common_modules({"one": complete, "two": replace(lacking, configuration=OTHER_MODULES)})
    assert [len(result.compared) for result in apart.values()] == [4, 2]


def test_a_sum_that_grows_from_zero_is_no_unchanged_sum() -> None:
    grown = made_up({"rule": {"a": 5, "b": 0}}, baselines=dict.fromkeys("abcd", 0))
    (summary,) = grown.summaries()
    assert summary.changes["text"].total == float("inf")
    assert "+inf %" in str(grown)
    assert summary.changes["text"].to_json()["total"] is None
    assert made_up({"rule": {}}, baselines=dict.fromkeys("abcd", 0)).summaries()[0].changes["text"].total == 0


def test_the_printed_command_runs_and_gives_the_table(varied: str, tmp_path: Path) -> None:
    policies = {"mine": "threshold:5", "never": "never", "flags": "clang:-mllvm,-inline-threshold=20"}
    settings = {"max_decisions": 4, "compile_options": {"extra_flags": ["-fno-inline-functions"]}}
    result = evaluate("mlgo/Inline-v0", policies=policies, corpus=varied, limit=2, env_kwargs=settings)
    program, *words = shlex.split(command_of(result.configuration, str(tmp_path / "out")))
    answer = run(*words)
    assert (program, answer.exit_code) == ("mlgo-gym", 0), answer.output
    again = load_result(tmp_path / "out")
    assert again.configuration.identity["arguments"] == result.configuration.identity["arguments"]
    assert [summary.changes for summary in again.summaries()] == [summary.changes for summary in result.summaries()]


def test_figures_show_changes_in_percent() -> None:
    pytest.importorskip("matplotlib", reason="Matplotlib is not installed")

    def shown(policies: dict[str, dict[str, int]]) -> dict[str, tuple[str | None, str]]:
        trees = {figure.id: ElementTree.fromstring(figure.svg) for figure in figures_of(made_up(policies), "p")}
        texts = {name: [text.text or "" for text in tree.iter(f"{SVG}text")] for name, tree in trees.items()}
        return {name: (trees[name].get("viewBox"), ", ".join(filter(str.strip, texts[name]))) for name in trees}

    reduction = "-50 %, 0, +50 %, reduction τ against plain clang"
    large = "-80 %, -50 %, -20 %, -10 %, -5 %, 0, +5 %, +10 %, +20 %, +50 %, change by large"
    sizes = "100, 150, 200, 300, plain clang, text bytes"
    high, wide = "0 0 280.8 221.04", "0 0 280.8 208.8"
    assert shown({"default": {}, "large": {"a": 190, "b": 20}, "small": {"a": 99, "c": 310}}) == {
        "p-profiles": (high, f"{reduction}, 0, 20, 40, 60, 80, 100, modules reduced by more, %, large, small"),
        "p-modules-1": (wide, f"{sizes}, {large}"),
        "p-modules-2": (wide, f"{sizes}, -1 %, 0, +1 %, +2 %, +3 %, change by small"),
    }
    assert list(shown({"default": {}})) == ["p-profiles", "p-modules-1"]


@pytest.mark.parametrize("name", ["bell \x07", "nul \x00", "no UTF-8 \udcff", "line\nbreak", "reversed \u202e"])
def test_a_page_escapes_names_that_cannot_be_printed(name: str) -> None:
    pytest.importorskip("matplotlib", reason="Matplotlib is not installed")
    made = made_up({name: {"a": 50, "b": 260}})
    episodes = tuple(replace(episode, module=name + episode.module, project=name) for episode in made.episodes)
    text = page({name: replace(made, episodes=episodes)})
    assert not re.search(r"[\x00-\x08\x7f\u202e]", text.encode().decode())
    read = Page(text)
    assert (read.open, "script" in read.tags) == ([], False)
    assert all(link.startswith("#") or link == "data:," for link in read.links)
    assert {link[1:] for link in read.links if link.startswith("#")} <= set(read.ids)
    assert len(read.ids) == len(set(read.ids))
    addresses = set(re.findall(r"https?://[^\s\"'<)]+", text))
    assert addresses <= {"http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"}
    assert "prefers-color-scheme: dark" in text


LINES = """
mlgo/Inline-v0 on folder: 4 modules (4 at Oz), clang 22.1.8
rule           4         990  1,000  -1.00 %       2      1      1
policy              geo-mean  projects
other    -15.70 modules only         2
other / rule         62%  -13.08 modules only         2    2/1/1
language  modules  projects  default   rule   other
C               2         2        0  -3.52  -28.94
p              2         1        0  -7.47  -28.94
module  clang  text bytes   change
a         100         -10  -9.90 %
Compile time (the first policy's includes plain clang's): default 2.0 s, rule 2.0 s, other 2.0 s
"""
FACTS = """
clang 22.1.8|0.1.0|text|4 modules (4 at Oz)|abc|text in total; geometric mean -3.02 %|2 smaller, 1 equal, 1 larger
mlgo-gym evaluate mlgo/Inline-v0 --corpus folder --policy default --policy rule --policy other --seed 0 --output RESULTS
"""


def test_a_report_has_its_lines_facts_and_fields(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="Matplotlib is not installed")
    result = made_up({"default": {}, "rule": {"a": 90, "b": 190, "c": 310}, "other": {"a": 50}})
    folder = keep(result, tmp_path / "one")
    assert set(LINES.strip().splitlines()) <= set(run("report", folder).stdout.splitlines())
    cells = set(map(str.strip, re.split(r"<[^>]*>", page({"one": result}))))
    assert {fact for line in FACTS.strip().splitlines() for fact in line.split("|")} <= cells
    fields = "policy modules failures illegal_actions seconds policy_seconds decisions changes best worst"
    assert list(run_json("report", folder)["policies"][1]) == fields.split()


def test_json_is_one_value_however_many_runs_there_are(tmp_path: Path) -> None:
    runs = [keep(RUN, tmp_path / "one"), keep(OTHER, tmp_path / "two")]
    alone, both = run_json("report", runs[0]), run_json("report", *runs)
    assert list(both) == ["one", "two"]
    assert both["one"] == alone
    assert both["two"]["configuration"]["policies"] == {"threshold:5": "threshold:5"}
