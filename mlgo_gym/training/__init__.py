"""Training: labels of single decisions, imitation of them and of other policies, evolution, and the whole road."""

from mlgo_gym.training.best_checkpoint import BestCheckpoint
from mlgo_gym.training.best_of import BestOf
from mlgo_gym.training.clone import imitate
from mlgo_gym.training.distillation import NetworkSettings
from mlgo_gym.training.evolution import Evolution
from mlgo_gym.training.imitation import Imitation, imitate_labels
from mlgo_gym.training.labelling import Labelling
from mlgo_gym.training.margin import Base, with_margin
from mlgo_gym.training.road import Road
from mlgo_gym.training.teacher import TeacherSettings

__all__ = [
    "Base",
    "BestCheckpoint",
    "BestOf",
    "Evolution",
    "Imitation",
    "Labelling",
    "NetworkSettings",
    "Road",
    "TeacherSettings",
    "imitate",
    "imitate_labels",
    "with_margin",
]
