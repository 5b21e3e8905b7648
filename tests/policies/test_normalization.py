"""Normalizations do what their method says; a saved one is the same."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest

from mlgo_gym.errors import MlgoError
from mlgo_gym.policies.normalization import METHODS, Normalization

NAMES = ("small", "huge", "constant")
ROWS = np.array(
    [[0, 1, 7], [1, -10, 7], [2, 1e3, 7], [3, -1e6, 7], [4, 1e9, 7], [4, 2.0**53, 7]], np.float32
)  # fmt: skip


@pytest.mark.parametrize("method", METHODS)
def test_every_method_keeps_order_and_bounds_in_rows_batches_selections_and_files(method: str, tmp_path: Path) -> None:
    fitted = Normalization.fit(ROWS, NAMES, method)
    values = ROWS.copy()
    normal = fitted(values)
    assert np.array_equal(values, ROWS), "the input is unchanged"
    low, high = fitted.bounds
    assert normal.shape == ROWS.shape
    assert normal.dtype == np.float32
    assert ((normal >= low) & (normal <= high)).all()
    for raw, column in zip(ROWS.T[:2], normal.T, strict=False):
        assert (np.diff(column[np.argsort(raw)]) >= 0).all()
        assert len(set(column.tolist())) >= 3
    assert np.array_equal([fitted(row) for row in ROWS], normal)
    assert np.array_equal(fitted(ROWS.reshape(2, 3, 3)), normal.reshape(2, 3, 3))
    selected = fitted.select(["huge", "small"])
    assert selected.names == ("huge", "small")
    assert np.array_equal(selected(ROWS[:, [1, 0]]), normal[:, [1, 0]])
    fitted.save(tmp_path / "normalization.json")
    loaded = Normalization.load(tmp_path / "normalization.json")
    assert (loaded.names, loaded(ROWS).tobytes()) == (NAMES, normal.tobytes())


def test_the_methods_compute_their_formulas() -> None:
    logarithm = Normalization.fit(ROWS, NAMES, "signed_log")(ROWS)
    assert (logarithm[3, 1], logarithm[0, 0]) == (pytest.approx(-math.log1p(1e6), rel=1e-6), 0)
    for method in ("standard", "log_standard"):
        normal = Normalization.fit(ROWS, NAMES, method)(ROWS)
        assert np.allclose(normal[:, :2].mean(0), 0, atol=1e-5)
        assert np.allclose(normal[:, :2].std(0), 1, atol=1e-5)
        assert (normal[:, 2] == 0).all()
    far = np.array([1e12, -1e12, 7], np.float32)
    assert Normalization.fit(ROWS[:3], NAMES, "standard")(far).tolist() == [5, -5, 0], "outliers are clipped"
    values = np.repeat([0.0, 10.0], [75, 25])[:, None]
    quantiles = Normalization.fit(values, ["x"], "quantiles", quantiles=4)
    inputs = np.array([[-1.0], [0.0], [5.0], [10.0], [11.0]], np.float32)
    assert quantiles(inputs)[:, 0].tolist() == [-1, -0.25, 0.5, 0.75, 1]


def test_features_are_found_by_name_and_missing_ones_are_listed() -> None:
    normalization = Normalization.fit(ROWS, NAMES)
    assert normalization.columns(["constant", "new", "huge", "small"]).tolist() == [3, 2, 0]
    with pytest.raises(MlgoError, match="needs 2 features that are missing: huge, constant; got small, new"):
        normalization.columns(["small", "new"])
    for rows in (np.empty((0, 3)), np.zeros((4, 2)), np.zeros(3)):
        with pytest.raises(MlgoError, match=r"shape \(decisions, 3\)"):
            Normalization.fit(rows, NAMES)


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        ({"format": 99}, "format 99"),
        ({"names": ["one"]}, "3 features|1 features"),
        ({"center": [0, 0, "x"]}, "expected the data of a normalization"),
        ({"scale": [1, 1, 0]}, "no scale of 0"),
        ({"scale": [1, 1, float("nan")]}, "expected finite numbers"),
        ({"method": "magic"}, "expected a method of signed_log"),
    ],
)
def test_damaged_data_are_refused(damage: dict[str, object], message: str, tmp_path: Path) -> None:
    path = tmp_path / "n.json"
    with pytest.raises(MlgoError, match="expected a normalization, got"):
        Normalization.load(path)
    path.write_text(json.dumps([1, 2]))
    with pytest.raises(MlgoError, match="expected the data of a normalization"):
        Normalization.load(path)
    with pytest.raises(MlgoError, match=message):
        Normalization.from_json(Normalization.fit(ROWS, NAMES).to_json() | damage)
