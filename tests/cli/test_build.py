"""`mlgo-gym build`: one command builds, writes link facts, and builds again with them."""

from pathlib import Path

import pytest

from mlgo_gym.errors import MlgoError
from mlgo_gym.llvm.link_facts import LinkFacts
from tests.cli.command import run
from tests.llvm.test_link_facts import FIRST, SECOND

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
