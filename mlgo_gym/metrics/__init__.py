"""The price of a link: linked size of one module's object among those of plain clang, exact and estimated."""

from mlgo_gym.metrics.estimated_linked_size import EstimatedLinkedSize
from mlgo_gym.metrics.linked_size import LinkedSize
from mlgo_gym.metrics.plain_objects import PlainObjects

__all__ = ["EstimatedLinkedSize", "LinkedSize", "PlainObjects"]
