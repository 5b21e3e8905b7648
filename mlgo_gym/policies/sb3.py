"""The policies `sb3:FILE`: models of stable-baselines3 and sb3-contrib; nothing in the file is run.

Their `load()` unpickles the file. This module reads two entries: the weights, by PyTorch in a process of its own
(`torch.load(weights_only=True)`), and the JSON with the activation. NumPy computes the network, as for `mlp:FILE`.
"""

from __future__ import annotations

import io
import json
import lzma
import os
import re
import zipfile
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from mlgo_gym.env import CompilerEnv
from mlgo_gym.errors import MissingExtraError, PolicyError
from mlgo_gym.policies.features import MASK, mask_size
from mlgo_gym.policies.foreign_model import ForeignModel
from mlgo_gym.policies.mlp import MlpPolicy
from mlgo_gym.policies.model_process import ModelProcess, ModelProcessError
from mlgo_gym.policies.network import ACTIVATIONS, Network
from mlgo_gym.policies.normalization import Normalization
from mlgo_gym.storage.json_text import parse_json
from mlgo_gym.storage.untrusted_file import open_untrusted

ENTRY = "mlgo_gym.json"
"""The entry of `save_sb3()` in a model's file: the names of its features, and their normalization."""

LARGEST_ENTRY = 1 << 28
"""Maximum size of an unpacked entry of an archive, in bytes."""

_UNREADABLE = (
    *(OSError, KeyError, TypeError, ValueError, AttributeError, RuntimeError, EOFError),
    *(zipfile.BadZipFile, zlib.error, lzma.LZMAError),
)
"""The errors of reading entries and their JSON; `zipfile` raises a RuntimeError for an encrypted entry."""

_ACTOR, _ACTOR_HEAD = "mlp_extractor.policy_net", "action_net"
_CRITIC = "q_net.q_net"
_CLASSES = {"Tanh": "tanh", "ReLU": "relu", "ELU": "elu", "LeakyReLU": "leaky_relu"}


def save_sb3(
    model: Any, path: str | os.PathLike[str], features: Sequence[str], normalization: Normalization | None = None
) -> None:
    """Save a model with its features and their normalization, for `sb3:FILE`.

    Args:
        model: a PPO, A2C, DQN or MaskablePPO with `MlpPolicy` or, for an action mask, `MultiInputPolicy`.
        path: the file, whose name ends in `.zip`.
        features: names of the features that it was trained on: the environment's `feature_names`.
        normalization: the normalization of `NormalizeFeatures`, or None.
    """
    model.save(os.fspath(path))
    data = {"features": list(features), "normalization": None if normalization is None else normalization.to_json()}
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr(ENTRY, json.dumps(data))


def saved_features(path: Path) -> tuple[str, ...]:
    """Return the names of the features that `save_sb3()` wrote into a file; none of another file."""
    return tuple(map(str, _saved(path)[1].get("features") or ()))


def _saved(path: Path, *entries: str) -> tuple[list[bytes], dict[str, Any]]:
    """Return some entries of a model's file, and the data of `save_sb3()`."""
    try:
        with open_untrusted(path) as file, zipfile.ZipFile(file) as archive:
            sizes = {entry.filename: entry.file_size for entry in archive.infolist()}
            names = [*entries, *([ENTRY] if ENTRY in sizes else [])]
            for name in names:
                if sizes.get(name, 0) > LARGEST_ENTRY:
                    raise PolicyError(
                        f"expected at most {LARGEST_ENTRY} bytes in {name!r} of {path}, got {sizes[name]}"
                    )
            contents = [archive.read(name) for name in names]
        data = parse_json(contents[len(entries)]) if ENTRY in sizes else {}
        if not isinstance(data, dict):
            raise ValueError("settings of another form")
    except _UNREADABLE as error:
        raise PolicyError(f"expected a model of stable-baselines3, got {path}: {error!r}") from error
    return contents[: len(entries)], data


def read_sb3(path: Path, env: CompilerEnv, process: ModelProcess | None = None) -> Network:
    """Return the deciding network of a file of `model.save()` or `save_sb3()`; a given process reads the weights.

    Its inputs are the action mask, if it has one, and the features; those of the environment if the file names none.

    Raises:
        MissingExtraError: torch is not installed.
        PolicyError: the file is no such model, or its policy is no multi-layer perceptron.
    """
    (weights, text), ours = _saved(path, "policy.pth", "data")
    try:
        data, features = parse_json(text), tuple(ours.get("features") or env.feature_names)
        if not isinstance(data, dict) or not all(isinstance(name, str) for name in features):
            raise ValueError("settings of another form")
    except (TypeError, ValueError) as error:
        raise PolicyError(f"expected a model of stable-baselines3, got {path}: {error!r}") from error
    state = _weights(path, weights, process)
    layers = _layers(path, state)
    inputs, masked = state[f"{layers[0]}.weight"].shape[-1], mask_size(env)
    if inputs not in (len(features), masked + len(features)):
        raise PolicyError(
            f"expected {len(features)} inputs, or {masked} more for an action mask, got {inputs} in {path}; write it "
            "with save_sb3(), which keeps the names of the features"
        )
    mask = tuple(f"{MASK}[{action}]" for action in range(inputs - len(features)))
    normalization = Normalization.from_json(ours["normalization"]) if ours.get("normalization") else None
    if normalization is not None:
        normalization, units = _with_mask(normalization, mask)
        state[f"{layers[0]}.weight"] = state[f"{layers[0]}.weight"] / units
    activation = _activation(path, data, state)
    return Network.from_state(state, layers, (*mask, *features), activation=activation, normalization=normalization)


def load_sb3(env: CompilerEnv, path: Path, process: ModelProcess | None = None) -> MlpPolicy:
    """Return the policy of `read_sb3()`; a PolicyError if a feature is missing, or the actions are others."""
    return MlpPolicy(env, read_sb3(path, env, process), f"sb3:{path}")


def _weights(path: Path, data: bytes, process: ModelProcess | None) -> dict[str, npt.NDArray[Any]]:
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            size = sum(member.file_size for member in archive.infolist())
        if size <= LARGEST_ENTRY:
            model = ForeignModel("sb3", path, process, data)
            # A tensor of any size can be one repeated number.
            size = sum(tensor.size * tensor.dtype.itemsize for tensor in model.outputs)
        if size > LARGEST_ENTRY:
            raise ValueError(f"they need {size} bytes")
        arrays: dict[str, npt.NDArray[Any]] = {}
        for number, tensor in enumerate(model.outputs):
            array = model.run(number, ()).reshape(model.number_output(number).shape)
            if not np.isfinite(array).all():
                raise ValueError(f"{tensor.name} has numbers that are not finite")
            arrays[tensor.name] = array
        return arrays
    except (MissingExtraError, ModelProcessError):
        raise
    except Exception as error:  # the errors of a damaged archive have no common class
        # PyTorch's own message explains how to read the file unsafely.
        raise PolicyError(
            f"expected nothing but tensors as weights in {path}, since nothing in a file may run; save the model "
            "again, or export it as ONNX"
        ) from error


def _layers(path: Path, state: Mapping[str, Any]) -> list[str]:
    stem = _ACTOR if f"{_ACTOR_HEAD}.weight" in state else _CRITIC
    pattern = re.compile(rf"{re.escape(stem)}\.(\d{{1,4}})\.weight")
    numbers = sorted(int(match[1]) for name in state if (match := pattern.fullmatch(name)))
    layers = [f"{stem}.{number}" for number in numbers] + ([_ACTOR_HEAD] if stem == _ACTOR else [])
    learned = [name for name in state if name.startswith(("features_extractor.", "q_net.features_extractor."))]
    sound = all(state[f"{name}.weight"].ndim == 2 for name in layers if f"{name}.weight" in state)
    if not layers or learned or not sound or f"{layers[0]}.weight" not in state:
        raise PolicyError(
            f"expected an MlpPolicy of PPO, A2C, DQN or MaskablePPO, got {', '.join(state)} in {path}; export others "
            "as ONNX"
        )
    return layers


def _activation(path: Path, data: Mapping[str, Any], state: Mapping[str, Any]) -> str:
    kwargs = data.get("policy_kwargs")
    activation = kwargs.get("activation_fn") if isinstance(kwargs, dict) else None
    if activation is None:
        return "tanh" if f"{_ACTOR_HEAD}.weight" in state else "relu"
    name = _CLASSES.get(str(activation).rpartition(".")[2].removesuffix("'>"))
    if name is None:
        raise PolicyError(
            f"expected an activation of {', '.join(ACTIVATIONS)}, got {activation} in {path}; export it as ONNX"
        )
    return name


def _with_mask(normalization: Normalization, mask: Sequence[str]) -> tuple[Normalization, npt.NDArray[np.float32]]:
    """Return a normalization of mask and features, and by input the normalized 1 for the mask and 1 for features."""
    count = len(mask)
    width = normalization.quantiles.shape[1]
    joined = Normalization(
        normalization.method,
        (*mask, *normalization.names),
        np.concatenate([np.zeros(count, np.float32), normalization.center]),
        np.concatenate([np.ones(count, np.float32), normalization.scale]),
        np.concatenate([np.zeros((count, width), np.float32), normalization.quantiles]),
    )
    units = np.ones(len(joined.names), np.float32)
    units[:count] = joined(units)[:count]
    return joined, units
