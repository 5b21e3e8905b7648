"""Sizes of linked programs with the objects of policies, as recorded and in other modes."""

import json
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from mlgo_clang.internal_linkage import changeable_functions
from mlgo_gym import open_corpus, score
from mlgo_gym.corpus.folder import pack_module
from mlgo_gym.envs import InlineEnv
from mlgo_gym.episode.attribution.recipe import stored_recipes
from mlgo_gym.episode.metrics.linked import PlainObjects
from mlgo_gym.errors import CorpusError, MlgoError
from mlgo_gym.evaluation import Evaluation
from mlgo_gym.evaluation.linking import LinkResult, ProgramResult, linked_table, programs_tables
from mlgo_gym.evaluation.runner import PLAIN
from mlgo_gym.llvm.link_facts import LinkFacts
from mlgo_gym.llvm.object_file import read_elf, read_symbol_table
from mlgo_gym.llvm.sizes import object_sizes
from mlgo_gym.llvm.toolchain import Toolchain
from mlgo_gym.search import CorpusSearch
from mlgo_gym.search.verification import verify_recipe
from tests.cli.command import run
from tests.conftest import write_files
from tests.corpus.conftest import record

CALLS = """
static int sum{0}(int n) {{ int s = 0; for (int i = 0; i < n; ++i) s += i * n * {1}; return s; }}
static int twice{0}(int n) {{ return sum{0}(n) + sum{0}(n + 1); }}
int {0}(int n) {{ return twice{0}(n) + sum{0}(n) + twice{0}(2); }}
"""
MAIN = "int used(int n); int main(int n, char **v) { return used(n); }\n"
POLICIES = ("default", "always")
WHOLE = "$CC main.o -Wl,--whole-archive libcalls.a -Wl,--no-whole-archive -o program"


def record_calls(folder: Path, link: str, toolchain: Toolchain, flags: str = "-ffunction-sections") -> str:
    """Record a build of a program that uses one of the two functions with decisions of its library."""
    calls = CALLS.format("used", 3) + CALLS.format("unused", 5)
    project = write_files(folder / "project", {"calls.c": calls, "main.c": MAIN})
    build = record(project, f"$CC {flags} -c calls.c main.c; ar rcs libcalls.a calls.o; {link}", toolchain)
    assert build.status == 0
    return str(build.corpus)


def test_a_gain_in_unused_code_vanishes_in_the_link(tmp_path: Path, toolchain: Toolchain) -> None:
    keep, drop = "-Wl,--no-gc-sections -Wl,--whole-archive", "-Wl,--gc-sections -Wl,--whole-archive"
    link = "".join(f"$CC main.o {flags} libcalls.a -o {name};" for name, flags in (("all", keep), ("needed", drop)))
    corpus, output = record_calls(tmp_path, link, toolchain), tmp_path / "output"
    with Evaluation("mlgo/Inline-v0", policies=POLICIES, corpus=corpus, output=output) as evaluation:
        rows = evaluation.link()
    assert [(row.policy, row.output) for row in rows] == [
        (policy, output) for policy in (PLAIN, *POLICIES) for output in ("all", "needed")
    ]
    assert all(row.error is None and row.modules == 2 for row in rows)
    found = {(row.policy, row.output): row for row in rows}
    for name in ("all", "needed"):
        plain, default, always = (found[policy, name] for policy in (PLAIN, "default", "always"))
        assert (default.objects, default.linked) == (plain.objects, plain.linked)
        assert always.objects > plain.objects
        grown = (always.linked - plain.linked) / (always.objects - plain.objects)
        # A change in a function that nobody calls counts only if that function is linked.
        assert (0.9 < grown < 1.2) if name == "all" else (grown < 0.9)
    assert json.loads((output / "links.json").read_bytes()) == [asdict(row) for row in rows]
    assert [row[:2] for row in linked_table(rows).rows[-3:]] == [
        ("always", "all"), ("always", "needed"), ("always", "all")
    ]  # fmt: skip


def test_the_command_evaluates_by_the_linked_size_and_links_again(tmp_path: Path, toolchain: Toolchain) -> None:
    lto = "-flto=thin -fuse-ld=lld -Wl,--gc-sections"
    corpus = record_calls(tmp_path, f"$CC {lto} main.o libcalls.a -o program", toolchain)
    arguments = ("evaluate", "mlgo/Inline-v0", "--corpus", corpus, "--policy", "always", "--json")
    result = run(*arguments, "--set", "observation=graph", "--metric", "linked", "--link")
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    assert found["configuration"]["metric"] == "linked"
    assert [(row["lto"], row["error"]) for row in found["links"]] == [("thin", None)] * 2
    links = Path(corpus) / "links.json"
    recorded = json.loads(links.read_text())
    recorded["links"][0]["arguments"].append("-lnowhere")
    links.write_text(json.dumps(recorded))
    result = run(*arguments, "--link")
    assert result.exit_code == 1, result.output
    assert all(row["error"] for row in json.loads(result.stdout)["links"])


HEADER = """
int sink(int);
extern int state;
inline int once(int x) {
    for (int i = 0; i < x; ++i) state += sink(x / 7) - sink(i * 5) * sink(i ^ x);
    return state - x;
}
inline int shared(int x) {
    for (int i = 0; i < x; ++i) state -= sink(x | i) + sink(x % 3) + sink(i & x) + (state >> (x & 5));
    return state + once(x);
}
"""
OWN = "inline int own(int x) { for (int i = 0; i < x; ++i) state ^= sink(x - i) * sink(i); return sink(shared(x)); }"
SOURCES = {
    "a.cpp": f"{HEADER}{OWN} int first(int x) {{ return own(x) + own(x + 1) + shared(x); }}",
    "b.cpp": f"{HEADER} int small(int x) {{ return x * 3; }} "
    "int second(int x) { return shared(small(x)) + shared(x); } "
    'extern "C" int unused(int x) { return sink(second(x)) * sink(x + 3); }',
    "c.cpp": "int state, first(int), second(int); int sink(int x) { return state ? first(x) : second(x); }",
}
PROGRAM = "$CXX -nostdlib -static -Wl,--gc-sections -Wl,-e,_Z4sinki a.o b.o c.o -o program"


def test_in_the_link_view_the_objects_add_up_to_the_linked_file(tmp_path: Path, toolchain: Toolchain) -> None:
    # The linker keeps functions of the first object.
    script = f"$CXX -ffunction-sections -c a.cpp b.cpp c.cpp; {PROGRAM.replace('a.o b.o', 'b.o a.o')}"
    corpus = record(write_files(tmp_path / "project", SOURCES), script, toolchain).corpus
    command = [
        "evaluate",
        "mlgo/Inline-v0",
        "--corpus",
        str(corpus),
        "--policy",
        "default,always,never",
        "--link",
        "--json",
    ]
    beyond, sums = [], []
    for words in ((), ("--link-view",)):
        result = run(*command, *words)
        assert result.exit_code == 0, result.output
        links = json.loads(result.stdout)["links"]
        beyond.append([row["objects"] / row["linked"] - 1 for row in links])
        sums.append({row["policy"]: row["objects"] for row in links})
    without, within = beyond
    assert min(without[:2]) > 0.1
    assert max(map(abs, within[:2])) < 0.02  # alignment
    # Policies far from clang are never paid for code that the link keeps.
    assert min(within) > -0.02

    plain, view = (InlineEnv(corpus=str(corpus), link_view=on, callee_features=True) for on in (False, True))
    digests = [module.digest() for module in view.corpus]
    assert [digest == module.digest() for digest, module in zip(digests, plain.corpus, strict=True)] == [0, 0, 1]
    assert [module.source_digest() for module in view.corpus] == [module.source_digest() for module in plain.corpus]
    objects = PlainObjects(lambda name: view.compilation(view.corpus.module(name)), 60.0)
    tables = [read_symbol_table(read_elf(objects.object(name))) for name in ("a.o", "b.o")]
    defined = [set(table.names(table.symbols[table.functions & table.visible])) for table in tables if table]
    assert defined == [{"_Z5firsti"}, {"_Z6secondi", "_Z5smalli", "_Z6sharedi", "_Z4oncei"}]
    # The only call of a function may go, and the function with it.
    changeable = [set(changeable_functions(module.bitcode.read_bytes())) for module in view.corpus]
    assert changeable == [set(), {b"_Z4oncei"}, set()]
    copies = view.feature_names.index("callee_copies")
    observation, info = view.reset(options={"module": "a.o"})
    seen, done = {observation[copies]}, False
    while not done:
        observation, _, done, _, info = view.step(info["default_action"])
        seen.add(observation[copies])
    assert {1, 2} <= seen
    # A score is that of the sums, without the module that has no decision.
    fixed = object_sizes(objects.object("c.o")).text
    totals = [score("cost_estimate < 30000", corpus=str(corpus), link_view=on).total for on in (False, True)]
    assert totals == [pytest.approx((rows["always"] - fixed) / (rows["default"] - fixed) - 1) for rows in sums]
    # Evaluations give their corpus to further environments.
    assert [module.digest() for module in InlineEnv(corpus=view.corpus, link_view=True).corpus] == digests
    assert "link.facts" in pack_module(view.corpus, "a.o")

    (corpus / "links.json").unlink()
    with pytest.raises(CorpusError, match="expected a corpus with recorded links"):
        InlineEnv(corpus=str(corpus), link_view=True).reset()
    found = view.corpus[0].link_facts
    assert found is not None
    same = InlineEnv(corpus=str(corpus), link_view=True, link_facts=found)
    # Facts alone know neither the order of the link nor which functions it drops.
    assert [module.digest() == digest for module, digest in zip(same.corpus, digests, strict=True)] == [0, 0, 1]
    facts, observed = LinkFacts.read(found), []
    for number in (7, 8):
        file = tmp_path / "changed.facts"
        replace(facts, counts=dict.fromkeys(facts.counts, (number, 2))).write(file)
        with InlineEnv(corpus=open_corpus(corpus, link_view=True, link_facts=file), callee_features=True) as env:
            observed.append(env.reset(options={"module": "a.o"})[0][copies])
    assert observed == [7, 8]


RARE = """
int sink(int);
inline int leaf(int x) { for (int i = 0; i < x; ++i) x += sink(x - i) * sink(i); return x; }
inline int rare(int x) { for (int i = 0; i < x; ++i) x -= sink(x + i) * leaf(i); return x + leaf(x); }
"""


def test_recipes_of_the_link_view_replay_in_modules_that_drop_functions_of_the_view(
    tmp_path: Path, toolchain: Toolchain
) -> None:
    sources = {
        # Clang drops `rare` here before it inlines, so the linker keeps that of `b.o`.
        "a.cpp": f"{RARE} static int flag; int first(int x) {{ return flag ? rare(x) : leaf(x) + leaf(x + 1); }}",
        "b.cpp": f"{RARE} int second(int x) {{ return rare(x) + rare(x + 1); }}",
        "c.cpp": f"{RARE} int first(int), second(int); int sink(int x) {{ return first(x) + second(x) + rare(x); }}",
    }
    project = write_files(tmp_path / "project", sources)
    corpus, recipes = str(record(project, f"$CXX -c a.cpp b.cpp c.cpp; {PROGRAM}", toolchain).corpus), tmp_path / "kept"
    arguments = {"corpus": corpus, "link_view": True}
    view = InlineEnv(corpus=corpus, link_view=True)
    objects = PlainObjects(lambda name: view.compilation(view.corpus.module(name)), 60.0)
    assert [b"_Z4rarei" in objects.object(name) for name in ("a.o", "b.o")] == [False, True]
    results = list(CorpusSearch("mlgo/Inline-v0", arguments, compiles=3, start="always", recipes=recipes).run())
    assert [result.error for result in results] == [None] * 3
    stored = {path: recipe for path, recipe in stored_recipes(recipes) if recipe}
    assert [verify_recipe(path, recipe, toolchain) for path, recipe in stored.items()] == [""] * 3
    decisions = {Path(recipe.module).name: len(recipe.answers) for recipe in stored.values()}
    assert decisions["a.o"] < len(results[[result.module for result in results].index("a.o")].actions)


TWINS = """
int sink(int);
struct A;
struct B;
template <class T> struct Box { T *at[9]; };
template <class T> int leaf(Box<T> &box, int x) {
    for (int i = 0; i < x; ++i) x += sink(x - i) * sink(box.at[i] != nullptr);
    return x;
}
template <class T> int twin(Box<T> &box, int x) { return leaf(box, x) + leaf(box, x + 1); }
"""


def test_functions_that_the_linker_merges_are_emitted_once_and_stay_equal_in_a_search(
    tmp_path: Path, toolchain: Toolchain
) -> None:
    sources = {
        "a.cpp": f"{TWINS} int first(Box<A> &b, int x) {{ return twin(b, x) - twin(b, x * 3); }}",
        "b.cpp": f"{TWINS} int second(Box<B> &b, int x) {{ return twin(b, x) - twin(b, x * 5) + twin(b, 7); }}",
        "c.cpp": f"{TWINS} int first(Box<A> &, int), second(Box<B> &, int); Box<A> a; Box<B> b;"
        "int sink(int x) { return x < 7 ? first(a, x) : second(b, x); }",
    }
    project = write_files(tmp_path / "project", sources)
    corpus = record(project, f"$CXX -ffunction-sections -c a.cpp b.cpp c.cpp; {PROGRAM}", toolchain).corpus
    links = json.loads((corpus / "links.json").read_text())
    links["links"][0]["arguments"].append("-Wl,--icf=all")  # the bundled linker does not fold
    (corpus / "links.json").write_text(json.dumps(links))
    arguments = {"corpus": str(corpus), "link_view": True}
    view = InlineEnv(corpus=str(corpus), link_view=True)
    objects = PlainObjects(lambda name: view.compilation(view.corpus.module(name)), 60.0)
    tables = [read_symbol_table(read_elf(objects.object(name))) for name in ("a.o", "b.o")]
    defined = [set(table.names(table.symbols[table.functions & table.visible])) for table in tables if table]
    assert [len(names) for names in defined] == [3, 1]
    # The other twin needs those of `a.o`, also if all calls there are inlined.
    assert not any(changeable_functions(module.bitcode.read_bytes()) for module in view.corpus)
    recipes = tmp_path / "kept"
    results = list(CorpusSearch("mlgo/Inline-v0", arguments, compiles=8, start="always", recipes=recipes).run())
    assert [result.error for result in results] == [None] * 2
    answers = [
        {site.context.replace("1B", "1A"): answer for site, answer in recipe.actions.items() if "4twin" in site.context}
        for _, recipe in stored_recipes(recipes)
        if recipe
    ]
    assert answers == [{"_Z4twinI1AEiR3BoxIT_Ei": 1}] * 2


def test_a_failed_link_is_excluded_from_sums_and_a_corpus_without_links_is_refused() -> None:
    rows = [
        LinkResult(PLAIN, "a", None, 1, 100, 1000),
        LinkResult(PLAIN, "b", None, 2, 200, 2000),
        LinkResult("never", "a", None, 1, 90, 995),
        LinkResult("never", "b", None, 2, 180, 0, "the linker said no"),
    ]
    last = linked_table(rows).rows[-2:]
    assert last[0] == ("never", "a", "1", "90", "-10.00%", "995", "-0.50%", "50%")
    assert last[1][5] == "not linked"
    both = linked_table([*rows[:3], LinkResult("never", "b", None, 2, 180, 1990)]).rows[-1]
    assert both == ("never", "all", "3", "270", "-10.00%", "2,985", "-0.50%", "50%")
    programs = [
        ProgramResult(PLAIN, "a", False, 1, "hardware", 2000, 4_000_000, 1.0, 1 << 20),
        ProgramResult("never", "a", False, 1, "hardware", 1900, 4_400_000, 0.5, 1 << 21),
        ProgramResult("never", "b", False, 2, "hardware", error="wrong output"),
    ]
    (table,) = programs_tables(programs)
    assert table.title == "Programs with never, against plain clang; instructions counted by hardware"
    assert table.rows == (
        ("a", "1,900", "-5.00 %", "4.4", "+10.00 %", "500", "2,048"), ("b", "failed", "-", "-", "-", "-", "-"),
    )  # fmt: skip
    with (
        Evaluation("mlgo/Inline-v0", policies=["default"], corpus="builtin", limit=1) as evaluation,
        pytest.raises(MlgoError, match="expected a corpus with link steps"),
    ):
        evaluation.link()
