"""Search by object bytes against search by the linked price: linked size of whole builds with the found decisions.

    python -m benchmarks.linked_builds --sources sources --work builds
    python -m benchmarks.linked_search --work builds --output docs/results/linked_search.json

Searches each module of a build by bundles with the metrics `text` and `estimated-linked`, compiles it with the found
decisions, and links the build again. Both searches have the same number of compiles. An interrupted run continues.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.measuring import Table, command_line, write_json
from mlgo_gym.errors import MlgoError
from mlgo_gym.evaluation import Evaluation
from mlgo_gym.evaluation.compiled_objects import PLAIN
from mlgo_gym.search import CorpusSearch, SearchResult

METRICS = ("text", "estimated-linked")
TRUST = {"compile_options": {"trust_flags": True}}


class FoundDecisions:
    """The policy that repeats the actions that a search found for each module."""

    def __init__(self, results: Sequence[SearchResult]) -> None:
        self._actions = {result.module: result.actions for result in results if result.error is None}

    def act(self, observation: object, info: Mapping[str, Any]) -> int:
        """Return the found action, and clang's own choice beyond the search."""
        del observation
        actions, index = self._actions.get(info["module"], ()), info["decision_index"]
        return int(actions[index] if index < len(actions) else info["default_action"])


def search(corpus: Path, metric: str, compiles: int, output: Path) -> FoundDecisions:
    """Search all modules of a build by a metric."""
    campaign = CorpusSearch(
        "mlgo/Inline-v0", {"corpus": str(corpus), "metric": metric, **TRUST}, "bundles", compiles=compiles
    )
    output.parent.mkdir(parents=True, exist_ok=True)
    return FoundDecisions(list(campaign.run(output)))


def linked(corpus: Path, policies: Mapping[str, FoundDecisions]) -> dict[str, dict[str, int]]:
    """Return bytes of objects and of linked files by policy, plain clang among them.

    Raises:
        MlgoError: A link failed.
    """
    sizes: dict[str, dict[str, int]] = {}
    with Evaluation("mlgo/Inline-v0", policies=policies, corpus=str(corpus), limit=1, env_kwargs=TRUST) as evaluation:
        for row in evaluation.link(trust_flags=True):
            if row.error is not None:
                raise MlgoError(f"{row.output}: {row.error}")
            found = sizes.setdefault(row.policy, {"objects": 0, "linked": 0})
            found["objects"] += row.objects
            found["linked"] += row.linked
    return sizes


def main() -> None:
    """Search, link, print, write."""
    parser = command_line(__doc__)
    parser.add_argument("--work", type=Path, required=True, help="folder of the recorded builds and of the searches")
    parser.add_argument("--level", default="Oz", help="level of the builds")
    parser.add_argument("--only", nargs="+", required=True, help="builds to search")
    parser.add_argument("--compiles", type=int, default=12, help="compiles per module (default: 12)")
    parser.add_argument("--output", type=Path, help="JSON file to extend")
    options = parser.parse_args()
    results: dict[str, Any] = {"compiles": options.compiles, "builds": {}}
    if options.output and options.output.exists():
        results = json.loads(options.output.read_bytes())
    table = Table({"build": "<16", "metric": "<18", "objects": ">+10,", "linked": ">+10,"})
    for name in options.only:
        corpus = options.work / options.level / name
        folder = options.work / "searches" / options.level
        policies = {
            metric: search(corpus, metric, options.compiles, folder / f"{name}-{metric}.jsonl") for metric in METRICS
        }
        sizes = results["builds"][name] = linked(corpus, policies)
        for metric in METRICS:
            table.row(name, metric, *(sizes[metric][key] - sizes[PLAIN][key] for key in ("objects", "linked")))
        write_json(options.output, results)


if __name__ == "__main__":
    main()
