"""Trains the examples of reinforcement learning from several seeds, and evaluates them on projects that none has seen.

    python -m benchmarks.learning [--only PATTERN] [--seeds 0,1,2]

Each run is the command of an example, as a user starts it, on the machine of this program; it writes the change of its
checkpoints on validation modules. The policy that it keeps is then evaluated once on each set of `HELD_OUT`. Their
labels and modules are in no training and no choice. The results are in docs/results/learning.json; the same command
does only the runs that the file lacks, and trains no model that is in the folder of the models.
"""

from __future__ import annotations

import re
import runpy
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.measuring import command_line, cpu_seconds
from benchmarks.reference_table import facts_of
from benchmarks.training_runs import Run, complete_runs
from mlgo_gym import Execution, evaluate, open_corpus
from mlgo_gym.scheduling import SequentialRunner

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "docs" / "results" / "learning.json"

HELD_OUT = {
    "packages": (
        *("pymunk==7.3.1", "cmarkgfm==2025.10.22", "pyroaring==1.2.0", "marisa-trie==1.4.1", "annoy==1.17.3"),
        *("python-crfsuite==0.9.12", "python-rapidjson==1.25", "cityhash==0.4.10", "editdistance==0.8.1"),
        *("bitarray==3.12.3", "pyahocorasick==2.3.1", "regex==2026.11.15", "ecos==2.0.14", "datrie==0.8.3"),
        *("pycosat==0.6.6", "fastcluster==1.3.0", "hnswlib==0.8.0", "levenshtein==0.27.5", "pyworld==0.3.5"),
    ),
    "projects": (
        *("quickjs==1.19.4", "tree-sitter==0.25.2", "cmarkgfm==2025.10.22", "libsass==0.23.0", "uvloop==0.22.1"),
        "yajl==0.3.5",
    ),
}
"""Packages of the package index, C and C++, that no policy of this project was trained on; cmark is in both sets."""


WORK = ROOT / "runs" / "learning"
"""Folder of the models, which `benchmarks.reference` evaluates as well."""


class Method(NamedTuple):
    """A method: its name, its optimisation level, its budget in words, and its command; `{model}` and `{seed}` vary.

    `policy` is the policy that it leaves, with `{}` for the file's stem.
    """

    name: str
    level: str
    budget: str
    command: str
    policy: str = "sb3:{}.zip"

    def trained(self, work: Path, seed: int) -> str:
        """Return the policy that it leaves for a seed."""
        return self.policy.format(work / f"{re.sub(r'[^a-z0-9]+', '-', f'{self.level} {self.name}'.lower())}-{seed}")

    def train(self, work: Path, seed: int) -> tuple[str, float]:
        """Train in a folder, if it lacks the log of this training; return what was printed, and its CPU seconds."""
        model = Path(self.trained(work, seed).partition(":")[2])
        log = model.with_suffix(".log")
        if not log.exists():
            model.parent.mkdir(parents=True, exist_ok=True)
            command = [sys.executable, *shlex.split(self.command.format(model=model, seed=seed))]
            before = cpu_seconds()
            printed = subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True).stdout
            log.write_text(f"{printed}{cpu_seconds() - before:.1f} CPU seconds\n")
        printed = log.read_text()
        return printed, float(_SECONDS.findall(printed)[0])


CORPUS = runpy.run_path(str(ROOT / "examples" / "hyperparameters.py"))["CORPUS"]

METHODS = (
    *(
        Method(
            f"PPO, {name}, random weights",
            level,
            "100,000 decisions",
            f"examples/sb3_ppo.py {CORPUS.replace('Os', level)} 100000 {{model}} {{seed}} {reward}".rstrip(),
        )
        for level in ("Os", "Oz")
        for name, reward in (("credit", ""), ("one reward per module", "module"))
    ),
    *(
        Method(
            f"PPO, credit, {library}",
            "Os",
            f"{decisions:,} decisions",
            f"examples/{file}.py {CORPUS} {decisions} {{model}} {{seed}}",
            "mlp:{}.safetensors",
        )
        for library, file, decisions in (
            ("TorchRL", "torchrl_ppo", 40_000),
            ("RLlib", "rllib_ppo", 100_000),
            ("as CleanRL", "cleanrl_ppo", 100_000),
            ("`send` and `recv`", "ppo_send_recv", 100_000),
        )
    ),
    *(
        Method(
            f"policy iteration, {start}",
            level,
            "10 min on two cores",
            f"examples/policy_iteration.py {CORPUS.replace('Os', level)} 10 {{model}} {{seed}} {labels}",
            "mlp:{}.safetensors",
        )
        for level in ("Os", "Oz")
        for start, labels in (("random weights", ""), ("from labels", level))
    ),
    *(
        Method(
            f"{name} on labels",
            level,
            "60 s on one core",
            f"examples/bandit.py {level} {name} {{model}} 60 {{seed}}",
            "mlp:{}.safetensors",
        )
        for level in ("Os", "Oz")
        for name in ("PPO", "DQN")
    ),
)

RULES = {"Os": ("threshold:5", "inline-os-fast", "inline-os"), "Oz": ("inline-oz-fast", "inline-oz")}
"""Policies that need no training, evaluated once on the same modules; their seed is 0."""

EXECUTION = Execution(jobs=2)

_POINT = re.compile(r"([\d.]+) min, +([\d,]+) decisions: ([+-][\d.]+)%")
_SECONDS = re.compile(r"^([\d.]+) CPU seconds$", re.MULTILINE)


def measure(policy: str, level: str, held_out: str, output: Path) -> dict[str, Any]:
    """Return the statistics of a policy on the modules of a held-out set that have a decision; `output` is kept."""
    corpus = open_corpus(",".join(f"pypi:{package}@{level}" for package in HELD_OUT[held_out]))
    result = evaluate("mlgo/Inline-v0", policies={"policy": policy}, corpus=corpus, execution=EXECUTION, output=output)
    if result.failures:
        raise SystemExit(f"{policy}: {len(result.failures)} modules failed, first {result.failures[0]}")
    return facts_of(result.summaries()[0].changes[result.metrics[0]])


def learn(work: Path, run: Run) -> dict[str, Any]:
    """Run an example or take a rule, and return its curve, its CPU seconds and its held-out statistics."""
    title, seed = run
    held_out, level, name = title.split(" ", 2)
    output = work / re.sub(r"[^a-z0-9]+", "-", f"{title} {seed}".lower())
    method = next((each for each in METHODS if (each.level, each.name) == (level, name)), None)
    if method is None:
        return {"level": level, **measure(name, level, held_out, output)}
    printed, seconds = method.train(work, seed)
    curve = [
        [float(minutes), int(decisions.replace(",", "")), float(change) / 100]
        for minutes, decisions, change in _POINT.findall(printed)
    ]
    facts = {"level": level, "budget": method.budget, "cpu_seconds": seconds, "curve": curve}
    return {**facts, **measure(method.trained(work, seed), level, held_out, output)}


def main() -> None:
    """Do the runs that the file of results lacks."""
    parser = command_line(__doc__)
    parser.add_argument("--only", default="", help="pattern of sets, levels and names, such as 'Os PPO'")
    parser.add_argument("--seeds", default="0,1,2", help="seeds, with commas between (default: 0,1,2)")
    parser.add_argument("--json", type=Path, default=RESULTS, help="file of the results")
    parser.add_argument("--work", type=Path, default=WORK, help="folder of the models")
    options = parser.parse_args()
    seeds = list(map(int, options.seeds.split(",")))
    named = [(f"{method.level} {method.name}", seed) for seed in seeds for method in METHODS]
    named += [(f"{level} {policy}", 0) for level, policies in RULES.items() for policy in policies if 0 in seeds]
    runs = [(f"{held_out} {title}", seed) for title, seed in named for held_out in HELD_OUT]
    runs = [(title, seed) for title, seed in runs if re.search(options.only, title)]

    def start(capacity: int) -> SequentialRunner[Run, dict[str, Any]]:
        del capacity
        return SequentialRunner(lambda run: learn(options.work.resolve(), run))

    for found in complete_runs(options.json, {"held_out": HELD_OUT}, ("title", "seed"), runs, start, 1):
        print(f"{found['title']:42} seed {found['seed']}  {found['mean']:+8.2%}  {found['total']:+8.2%}")


if __name__ == "__main__":
    main()
