"""Costs of a compile that depend on the other modules of its project: linked size and executed instructions."""

from mlgo_gym.metrics.project_cost import ProjectCost, project_costs

__all__ = ["ProjectCost", "project_costs"]
