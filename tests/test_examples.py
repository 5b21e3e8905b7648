"""The examples run as their headers say, those of training with each library for a tiny budget."""

import importlib.util
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from mlgo_gym.corpus import open_corpus
from mlgo_gym.llvm.sizes import function_sizes
from mlgo_gym.llvm.toolchain import Toolchain
from tests.cli.command import run as run_command
from tests.conftest import PROGRAMS, MakeBitcode, copy_modules

EXAMPLES = Path(__file__).parents[1] / "examples"


def run(name: str, *words: object, folder: Path | None = None) -> str:
    """Run an example, and return what it prints."""
    answer = subprocess.run(
        [sys.executable, str(EXAMPLES / name), *map(str, words)],
        capture_output=True,
        text=True,
        check=False,
        cwd=folder,
        # Whatever other cluster there is; and other tests are not to starve its workers.
        env={**os.environ, "RAY_ADDRESS": "local", "RAY_worker_niceness": "0"},
    )
    assert answer.returncode == 0, answer.stderr
    return answer.stdout


def test_the_random_agent_prints_its_episode(corpus: Path) -> None:
    printed = run("random_agent.py", corpus)
    assert all(words in printed for words in ("calls: clang asks whether to inline", "random decisions", "reward"))


def test_my_policy_is_compared_with_clang(corpus: Path) -> None:
    rows = [line.split() for line in run("my_policy.py", corpus).splitlines()]
    assert ["default", "2"] in [row[:2] for row in rows]
    assert ["one", "block", "2"] in [row[:3] for row in rows]


def test_a_prompt_policy_takes_answers_from_a_stub_and_then_from_its_file(corpus: Path, tmp_path: Path) -> None:
    for _ in range(2):
        printed = run("prompt_policy.py", corpus, 2, tmp_path / "answers.jsonl")
        assert re.match(r"2 modules: .* % of clang's bytes; actions: {'answer': \d+}", printed)
        answers = (tmp_path / "answers.jsonl").read_text().splitlines()
        assert len(answers) == len(set(answers)) > 5


@pytest.mark.parametrize(("name", "extra"), [("sb3_ppo.py", "learn"), ("torchrl_ppo.py", "learn,torchrl")])
def test_an_example_without_its_library_names_the_extra_in_one_line(name: str, extra: str) -> None:
    program = f"import runpy, sys; sys.argv = [{name!r}]; sys.modules['torch'] = None; "
    program += f"runpy.run_path({str(EXAMPLES / name)!r}, run_name='__main__')"
    answer = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    expected = f"{name} needs the extra {extra!r}; in a clone of mlgo-gym: pip install '.[{extra}]'\n"
    assert (answer.returncode, answer.stderr) == (1, expected)


@pytest.mark.slow
def test_the_firmware_is_smaller_with_the_rule(tmp_path: Path) -> None:
    sizes = {}
    for policy in ("default", "last-call"):
        folder = shutil.copytree(EXAMPLES / "firmware", tmp_path / policy)
        wrapper = Path(sys.executable).parent / "mlgo-clang"
        command = ["make", f"CC={wrapper} --mlgo-policy={policy}", "CFLAGS=-Os"]
        built = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
        assert (built.returncode, built.stderr) == (0, "")
        sizes[policy] = sum(function_sizes((folder / "firmware.elf").read_bytes()).functions.values())
    assert sizes["last-call"] < sizes["default"]


NEEDS = {
    "sb3_ppo.py": ("stable_baselines3", "tensorboard"),
    "maskable_ppo.py": ("sb3_contrib",),
    "cleanrl_ppo.py": ("torch",),
    "ppo_send_recv.py": ("torch",),
    "policy_iteration.py": ("torch", "pyarrow"),
    "torchrl_ppo.py": ("torchrl",),
    "rllib_ppo.py": ("ray", "torch"),
    "cma_es.py": ("cmaes",),
}
"""The modules that each example imports beside ours."""

FROM_IMITATION = ("maskable_ppo.py",)
"""Examples that show the imitation that they start from; the others start from random weights and show a rule."""


@pytest.fixture(scope="session")
def small(make_bitcode: MakeBitcode, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of sixteen projects of one tiny module, of which some are for testing, and some for validation."""
    folder, sources = (tmp_path_factory.mktemp(name) for name in ("small", "sources"))
    for program in ("many_calls", "mixed"):
        text = (PROGRAMS / f"{program}.c").read_text()
        for number in range(8):
            # Copies of held-out modules are in no part for training.
            (source := sources / f"{program}{number}.c").write_text(f"{text}\nint variant_{number} = {number};\n")
            copy_modules(folder, {f"{program}{number}/module": make_bitcode(source)})
    return folder


@pytest.mark.libraries
@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    "name",
    # One start of Ray at a time.
    [
        pytest.param(name, marks=pytest.mark.xdist_group("ray")) if "ray" in needs else name
        for name, needs in NEEDS.items()
    ],
)
def test_an_example_trains_and_compares_itself(
    name: str, small: Path, tmp_path: Path, toolchain: Toolchain, callee_network: str
) -> None:
    for module in NEEDS[name]:
        if importlib.util.find_spec(module) is None:
            pytest.skip(f"{module} is not installed")
    # A number of decisions or compiles; of minutes in policy_iteration.py, whose first round is always done.
    start = [callee_network.removeprefix("mlp:")] if name == "cma_es.py" else []
    printed = run(name, *start, small, "0" if name == "policy_iteration.py" else "64", folder=tmp_path)
    # Of several tables the first counts modules.
    rows = {words[0]: words for words in map(str.split, reversed(printed.splitlines())) if words}
    beside = "imitation" if name in FROM_IMITATION else "threshold"
    tested = len(open_corpus(str(small), toolchain=toolchain).split("test"))
    assert 0 < tested < 16
    assert {row: int(rows[row][1]) for row in (beside, "trained", "clang")} == dict.fromkeys(
        (beside, "trained", "clang"), tested
    )
    files = [path for path in tmp_path.iterdir() if path.is_file()]
    assert [path for path in files if "last" in path.name]
    assert re.search(r"\d (decisions|compiles): [+-].*% on validation modules", printed)
    assert len(files) == (3 if beside == "imitation" else 2)  # the best checkpoint on validation modules is a file too
    if name == "sb3_ppo.py":
        assert list((tmp_path / "runs" / "tensorboard").rglob("events.*"))


@pytest.mark.libraries
def test_episodes_become_a_minari_dataset(corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if importlib.util.find_spec("minari") is None:
        pytest.skip("minari is not installed")
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))
    first, *rows = run("minari_dataset.py", corpus, 2, "mlgo/test-v0", "always").splitlines()
    assert re.fullmatch(r"mlgo/test-v0: 2 episodes, \d+ decisions", first)
    counts = [re.match(r"episode \d: (\d+) of (\d+) calls inlined, ", row) for row in rows]
    assert len(counts) == 2
    assert all(count is not None and count[1] == count[2] != "0" for count in counts)


@pytest.mark.libraries
@pytest.mark.timeout(300)
def test_short_examples_learn_and_are_judged_by_clang(small: Path, tmp_path: Path) -> None:
    if importlib.util.find_spec("stable_baselines3") is None:
        pytest.skip("stable_baselines3 is not installed")
    printed = run("bandit.py", "Oz", "PPO", "m.safetensors", "4", "0", small, folder=tmp_path)
    assert re.match(r"[\d,]+ labels in 4 s\n", printed)
    assert re.search(r"^trained +4 ", printed, re.MULTILINE)
    printed = run("behaviour_cloning.py", small, 4, "c.safetensors", folder=tmp_path)
    assert re.search(r"^mlp:c.safetensors +4 ", printed, re.MULTILINE)


@pytest.mark.libraries
@pytest.mark.timeout(300)
def test_the_graph_network_is_a_policy_beside_rules(
    small: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("torch", "pyarrow"):
        pytest.importorskip(module)
    labels, file, results = (tmp_path / name for name in ("labels", "graph.pt", "results"))
    assert run_command("label", small, "--graphs", "--compiles", 3, "--output", labels).exit_code == 0
    # One seed gives one network.
    printed = [run("graph_network.py", labels, path, 3, 2) for path in (file, tmp_path / "again.pt")]
    assert re.search(r"\d+ labels to fit, \d+ to choose by; wrote ", printed[0])
    assert printed[0].replace("graph.pt", "again.pt") == printed[1]
    monkeypatch.setenv("GRAPH_NETWORK", str(file))
    policy = f"{EXAMPLES / 'graph_network.py'}:GraphPolicy"
    options = ("--set", "observation=graph", "--split", "test", "--policy", f"default,last-call,{policy}")
    assert run_command("evaluate", "mlgo/Inline-v0", "--corpus", small, *options, "--output", results).exit_code == 0
    report = run_command("report", results).stdout
    assert all(re.search(rf"^{row}", report, re.MULTILINE) for row in ("default", "last-call", ".*GraphPolicy"))
