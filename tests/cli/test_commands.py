"""Commands that evaluate, search, label, train and build."""

import json
import os
import sys
from dataclasses import asdict
from pathlib import Path

import pytest

from mlgo_gym import CALLEE_FEATURES, Network, read_labels
from mlgo_gym.cli import main
from mlgo_gym.corpus.compilation import Compilation
from mlgo_gym.corpus.training_digests import sidecar_digests
from mlgo_gym.envs import InlineEnv
from mlgo_gym.errors import MissingExtraError, MlgoError
from mlgo_gym.llvm.link_facts import LinkFacts
from mlgo_gym.llvm.sizes import object_sizes
from mlgo_gym.llvm.toolchain import Toolchain
from tests.cli.command import run, run_json
from tests.llvm.test_link_facts import FIRST, SECOND

EVALUATE = ("evaluate", "mlgo/Inline-v0")


def test_the_table_is_printed_and_printed_again_and_validated(corpus: Path, broken: Path, tmp_path: Path) -> None:
    arguments = (*EVALUATE, "--corpus", corpus, "--policy", "default,never", "--output", tmp_path)
    first = run(*arguments)
    assert first.exit_code == 0, first.output
    equal = "`default` equals plain clang on every module."
    for word in ("default", "never", "text bytes", "3 modules (3 at Oz)", equal):
        assert word in first.stdout
    submission = tmp_path / "submission.json"
    again = run("report", tmp_path, "--submission", submission).stdout
    assert set(first.stdout.splitlines()) <= set(again.splitlines())
    assert run(*arguments).stdout == first.stdout
    assert run("validate", tmp_path, "--corpus", corpus).stdout == "reproduced 4 of 4 episodes\n"
    assert run("validate", submission, "--corpus", corpus).stdout == "reproduced 4 of 4 episodes\n"
    with pytest.raises(MlgoError, match="expected one evaluation for --submission, got 2"):
        run("report", tmp_path, submission, "--submission", submission)
    episodes = tmp_path / "episodes.jsonl"
    lines = [json.loads(line) for line in episodes.read_text().splitlines()]
    next(line for line in lines if line["module"] == "calls")["metrics"]["text"][0] += 8
    episodes.write_text("".join(json.dumps(line) + "\n" for line in lines))
    result = run("validate", tmp_path, "--corpus", corpus, "--json")
    data = json.loads(result.stdout)
    assert (result.exit_code, data["episodes"], data["reproduced"]) == (1, 4, 3)
    assert [episode["module"] for episode in data["different"]] == ["calls"]
    result = run(*EVALUATE, "--corpus", broken)
    assert result.exit_code == 1
    assert "Failed: 1 episode:\n  default on broken: " in result.stdout
    with pytest.raises(MlgoError, match=r"expected results in .*, got no meta"):
        run("report", tmp_path / "nowhere")


def test_arguments_and_lists_of_policies_reach_the_evaluation(varied: str) -> None:
    settings = ("--set", "reward=bytes", "--set", "strict=true", "--set", "max_decisions=3")
    policies = ("--policy", "default, never,clang:-O1,-w", "--policy", "never,clang:-mllvm,-inline-threshold=20")
    options = ("--limit", 2, "--metric", "object", "--clang", "bundled", "--split", "train")
    data = run_json(*EVALUATE, "--corpus", varied, *options, *settings, *policies)["configuration"]
    assert (data["metric"], data["modules"], data["split"]) == ("object", 2, "train")
    assert data["arguments"] == {"metric": "object", "reward": "bytes", "max_decisions": 3, "strict": True}
    assert list(data["policies"]) == ["default", "never", "clang:-O1,-w", "clang:-mllvm,-inline-threshold=20"]


SEARCH = ("search", "mlgo/Inline-v0", "--corpus")


def test_a_search_prints_a_row_for_each_module_and_resumes_from_its_output(calls: Path, tmp_path: Path) -> None:
    arguments = (*SEARCH, calls, "--compiles", 4, "--output", tmp_path / "found.jsonl")
    result = run(*arguments)
    assert result.exit_code == 0
    header, row, summary = result.stdout.strip().splitlines()
    assert header.split() == ["decisions", "compiles", "clang", "found", "change", "module"]
    assert row.endswith("calls")
    assert summary.startswith("1 modules: total")
    assert summary.endswith("4 compiles")
    (found,) = run_json(*arguments)
    assert (found["verified"], found["module"]) == (True, "calls")
    with pytest.raises(MlgoError, match="choose another output"):
        run(*arguments, "--seed", 1)


def test_outputs_that_cannot_be_written_are_one_line(
    calls: Path,
    toolchain: Toolchain,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    file, folder, built = tmp_path / "file", tmp_path / "folder", tmp_path / "calls.o"
    file.write_text("precious")
    assert toolchain.run(["-c", str(calls), "-o", str(built)]).returncode == 0
    folder.mkdir()
    compile_all = ("mlgo/Inline-v0", "--corpus", calls)
    for words in (
        ("evaluate", *compile_all, "--output", file),
        ("trace", *compile_all, "--output", file),
        ("search", *compile_all, "--compiles", 1, "--output", file),
        ("search", *compile_all, "--compiles", 1, "--output", folder),
        ("search", *compile_all, "--compiles", 1, "--recipes", file),
        ("label", calls, "--compiles", 1, "--output", file),
        ("link-facts", built, "--output", folder),
        ("explain", calls, "--policy", "never", "--show", 0, "--html", folder),
    ):
        monkeypatch.setattr(sys, "argv", ["mlgo-gym", *map(str, words)])
        with pytest.raises(SystemExit) as ended:
            main()
        message = capsys.readouterr().err.splitlines()[-1]
        assert ended.value.code == 2, words
        assert message.startswith("mlgo-gym: "), message
        assert str(tmp_path) in message
        assert file.read_text() == "precious"


def test_it_labels_a_corpus_and_resumes(corpus: Path, tmp_path: Path) -> None:
    command = ("label", corpus, "--output", tmp_path, "--compiles", 3)
    first = run(*command)
    assert first.exit_code == 0, first.output
    labels = read_labels([tmp_path])
    assert f"{len(labels)} labels of 18 decisions in 3 modules" in first.output
    assert run(*command).stdout == first.stdout


def test_two_policies_are_compared_on_a_module_or_a_file_and_a_page_is_written(tmp_path: Path) -> None:
    page, file = tmp_path / "page.html", tmp_path / "mine.bc"
    result = run("explain", "c/raster", "--policy", "never", "--show", "1", "--html", page)
    assert result.exit_code == 0
    assert result.stdout.startswith("c/raster, clang 22.1.8: never against default")
    assert "Functions that changed" in page.read_text()
    with pytest.raises(MlgoError, match="expected two different policies"):
        run("explain", "c/raster")
    file.write_bytes(InlineEnv(corpus="builtin").corpus.module("c/raster").bitcode.read_bytes())
    data = run_json("explain", file, "--policy", "always,never", "--flags", "-Os -fPIC", "--show", "0")
    assert (data["module"], data["policies"]) == ("mine", ["always", "never"])
    assert data["text"]["first"] != data["text"]["second"]


SMALL = ("--models", 1, "--trees", 5, "--hidden", 8, "--steps", 20)


def test_the_first_labels_are_of_the_base_at_every_level(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "lightgbm", None)  # labels come first
    words = ("--corpus", "builtin:train", "--rounds", 1, "--compiles", 2, "--limit", 1, "--margin", 0)
    for options, base, levels in (
        ("--level Os", "threshold:5", ["Os", "Oz"]),
        ("--level Oz --base threshold:7", "threshold:7", ["Oz"]),
    ):
        output = tmp_path / base
        with pytest.raises(MissingExtraError):
            run("train", "policy", "--output", output, *words, *options.split())
        (path,) = output.glob("round-*/labels/labels.json")
        labels = json.loads(path.read_text())
        assert (labels["policies"], labels["compiles"]) == ({"policy": base}, 2)
        assert labels["corpus"] == ",".join(f"builtin@{level}:train" for level in levels)


def test_options_are_checked(corpus: Path, tmp_path: Path) -> None:
    labels, output = tmp_path / "labels", ("--output", tmp_path / "n.safetensors")
    assert run("label", corpus, "--output", labels, "--compiles", 2, "--limit", 1).exit_code == 0
    cases: tuple[tuple[Path, tuple[object, ...], str], ...] = (
        (labels, ("--hidden", "8,x"), "expected --hidden with widths ≥ 1 separated by commas, got '8,x'"),
        (tmp_path / "none", (), str(tmp_path / "none")),
    )
    for folder, options, message in cases:
        with pytest.raises(MlgoError, match=message):
            run("train", "imitation", folder, *output, *options)


@pytest.mark.libraries
def test_networks_learn_from_labels(varied: str, tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="PyTorch is not installed")
    pytest.importorskip("lightgbm", reason="LightGBM is not installed")
    labels, file = tmp_path / "labels", tmp_path / "n.safetensors"
    assert run("label", varied, "--output", labels, "--compiles", 3, "--set", "callee_features=true").exit_code == 0
    result = run("train", "imitation", labels, *SMALL, "--output", file, "--margin", 0.5)
    assert result.exit_code == 0, result.output
    assert result.output.endswith(f"wrote {file}, margin 0.5\n")
    assert set(sidecar_digests(file)) == set(read_labels([labels]).digests.tolist())
    assert set(CALLEE_FEATURES) <= set(Network.load(file).features)


BUILD = """
compile() { [ -e "$2" ] || "$CXX" -Oz -c $1 -o "$2"; }
compile first.cpp "first object.o" && compile second.cpp second.o && echo "$MLGO_LINK_FACTS" >> runs
"$CXX" -o program "first object.o" second.o -Wl,--icf=safe 2> link.log
exit ${STATUS:-0}
"""


def test_a_build_is_repeated_with_the_facts_of_its_objects_until_they_exist(
    tmp_path: Path, own_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name, text in (("first.cpp", FIRST), ("second.cpp", SECOND), ("build.sh", BUILD)):
        Path(name).write_text(text)
    facts, first = Path("mlgo.facts"), Path("first object.o")
    # A build that fails leaves no facts, but objects: the next one has nothing to compile.
    assert run("build", "--", "sh", "build.sh", env={"STATUS": "3"}).exit_code == 3
    assert not facts.exists()
    os.utime(first, (2**31, 2**31))
    with pytest.raises(MlgoError, match="expected a build in which mlgo-clang compiles objects with code, got none"):
        run("build", "--", "sh", "build.sh")
    Path("second.o").unlink()
    assert "got 1 older ones, such as" in run("build", "--", "sh", "build.sh").stderr
    for path in (facts, first, Path("second.o"), Path("runs")):
        path.unlink()
    done = run("build", "--", "sh", "build.sh")
    assert (done.exit_code, done.stderr) == (
        0, "mlgo-gym: mlgo.facts: 3 weak functions of a link with --icf=safe; building again\n"
    )  # fmt: skip
    assert Path("runs").read_text().splitlines() == ["", str(facts.absolute())]
    # Clang alone would keep all three functions, and the policy without facts none.
    assert set(LinkFacts.of_objects([first.read_bytes()]).counts) == {"_Z6sharedi"}
    found = LinkFacts.read(facts)
    assert (found.counts["_Z6sharedi"], found.folding) == ((2, 2), "safe")
    # With facts the build runs once, and compiles what is missing; these are the bytes of a compile with the facts.
    first.rename("before.o")
    assert run("build", "--", "sh", "build.sh").stderr == ""
    assert first.read_bytes() == Path("before.o").read_bytes()
    assert Path("runs").read_text().splitlines()[2:] == [str(facts.absolute())]


def test_what_is_no_build_and_objects_that_are_not_made_again_are_one_line(
    tmp_path: Path, own_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(MlgoError, match="expected a build after --, got no-such-program: No such file"):
        run("build", "--", "no-such-program")
    Path("a.cpp").write_text("inline int f(int x) { return x; } int g(int x) { return f(x); }")
    with pytest.raises(MlgoError, match="got none; clean the build, omit -flto, or name the compilers"):
        run("build", "--", "sh", "-c", "${CXX} -flto -c a.cpp")
    script = "[ -e stamp ] && exit; ${CXX} -c a.cpp; touch stamp a.lo"
    done = run("build", "--facts", "facts", "--", "sh", "-c", script)
    assert done.exit_code == 0
    assert "expected that the build compiles its 1 objects again, got 1 that it did not, such as" in done.stderr
    assert not Path("a.lo").exists()


def test_growth_of_a_file_beyond_the_tolerance_fails(compile_calls: Compilation, tmp_path: Path) -> None:
    file, earlier = tmp_path / "calls.o", tmp_path / "sizes.json"
    file.write_bytes(compile_calls.plain_object())
    sizes = run_json("size", file)[str(file)]
    assert sizes == asdict(object_sizes(file.read_bytes()))
    for metric in ("text", "loaded"):
        before = {**sizes, metric: sizes[metric] - 1}
        earlier.write_text(json.dumps({str(file): before}))
        gate = ("size", file, "--against", earlier)
        result = run(*gate)
        assert (result.exit_code, f"{sizes['text']:,}" in result.stdout) == (1, True)
        assert f"{file}: {metric} grew from " in result.stderr
        assert run(*gate, "--tolerance", 5).exit_code == 0
    with pytest.raises(MlgoError, match="expected --tolerance ≥ 0, got nan"):
        run(*gate, "--tolerance", "nan")
    for content in ("[]", "{", f'{{"{file}": {{"text": 1}}}}'):
        earlier.write_text(content)
        with pytest.raises(MlgoError, match=r"expected sizes of .* write them with mlgo-gym size .*calls\.o --json > "):
            run(*gate)
    with pytest.raises(MlgoError, match=r"expected a program or an object, got .*: Is a directory"):
        run("size", tmp_path)
