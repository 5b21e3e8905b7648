"""The layout of an observation: how the features of a header become a vector."""

import struct
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import gymnasium as gym
import numpy as np
import numpy.typing as npt

from mlgo_gym.llvm.training_log import LogHeader

BOUND = float(2**53)
"""Largest float of an observation: infinities become ±2^53. No count or cost of clang is near it."""

Bounds = Mapping[str, tuple[float, float]]
"""Smallest and largest value of features, by name."""


class FeatureLayout:
    """How the features of a header become an observation.

    Args:
        exclude_features: features that are not part of the observation, such as an action mask.
        bounds: the bounds of features that have some; all others are unbounded.
        caps: float features that may be infinite, and their largest value in an observation. Each has a further feature
            `NAME_infinite` at the end, of the same shape: 1 where it is infinite, else 0.

    `names` has a name per element of the flat vector: the feature's, with `[column]` where it has several.
    """

    def __init__(
        self,
        header: LogHeader,
        exclude_features: Iterable[str] = (),
        *,
        bounds: Bounds = MappingProxyType({}),
        caps: Mapping[str, float] = MappingProxyType({}),
    ) -> None:
        self.header = header
        bounds = {**bounds, **{name: (-cap, cap) for name, cap in caps.items()}}
        self.dtype = header.dtype
        excluded = frozenset(exclude_features)
        names: list[str] = []
        runs: list[tuple[np.dtype[Any], int, int, int]] = []
        fields: Mapping[str, Any] = self.dtype.fields or {}
        limits: list[tuple[float, float]] = []
        for spec in header.features:
            start, offset = len(names), fields[spec.name][1]
            if spec.name not in excluded:
                names += _elements(spec.name, spec.size)
                unbounded = (0.0 if spec.dtype.kind == "u" else -np.inf, np.inf)
                limits += [bounds.get(spec.name, unbounded)] * spec.size
                last = runs[-1] if runs else None
                if last and last[0] == spec.dtype and last[1] + last[3] * spec.dtype.itemsize == offset:
                    runs[-1] = (last[0], last[1], last[2], last[3] + spec.size)
                else:
                    runs.append((spec.dtype, offset, start, spec.size))
        self._capped: list[tuple[np.dtype[Any], int, int, int, int, float]] = []
        for spec in header.features:
            if spec.name in caps and spec.name not in excluded:
                first, flags = names.index(_elements(spec.name, spec.size)[0]), len(names)
                self._capped.append((spec.dtype, spec.size, fields[spec.name][1], first, flags, caps[spec.name]))
                names += _elements(f"{spec.name}_infinite", spec.size)
                limits += [(0.0, 1.0)] * spec.size
        self.names: tuple[str, ...] = tuple(names)
        self._low, self._high = np.array(limits, np.float32).reshape(-1, 2).T
        self._runs = tuple(runs)
        # Integers are counts and costs far below the bound; only floats can be infinite or NaN.
        self._finite = all(run[0].kind in "iu" for run in runs)
        self._flags = len(names) - sum(size for _, size, *_ in self._capped)
        self._square = min((BOUND, *caps.values())) ** 2
        self._wide = any(run[0] == np.float64 for run in runs)
        self._no_flags = (0.0,) * (len(names) - self._flags)
        is_short = len(names) <= 8 and not (excluded or self._wide) and all(spec.size == 1 for spec in header.features)
        formats = "".join(spec.struct_format for spec in header.features)
        self._scalars = struct.Struct(f"<{formats}") if is_short else None

    def flat_space(self) -> gym.spaces.Box:
        """Return the space of `flat()`: float32, shape (number of names,), infinite where nothing bounds a feature."""
        return gym.spaces.Box(self._low.copy(), self._high.copy(), dtype=np.float32)

    def flat(self, payload: bytes) -> npt.NDArray[np.float32]:
        """Return a fresh float32 vector of the features, shape (number of names,); NaN becomes 0."""
        runs = self._runs
        if len(runs) == 1 and not self._wide and not self._capped:
            dtype, offset, _, count = runs[0]
            vector = np.frombuffer(payload, dtype, count, offset).astype(np.float32)
            return vector if self._finite else finite(vector)
        if self._scalars is not None:
            # A few numbers: reading them all at once takes half the time.
            numbers = np.array((*self._scalars.unpack(payload), *self._no_flags), np.float64)
            if numbers.dot(numbers) <= self._square:
                return numbers.astype(np.float32)
        vector = np.empty(len(self.names), np.float32)
        self.flat_into(payload, vector)
        return vector

    def flat_batch(self, payloads: Sequence[bytes]) -> npt.NDArray[np.float32]:
        """Return what `flat()` returns for each of some observations, shape (number of them, number of names)."""
        runs = self._runs
        if len(runs) == 1 and self._finite and runs[0][3] * runs[0][0].itemsize == self.dtype.itemsize:
            values = np.frombuffer(b"".join(payloads), runs[0][0])
            return values.astype(np.float32).reshape(len(payloads), len(self.names))
        batch = np.empty((len(payloads), len(self.names)), np.float32)
        for payload, row in zip(payloads, batch, strict=True):
            self.flat_into(payload, row)
        return batch

    def flat_into(self, payload: bytes, row: npt.NDArray[np.float32]) -> None:
        """Write what `flat()` returns into a float32 row of shape (number of names,)."""
        for dtype, offset, start, count in self._runs:
            values = np.frombuffer(payload, dtype, count, offset)
            # A double may be too large for a float32.
            row[start : start + count] = np.clip(values, -BOUND, BOUND) if self._wide else values
        if self._finite:
            return
        if self._capped:
            row[self._flags :] = 0
        values = row.astype(np.float64)  # the squares of floats overflow in float32
        if values.dot(values) <= self._square:
            # Nothing is NaN or beyond its bound. Most observations are such, and looking is faster than limiting.
            return
        finite(row)
        for dtype, size, offset, start, flags, cap in self._capped:
            row[flags : flags + size] = np.frombuffer(payload, dtype, size, offset) == np.inf
            _limit(row[start : start + size], cap)

    def value(self, payload: bytes, name: str) -> npt.NDArray[Any]:
        """Return one feature as it came, in its own dtype and shape; read-only."""
        value: npt.NDArray[Any] = np.frombuffer(payload, self.dtype)[0][name]
        return value


def _elements(name: str, size: int) -> list[str]:
    return [name] if size == 1 else [f"{name}[{column}]" for column in range(size)]


def finite(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Make floats finite in place: NaN becomes 0, and values beyond ±2^53 become the bound."""
    np.copyto(array, 0.0, where=np.isnan(array))
    return _limit(array, BOUND)


def _limit(array: npt.NDArray[Any], bound: float) -> npt.NDArray[Any]:
    # `np.clip` takes several times as long for few elements.
    np.minimum(array, bound, out=array)
    np.maximum(array, -bound, out=array)
    return array
