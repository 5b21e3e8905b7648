"""Several policies for one compile: the smallest object by a metric is kept, and a policy that fails is dropped."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from mlgo_clang.counters import read_counters
from mlgo_clang.object_size import object_size
from tests.conftest import PROGRAMS
from tests.mlgo_clang.conftest import Run

MACRO = '-DDEFINITION=".macro twice r\\n add \\\\r, \\\\r\\n.endm\\n"'


@pytest.mark.parametrize(
    ("source", "flags", "breaking"),
    [
        ("error_attribute.c", (), "never"),
        ("assembly_label.c", (), "always"),
        ("assembly_label.c", (MACRO,), "always"),
    ],
)
def test_of_several_policies_only_the_one_that_breaks_the_compile_is_dropped(
    source: str, flags: tuple[str, ...], breaking: str, run: Run, project: Path, own_cache: Path
) -> None:
    shutil.copy(PROGRAMS / source, project / "it.c")
    words = ("--mlgo-strict", "-Os", *flags, "-c", "it.c")
    assert run("--mlgo-policy=default", *words).returncode == 0
    plain = object_size((project / "it.o").read_bytes())
    alone = run(f"--mlgo-policy={breaking}", *words)
    assert (alone.returncode, b"clang exited with status 1 while a policy decided" in alone.stderr) == (1, True)
    for policies in (f"{breaking},default", f"default,{breaking}", f"{breaking},inline-os-fast", "smallest"):
        result = run(f"--mlgo-policy={policies}", *words)
        assert (result.returncode, result.stderr) == (0, b"")
        assert object_size((project / "it.o").read_bytes()) <= plain
    assert read_counters()["dropped one of several policies"] >= 3
    # A search that starts with these decisions goes on with clang's own.
    searched = ("--mlgo-recipes=recipes", "--mlgo-search=3", f"--mlgo-policy={breaking}")
    assert run(*searched, *words).returncode == 0
    assert "compiled by clang alone" not in read_counters()
    assert read_counters()["compiled by a recipe"] == 1


def test_a_source_that_clang_refuses_has_its_error_once(run: Run, project: Path) -> None:
    (project / "wrong.c").write_text("int f(int n) { return m; }\n")
    result = run("--mlgo-policy=smallest", "-Os", "-c", "wrong.c")
    assert (result.returncode, result.stderr.count(b"use of undeclared identifier")) == (1, 1)


def test_a_policy_without_a_file_is_an_error_among_others_too(run: Run) -> None:
    result = run("--mlgo-policy=never,inline-of-nothing", "--mlgo-strict", "-Os", "-c", "calls.c")
    assert (result.returncode, b"there is no such file; name another policy" in result.stderr) == (1, True)


def test_objects_are_compared_by_the_metric(run: Run, project: Path) -> None:
    chain = (f"static int f{i}(int n) {{ return f{i - 1}(n + {i}) + f{i - 1}(n * {i + 2}); }}" for i in range(1, 12))
    first, last = (
        "int s; static int f0(int n) { s += n; return s; }",
        "int top(int n) { return f11(n) + f11(n + 1); }\n",
    )
    (project / "chain.c").write_text("\n".join((first, *chain, last)))

    def sizes(policy: str, metric: str) -> tuple[int, int]:
        words = (f"--mlgo-policy={policy}", f"--mlgo-metric={metric}", "--mlgo-strict", "-Os", "-c", "chain.c")
        assert run(*words).returncode == 0
        data = (project / "chain.o").read_bytes()
        return object_size(data), object_size(data, "loaded")

    alone = [sizes(policy, "text") for policy in ("never", "threshold:0", "default", "inline-os-fast")]
    assert (smallest := sizes("smallest", "text"))[0] == min(text for text, _ in alone)
    assert sizes("smallest", "loaded")[1] == min(loaded for _, loaded in alone)
    # The object with the least code has more unwind tables.
    assert smallest[0] < alone[2][0]
    assert smallest[1] > alone[2][1]
    result = run("--mlgo-metric=object", "-c", "chain.c")
    message = b"expected one of text, loaded for --mlgo-metric, got 'object'"
    assert (result.returncode, message in result.stderr) == (1, True)
