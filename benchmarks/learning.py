"""Trains the examples of reinforcement learning from several seeds, and keeps their curves on validation modules.

    python -m benchmarks.learning [--only PATTERN] [--seeds 0,1,2]

Each run is the command of an example, as a user starts it, on the machine of this program; it prints the change of its
checkpoints. `benchmarks.reference` evaluates the policies that it leaves. The results are in
docs/results/learning.json; the same command does only the runs that the file lacks, and trains no model that is in the
folder of the models.
"""

from __future__ import annotations

import re
import runpy
import shlex
import subprocess
import sys
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.measuring import RESULTS, ROOT, command_line, cpu_seconds, read_json, write_json

WORK = ROOT / "runs" / "learning"
"""Folder of the models, which `benchmarks.reference` evaluates as well."""


class Method(NamedTuple):
    """A method: its name, its optimisation level, its budget in words, and its command without model and seed."""

    name: str
    level: str
    budget: str
    command: str

    def trained(self, work: Path, seed: int) -> str:
        """Return the policy that it leaves for a seed."""
        return f"mlp:{work}/{re.sub(r'[^a-z0-9]+', '-', f'{self.level} {self.name}'.lower())}-{seed}.safetensors"

    def training(self, model: Path, seed: int) -> str:
        """Return the command that trains a model with a seed."""
        corpus = CORPUS.replace("Os", self.level)
        return f"examples/{self.command}".format(corpus=corpus, level=self.level, model=model, seed=seed)

    def train(self, work: Path, seed: int) -> tuple[str, float]:
        """Train in a folder, if it lacks the log of this training; return what was printed, and its CPU seconds."""
        model = Path(self.trained(work, seed).partition(":")[2])
        log = model.with_suffix(".log")
        if not log.exists():
            model.parent.mkdir(parents=True, exist_ok=True)
            command = [sys.executable, *shlex.split(self.training(model, seed))]
            before = cpu_seconds()
            printed = subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True).stdout
            log.write_text(f"{printed}{cpu_seconds() - before:.1f} CPU seconds\n")
        printed = log.read_text()
        return printed, float(_SECONDS.findall(printed)[0])


CORPUS: str = runpy.run_path(str(ROOT / "examples" / "hyperparameters.py"))["CORPUS"]
"""Corpora of the examples at -Os."""

_SB3 = "sb3_ppo.py {corpus} 100000 {model} {seed}"
_STEPS, _MINUTES, _MINUTE = "100,000 decisions", "10 min on two cores", "60 s on one core"
METHODS = tuple(
    Method(name, level, budget, command)
    for levels, name, budget, command in (
        ("Os Oz", "PPO, credit, random weights", _STEPS, _SB3),
        ("Os Oz", "PPO, one reward per module, random weights", _STEPS, f"{_SB3} module"),
        ("Os Oz", "policy iteration, random weights", _MINUTES, "policy_iteration.py {corpus} 10 {model} {seed}"),
        ("Os Oz", "policy iteration, from labels", _MINUTES, "policy_iteration.py {corpus} 10 {model} {seed} {level}"),
        ("Os Oz", "PPO on labels", _MINUTE, "bandit.py {level} PPO {model} 60 {seed}"),
        ("Os Oz", "DQN on labels", _MINUTE, "bandit.py {level} DQN {model} 60 {seed}"),
        ("Os", "PPO, credit, TorchRL", "40,000 decisions", "torchrl_ppo.py {corpus} 40000 {model} {seed}"),
        ("Os", "PPO, credit, RLlib", _STEPS, "rllib_ppo.py {corpus} 100000 {model} {seed}"),
        ("Os", "PPO, credit, as CleanRL", _STEPS, "cleanrl_ppo.py {corpus} 100000 {model} {seed}"),
        ("Os", "PPO, credit, `send` and `recv`", _STEPS, "ppo_send_recv.py {corpus} 100000 {model} {seed}"),
    )
    for level in levels.split()
)

_POINT = re.compile(r"([\d.]+) min, +([\d,]+) decisions: ([+-][\d.]+)%")
_SECONDS = re.compile(r"^([\d.]+) CPU seconds$", re.MULTILINE)


def learn(method: Method, work: Path, seed: int) -> dict[str, Any]:
    """Run an example, and return its curve and its CPU seconds."""
    printed, seconds = method.train(work, seed)
    curve = [
        [float(minutes), int(decisions.replace(",", "")), float(change) / 100]
        for minutes, decisions, change in _POINT.findall(printed)
    ]
    return {"level": method.level, "budget": method.budget, "cpu_seconds": seconds, "curve": curve}


def main() -> None:
    """Do the runs that the file of results lacks."""
    parser = command_line(__doc__)
    parser.add_argument("--only", default="", help="pattern of levels and names, such as 'Os PPO'")
    parser.add_argument("--seeds", default="0,1,2", help="seeds, with commas between (default: 0,1,2)")
    parser.add_argument("--json", type=Path, default=RESULTS / "learning.json", help="file of the results")
    parser.add_argument("--work", type=Path, default=WORK, help="folder of the models")
    options = parser.parse_args()
    data = read_json(options.json, {"runs": []})
    done = {(run["title"], run["seed"]) for run in data["runs"]}
    for seed, method in product(map(int, options.seeds.split(",")), METHODS):
        title = f"{method.level} {method.name}"
        if re.search(options.only, title) and (title, seed) not in done:
            data["runs"].append({"title": title, "seed": seed, **learn(method, options.work.resolve(), seed)})
            write_json(options.json, data)
            print(f"{title:42} seed {seed}  {data['runs'][-1]['curve'][-1:]}", flush=True)


if __name__ == "__main__":
    main()
