"""The header of an interactive channel: where in the bytes of a question each feature lies.

`mlgo_gym.llvm.training_log` reads all of LLVM's format; the `json` that it needs takes as long to import as a small
file takes to compile, so this reads the one line that LLVM's `TrainingLogger` always writes alike.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

_SIZES = {"int64_t": 8, "float": 4, "int32_t": 4, "double": 8, "uint8_t": 1, "int8_t": 1}


_LARGEST_QUESTION = 1 << 24


class ProtocolError(Exception):
    """What came over a channel does not follow the protocol."""


class Tensor:
    """One feature: where it begins in a question, how many elements it has, and of which type."""

    __slots__ = ("count", "offset", "type")

    def __init__(self, offset: int, count: int, type: str) -> None:  # noqa: A002 - LLVM's own name of it
        self.offset = offset
        self.count = count
        self.type = type


class Header:
    """The features of an advisor.

    Attributes:
        tensors: by name.
        size: the number of bytes of a question.
    """

    __slots__ = ("size", "tensors")

    def __init__(self, tensors: Mapping[str, Tensor], size: int) -> None:
        self.tensors = tensors
        self.size = size


def read_header(line: bytes) -> Header:
    """Return what the first line of a channel says.

    Raises:
        ProtocolError: it is of another form, or the advice is no single `int64_t`.
    """
    try:
        features, advice = line.decode("ascii").split('],"advice":')
        if _field(advice, "type") != "int64_t" or _shape(advice) != 1:
            raise ValueError(advice)
        tensors = {}
        position = 0
        for text in features.split("{")[2:]:
            kind = _field(text, "type")
            count = _shape(text)
            tensors[_field(text, "name")] = Tensor(position, count, kind)
            position += count * _SIZES[kind]
    except (ValueError, LookupError) as error:
        raise ProtocolError(f"a header of features and advice was wanted, found {line[:200]!r}") from error
    if position > _LARGEST_QUESTION:
        raise ProtocolError(f"a question of at most {_LARGEST_QUESTION} bytes was wanted, the header says {position}")
    return Header(tensors, position)


def _field(text: str, name: str) -> str:
    return text.split(f'"{name}":"', 1)[1].split('"', 1)[0]


def _shape(text: str) -> int:
    count = 1
    for extent in text.split('"shape":[', 1)[1].split("]", 1)[0].split(","):
        count *= int(extent)
    return count
