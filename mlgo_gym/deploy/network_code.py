"""A network as C: the one forward pass behind `mlgo-clang`, the pass plugin, and LLVM's release mode.

The C computes what `Network` computes, operation by operation: in float32, summing from the first input to the last,
fusing nothing; logarithms and the like in double precision, then rounded. So both decide alike, even where the last bit
decides.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from mlgo_gym.policies.network import Network
from mlgo_gym.policies.normalization import CLIP, Normalization

FLAGS = ("-O2", "-ffp-contract=off", "-fno-fast-math", "-fno-math-errno")
"""The options for compiling the code: nothing may be fused or reordered."""

_ACTIVATIONS = {
    "relu": "x > 0 ? x : 0",
    "tanh": "(float)tanh((double)x)",
    "elu": "x > 0 ? x : (float)expm1((double)x)",
    "leaky_relu": "x > 0.01f * x ? x : 0.01f * x",
}

_SIGNED_LOG = "copysignf((float)log1p((double)(x < 0 ? -x : x)), x)"


def forward_pass(network: Network) -> str:
    """Return C (and C++) that defines `static void mlgo_forward(const float *features, float *outputs)`.

    Args:
        network: the network; `features` are its raw features in its order.

    The code needs no header, only declarations of what it uses of libm: `log1p`, `tanh`, `expm1` and `copysignf`.
    """
    parts = [f"enum {{ MLGO_FEATURES = {len(network.features)}, MLGO_OUTPUTS = {network.outputs} }};"]
    widths = [len(network.features), *(bias.shape[0] for bias in network.biases)]
    body = [f"  float v0[{widths[0]}];"]
    body += _normalize(network.normalization, parts)
    for number, (weight, bias) in enumerate(zip(network.weights, network.biases, strict=True)):
        parts.append(_table(f"mlgo_w{number}", weight))
        parts.append(_table(f"mlgo_b{number}", bias))
        last = number == len(network.weights) - 1
        after = "outputs" if last else f"v{number + 1}"
        if not last:
            body.append(f"  float {after}[{widths[number + 1]}];")
        body.append(f"  mlgo_layer(v{number}, &mlgo_w{number}[0][0], mlgo_b{number}, {widths[number]}, "
                    f"{widths[number + 1]}, {after}, {int(not last)});")  # fmt: skip
    layer = [
        "static void mlgo_layer(const float *in, const float *w, const float *b, int n, int m, float *out,",
        "                       int hidden) {",
        "  for (int j = 0; j < m; ++j) out[j] = in[0] * w[j];",
        "  for (int i = 1; i < n; ++i)",
        "    for (int j = 0; j < m; ++j) out[j] += in[i] * w[i * m + j];",
        "  for (int j = 0; j < m; ++j) {",
        "    float x = out[j] + b[j];",
        f"    out[j] = hidden ? ({_ACTIVATIONS[network.activation]}) : x;",
        "  }",
        "}",
    ]
    return "\n".join(
        [*parts, *layer, "static void mlgo_forward(const float *features, float *outputs) {", *body, "}", ""]
    )


def _normalize(normalization: Normalization | None, parts: list[str]) -> list[str]:
    """Return the statements that fill `v0`, and add the tables that they read."""
    if normalization is None:
        return ["  for (int i = 0; i < MLGO_FEATURES; ++i) v0[i] = features[i];"]
    statements = ["    float x = features[i];"]
    if normalization.method == "quantiles":
        amount = normalization.quantiles.shape[1]
        parts.append(_table("mlgo_quantiles", normalization.quantiles))
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
            parts.append(_table("mlgo_center", normalization.center))
            parts.append(_table("mlgo_factor", (1 / normalization.scale).astype(np.float32)))
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
    """Return a number as C writes it exactly: nine digits tell any two float32 apart."""
    text = f"{float(value):.9g}"
    return f"{text}f" if any(character in text for character in ".en") else f"{text}.0f"
