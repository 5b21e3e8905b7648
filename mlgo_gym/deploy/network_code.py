"""A network as C: the forward pass of `mlgo-clang`, the pass plugin, and LLVM's release mode.

The C computes what `Network` computes, operation by operation: float32, sums from the first input to the last, nothing
fused; logarithms and exponentials in double precision, then rounded. So both decide alike to the last bit.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from importlib.resources import files

import numpy as np
import numpy.typing as npt

from mlgo_gym.policies.network import Network
from mlgo_gym.policies.normalization import CLIP, Normalization

FLAGS = ("-O2", "-ffp-contract=off", "-fno-fast-math", "-fno-math-errno")
"""Compiler options for the code: nothing may be fused or reordered."""

_ACTIVATIONS = {
    "relu": "x > 0 ? x : 0",
    "tanh": "(float)tanh((double)x)",
    "elu": "x > 0 ? x : (float)expm1((double)x)",
    "leaky_relu": "x > 0.01f * x ? x : 0.01f * x",
}

_SIGNED_LOG = "copysignf((float)log1p((double)(x < 0 ? -x : x)), x)"


def forward_pass(network: Network) -> str:
    """Return C (and C++) that defines `static void mlgo_forward(const float *features, float *outputs)`.

    The features are raw, in the network's order. As C the code needs no header; as C++ it includes `math.h`.
    """
    tables = [f"enum {{ MLGO_FEATURES = {len(network.features)}, MLGO_OUTPUTS = {network.outputs} }};"]
    widths = [len(network.features), *(bias.shape[0] for bias in network.biases)]
    statements = [f"  float v0[{widths[0]}];", *_normalize(network.normalization, tables)]
    for number, (weight, bias) in enumerate(zip(network.weights, network.biases, strict=True)):
        tables += [_table(f"mlgo_w{number}", weight), _table(f"mlgo_b{number}", bias)]
        last = number == len(network.weights) - 1
        after = "outputs" if last else f"v{number + 1}"
        if not last:
            statements.append(f"  float {after}[{widths[number + 1]}];")
        shape = f"{widths[number]}, {widths[number + 1]}"
        statements.append(
            f"  mlgo_layer(v{number}, &mlgo_w{number}[0][0], mlgo_b{number}, {shape}, {after}, {int(not last)});"
        )
    values = {
        "TABLES": "\n".join(tables),
        "ACTIVATION": _ACTIVATIONS[network.activation],
        "STATEMENTS": "\n".join(statements),
    }
    return fill_template("network.c", values)


def fill_template(name: str, values: Mapping[str, str]) -> str:
    """Return a file of the folder `templates` with each `@NAME@` replaced."""
    template = (files("mlgo_gym.deploy") / "templates" / name).read_text(encoding="utf-8")
    return re.sub(r"@([A-Z_]+)@", lambda found: values[found[1]], template)


def _normalize(normalization: Normalization | None, tables: list[str]) -> list[str]:
    """Return the statements that fill `v0`, and append their tables to `tables`."""
    if normalization is None:
        return ["  for (int i = 0; i < MLGO_FEATURES; ++i) v0[i] = features[i];"]
    statements = ["    float x = features[i];"]
    if normalization.method == "quantiles":
        amount = normalization.quantiles.shape[1]
        tables.append(_table("mlgo_quantiles", normalization.quantiles))
        factor = np.full(1, 1 / amount).astype(np.float32)[0]
        statements += [
            "    int rank = 0;",
            f"    for (int q = 0; q < {amount}; ++q)",
            "      rank += (x > mlgo_quantiles[i][q]) - (x < mlgo_quantiles[i][q]);",
            f"    v0[i] = (float)rank * {_number(factor)};",
        ]
    else:
        if normalization.method != "standard":
            statements.append(f"    x = {_SIGNED_LOG};")
        if normalization.method != "signed_log":
            tables.append(_table("mlgo_center", normalization.center))
            tables.append(_table("mlgo_factor", (1 / normalization.scale).astype(np.float32)))
            statements.append("    x = (x - mlgo_center[i]) * mlgo_factor[i];")
            statements.append(f"    x = x < {CLIP}f ? x : {CLIP}f;")
            statements.append(f"    x = x > -{CLIP}f ? x : -{CLIP}f;")
        statements.append("    v0[i] = x;")
    return ["  for (int i = 0; i < MLGO_FEATURES; ++i) {", *statements, "  }"]


def _table(name: str, values: npt.NDArray[np.float32]) -> str:
    shape = "".join(f"[{extent}]" for extent in values.shape)
    if values.ndim == 1:
        return f"static const float {name}{shape} = {{{_row(values)}}};"
    rows = ",\n".join(f"  {{{_row(row)}}}" for row in values)
    return f"static const float {name}{shape} = {{\n{rows}}};"


def _row(values: Iterable[np.float32]) -> str:
    return ", ".join(map(_number, values))


def _number(value: np.float32) -> str:
    """Return an exact C literal: nine digits distinguish any two float32."""
    text = f"{float(value):.9g}"
    return f"{text}f" if any(character in text for character in ".en") else f"{text}.0f"
