"""The base of the tasks of the register allocator: costs from its record, and decisions in functions."""

from __future__ import annotations

from typing import Any, ClassVar

from mlgo_gym.llvm.allocation_record import NOTHING, AllocationCosts, CostWeights
from mlgo_gym.tasks.measurement import ESTIMATED_INSTRUCTIONS, Measurement
from mlgo_gym.tasks.task import Task


class AllocationTask(Task):
    """A task whose outcome is what register allocation cost.

    Args:
        weights: what one unit of each cost counts in the metric `spill_cost`.
    """

    optimization_record: ClassVar[bool] = True
    after_optimization: ClassVar[bool] = True
    has_contexts: ClassVar[bool] = True
    default_metric: ClassVar[str] = "spill_cost"
    function_metrics: ClassVar[tuple[str, ...]] = ("spill_cost", "spill_count")

    def __init__(self, weights: CostWeights = CostWeights()) -> None:  # noqa: B008 - frozen
        self.weights = weights

    @property
    def metrics(self) -> tuple[str, ...]:
        """The metrics of allocation, `spill_cost` and `spill_count`, then the sizes."""
        return (*self.function_metrics, *super().metrics)

    def outcome(self, measurement: Measurement, metric: str, function: str | None = None) -> float:
        """Return the cost of a compile; all metrics except sizes count one function alone if there is a function."""
        if metric == ESTIMATED_INSTRUCTIONS:
            return measurement.estimated_instructions(function)
        if metric not in self.function_metrics:
            return super().outcome(measurement, metric)
        if function is None:
            costs = AllocationCosts.total(measurement.allocation.values())
        else:
            costs = measurement.allocation.get(function, NOTHING)
        return costs.cost(self.weights) if metric == "spill_cost" else float(costs.count)

    def report(self, measurement: Measurement, baseline: Measurement, function: str | None = None) -> dict[str, Any]:
        """Return the metrics except sizes for the policy and the baseline, and a row per function that has any cost."""
        report = super().report(measurement, baseline, function)
        for metric in self.function_metrics:
            report[metric] = self.outcome(measurement, metric, function)
            report[f"baseline_{metric}"] = self.outcome(baseline, metric, function)
        names = sorted({*baseline.allocation, *measurement.allocation}) if function is None else [function]
        report["functions"] = [
            {
                "function": name,
                "spill_cost": self.outcome(measurement, "spill_cost", name),
                "baseline_spill_cost": self.outcome(baseline, "spill_cost", name),
                "spill_count": measurement.allocation.get(name, NOTHING).count,
                "baseline_spill_count": baseline.allocation.get(name, NOTHING).count,
            }
            for name in names
        ]
        return report
