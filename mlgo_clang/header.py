"""The header of an interactive channel: where in the bytes of an observation each feature lies.

`mlgo_gym.llvm.training_log` reads all of LLVM's format. It needs `json`, whose import takes as long as the compile of a
small file. This module reads the one line that LLVM's `TrainingLogger` always writes in the same form.
"""

from __future__ import annotations

from mlgo_clang.errors import ProtocolError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

_SIZES = {"int64_t": 8, "float": 4, "int32_t": 4, "double": 8, "uint8_t": 1, "int8_t": 1}
_LARGEST_OBSERVATION = 1 << 24


class Tensor:
    """One feature: its offset in an observation in bytes, its number of elements, and their type in C++."""

    __slots__ = ("count", "offset", "type")

    def __init__(self, offset: int, count: int, type: str) -> None:  # noqa: A002 - LLVM's own name of it
        self.offset = offset
        self.count = count
        self.type = type


class Header:
    """The features of an advisor.

    Attributes:
        tensors: the features by name.
        size: bytes of an observation.
    """

    __slots__ = ("size", "tensors")

    def __init__(self, tensors: Mapping[str, Tensor], size: int) -> None:
        self.tensors = tensors
        self.size = size


def read_header(line: bytes) -> Header:
    """Return the header in the first line of a channel.

    Raises:
        ProtocolError: the line has another form, or the advice is not one `int64_t`.
    """
    try:
        features, advice = line.decode("ascii").split('],"advice":')
        if _field(advice, "type") != "int64_t" or _element_count(advice) != 1:
            raise ValueError(advice)
        tensors = {}
        offset = 0
        for text in features.split("{")[2:]:
            kind = _field(text, "type")
            count = _element_count(text)
            tensors[_field(text, "name")] = Tensor(offset, count, kind)
            offset += count * _SIZES[kind]
    except (ValueError, LookupError) as error:
        raise ProtocolError(f"expected a header of features and advice, got {line[:200]!r}") from error
    if offset > _LARGEST_OBSERVATION:
        raise ProtocolError(f"expected observations of at most {_LARGEST_OBSERVATION} bytes, got a header for {offset}")
    return Header(tensors, offset)


def _field(text: str, name: str) -> str:
    return text.split(f'"{name}":"', 1)[1].split('"', 1)[0]


def _element_count(text: str) -> int:
    count = 1
    for extent in text.split('"shape":[', 1)[1].split("]", 1)[0].split(","):
        count *= int(extent)
    return count
