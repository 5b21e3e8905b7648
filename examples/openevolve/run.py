"""Runs OpenEvolve on a heuristic of inlining, with a model by its API, or with a stub that returns prepared programs.

pip install '.[tools]' openevolve
python run.py stub FOLDER [ITERATIONS]
OPENAI_API_KEY=… python run.py MODEL FOLDER [ITERATIONS] [API_BASE]
"""

import sys
from itertools import count
from pathlib import Path
from typing import Any

from openevolve import run_evolution
from openevolve.config import Config, LLMModelConfig
from openevolve.llm.base import LLMInterface

TASK = """You improve a C++ compiler's heuristic of inlining for code size. Return the whole program with a function
inline(features) -> bool. `compiler` in the feedback has the change of the code's size (negative is better), the modules
that became larger, and the decisions that cost most bytes with their features. Keep the function short and readable."""

HERE = Path(__file__).parent
PREPARED = (
    'features["cost_estimate"] < 20',
    'features["cost_estimate"] < 0',
    'features["no_such_feature"] < 0',
    'features["cost_estimate"] < 5 or features["callee_last"] == 1',
    'features["cost_estimate"] < 5 or features["callee_last"] == 1 and 0 <= features["callee_linkage"] <= 1',
)
"""Conditions that the stub proposes, in order."""


class Stub(LLMInterface):  # type: ignore[misc]  # OpenEvolve has no types
    """A model that returns prepared programs; it reads no prompt."""

    numbers = count()

    async def generate(self, prompt: str, **_settings: Any) -> str:
        """Return the next program."""
        del prompt
        condition = PREPARED[next(self.numbers) % len(PREPARED)]
        program = (HERE / "program.py").read_text().replace('features["cost_estimate"] < 5', condition)
        return f"```python\n{program}```\n"

    async def generate_with_context(self, system_message: str, messages: list[dict[str, str]], **settings: Any) -> str:
        """Return the next program."""
        del system_message, messages
        return await self.generate("", **settings)


def stub(_config: LLMModelConfig) -> Stub:
    """Return the stub, as OpenEvolve's `init_client`."""
    return Stub()


def main(model: str, folder: str, iterations: str = "5", api_base: str = "https://api.openai.com/v1") -> None:
    """Run the loop, and print the best program."""
    config = Config(max_iterations=int(iterations), diff_based_evolution=False, checkpoint_interval=5, random_seed=0)
    client = stub if model == "stub" else None
    config.llm.models = [LLMModelConfig(name=model, api_base=api_base, init_client=client)]
    config.llm.evaluator_models = config.llm.models
    config.prompt.system_message = TASK
    config.evaluator.cascade_evaluation = True
    config.evaluator.cascade_thresholds = [-0.5]
    config.evaluator.parallel_evaluations = 1
    config.evaluator.timeout = 900
    best = run_evolution(str(HERE / "program.py"), str(HERE / "evaluator.py"), config, output_dir=folder, cleanup=False)
    print(f"{-best.best_score:+.3f} % of code\n{best.best_code}")


if __name__ == "__main__":
    main(*sys.argv[1:])
