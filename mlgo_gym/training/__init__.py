"""Training: label decisions, fit a network, choose a margin or a checkpoint, save it."""

from mlgo_gym.training.checkpoint_choice import BestCheckpoint
from mlgo_gym.training.distillation import NetworkSettings
from mlgo_gym.training.labels import Labels, read_labels
from mlgo_gym.training.margin import with_margin
from mlgo_gym.training.monitor import Monitor
from mlgo_gym.training.pipeline import Labelling, PolicyTraining
from mlgo_gym.training.tree_imitation import TreeImitation

__all__ = [
    "BestCheckpoint",
    "Labelling",
    "Labels",
    "Monitor",
    "NetworkSettings",
    "PolicyTraining",
    "TreeImitation",
    "read_labels",
    "with_margin",
]
