"""The policies `sb3:FILE`: what stable-baselines3 and sb3-contrib have trained, with nothing in the file run.

Their own `load()` unpickles what is in the file. Here only the weights are read, by PyTorch in a process of its own
(`torch.load(weights_only=True)`), and plain JSON: which activation the policy has. It is then computed by NumPy, as
`mlp:FILE` is.
"""

from __future__ import annotations

import io
import json
import lzma
import math
import os
import re
import zipfile
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import numpy.typing as npt

from mlgo_gym.env import CompilerEnv
from mlgo_gym.errors import MissingExtraError, PolicyError
from mlgo_gym.policies.foreign_model import ForeignModel
from mlgo_gym.policies.mlp import MlpPolicy
from mlgo_gym.policies.model_process import ModelProcess, ModelProcessError
from mlgo_gym.policies.network import ACTIVATIONS, Network
from mlgo_gym.policies.normalization import Normalization
from mlgo_gym.storage.foreign_file import open_foreign
from mlgo_gym.storage.json_text import parse_json

ENTRY = "mlgo_gym.json"
"""What `save_sb3()` adds to a model's file: the names of its features, and their normalization."""

LARGEST_ENTRY = 1 << 28
"""The most bytes that an entry of an archive may unpack to."""

_DAMAGED = (zipfile.BadZipFile, zlib.error, lzma.LZMAError)

MASK = "action_mask"

_ACTOR, _ACTOR_HEAD = "mlp_extractor.policy_net", "action_net"
_CRITIC = "q_net.q_net"
_CLASSES = {"Tanh": "tanh", "ReLU": "relu", "ELU": "elu", "LeakyReLU": "leaky_relu"}


def save_sb3(
    model: Any, path: str | os.PathLike[str], features: Sequence[str], normalization: Normalization | None = None
) -> None:
    """Save a model, and with it what `sb3:FILE` needs to know.

    Args:
        model: a PPO, A2C, DQN or MaskablePPO with `MlpPolicy` or, beside an action mask, `MultiInputPolicy`.
        path: the file, whose name ends in `.zip`.
        features: the names of the features that it was trained on: the environment's `feature_names`.
        normalization: how they were normalized, by `NormalizeFeatures`.
    """
    model.save(os.fspath(path))
    data = {"features": list(features), "normalization": None if normalization is None else normalization.to_json()}
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr(ENTRY, json.dumps(data))


def read_sb3(path: Path, env: CompilerEnv, process: ModelProcess | None = None) -> Network:
    """Return the network that decides in a model's file; its inputs are features, behind the action mask if it has one.

    Args:
        path: what `model.save()` or `save_sb3()` wrote.
        env: the environment; its features are those of a model that does not name its own.
        process: where its weights are read, if not in a process of their own.

    Raises:
        MissingExtraError: torch is not installed.
        PolicyError: it is no such file, or its policy is no multi-layer perceptron.
    """
    try:
        with open_foreign(path) as file, zipfile.ZipFile(file) as archive:
            names = archive.namelist()
            weights = _read(path, archive, "policy.pth")
            data = parse_json(_read(path, archive, "data"))
            ours = parse_json(_read(path, archive, ENTRY)) if ENTRY in names else {}
        features = tuple(ours.get("features") or env.feature_names)
        if not isinstance(data, dict) or not all(isinstance(name, str) for name in features):
            raise ValueError("it has settings of another form")
    except (OSError, KeyError, TypeError, ValueError, AttributeError, RuntimeError, EOFError, *_DAMAGED) as error:
        raise PolicyError(f"{path} was to be a model of stable-baselines3, and cannot be read: {error!r}") from error
    state = _weights(path, weights, process)
    layers = _layers(path, state)
    inputs = state[f"{layers[0]}.weight"].shape[-1]
    normalization = Normalization.from_json(ours["normalization"]) if ours.get("normalization") else None
    masked = _mask_size(env)
    if inputs == masked + len(features):
        mask = tuple(f"{MASK}[{action}]" for action in range(masked))
    elif inputs == len(features):
        mask = ()
    else:
        raise PolicyError(
            f"{path} takes {inputs} inputs, and its features are {len(features)}, beside {masked} of an action mask; "
            "write it with save_sb3(), which keeps their names"
        )
    if normalization is not None:
        normalization, units = _with_mask(normalization, mask)
        state[f"{layers[0]}.weight"] = state[f"{layers[0]}.weight"] / units
    return Network.from_state(
        state,
        layers,
        (*mask, *features),
        activation=_activation(path, data, state),
        normalization=normalization,
    )


class Sb3Policy(MlpPolicy):
    """Takes the action that a model of stable-baselines3 prefers.

    Args:
        env: the environment.
        path: the model's file.
        process: where its weights are read, if not in a process of their own.

    Raises:
        MissingExtraError: torch is not installed.
        PolicyError: it is no such file, wants a feature that is not there, or has other actions.
    """

    def __init__(self, env: CompilerEnv, path: Path, process: ModelProcess | None = None) -> None:
        super().__init__(env, read_sb3(path, env, process))


def _read(path: Path, archive: zipfile.ZipFile, name: str) -> bytes:
    """Return an entry; not one that would fill the memory."""
    size = archive.getinfo(name).file_size
    if size > LARGEST_ENTRY:
        raise PolicyError(f"{path}: its {name!r} would unpack to {size} bytes, and {LARGEST_ENTRY} are allowed")
    return archive.read(name)


def _weights(path: Path, data: bytes, process: ModelProcess | None) -> dict[str, npt.NDArray[Any]]:
    """Return the tensors, which PyTorch reads in a process of its own: its files can ask for any size."""
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            size = sum(member.file_size for member in archive.infolist())
        if size > LARGEST_ENTRY:
            raise ValueError(f"they would take {size} bytes")
        model = ForeignModel("sb3", path, process, data)
        # One number can be that of all places of a tensor.
        size = sum(math.prod(tensor.shape) * tensor.dtype.itemsize for tensor in model.outputs)
        if size > LARGEST_ENTRY:
            raise ValueError(f"they would take {size} bytes")
        found: dict[str, npt.NDArray[Any]] = {}
        for number, tensor in enumerate(model.outputs):
            array = model.run(number, ()).reshape(model.deciding(number).shape)
            if not np.isfinite(array).all():
                raise ValueError(f"{tensor.name} has others than finite numbers")
            found[tensor.name] = array
        return found
    except (MissingExtraError, ModelProcessError):
        raise
    except Exception as error:  # what a damaged archive raises has no root of its own
        # What PyTorch says there is how to read it all the same, with whatever it runs.
        raise PolicyError(
            f"the weights in {path} are damaged, or more than weights; only tensors are read, so that nothing in a "
            "file can run: save the model again, or export it as ONNX"
        ) from error


def _layers(path: Path, state: Mapping[str, Any]) -> list[str]:
    """Return the names of the linear layers that decide, first to last."""
    stem = _ACTOR if f"{_ACTOR_HEAD}.weight" in state else _CRITIC
    pattern = re.compile(rf"{re.escape(stem)}\.(\d{{1,4}})\.weight")
    numbers = sorted(int(found[1]) for name in state if (found := pattern.fullmatch(name)))
    layers = [f"{stem}.{number}" for number in numbers] + ([_ACTOR_HEAD] if stem == _ACTOR else [])
    learned = [name for name in state if name.startswith(("features_extractor.", "q_net.features_extractor."))]
    sound = all(state[f"{name}.weight"].ndim == 2 for name in layers if f"{name}.weight" in state)
    if not layers or learned or not sound or f"{layers[0]}.weight" not in state:
        raise PolicyError(
            f"{path} was to have an MlpPolicy of PPO, A2C, DQN or MaskablePPO, and has {', '.join(state)}; export "
            "others as ONNX"
        )
    return layers


def _activation(path: Path, data: Mapping[str, Any], state: Mapping[str, Any]) -> str:
    kwargs = data.get("policy_kwargs")
    given = kwargs.get("activation_fn") if isinstance(kwargs, dict) else None
    if given is None:
        return "tanh" if f"{_ACTOR_HEAD}.weight" in state else "relu"
    name = _CLASSES.get(str(given).rpartition(".")[2].removesuffix("'>"))
    if name is None:
        raise PolicyError(f"{path} has the activation {given}; known are {', '.join(ACTIVATIONS)}: export it as ONNX")
    return name


def _mask_size(env: CompilerEnv) -> int:
    space = env.observation_space
    if isinstance(space, gym.spaces.Dict) and MASK in space.spaces:
        return math.prod(space[MASK].shape or (0,))
    return 0


def _with_mask(normalization: Normalization, mask: Sequence[str]) -> tuple[Normalization, npt.NDArray[np.float32]]:
    """Return a normalization of the mask and the features, and what it makes of 1 in the mask, else 1, by input."""
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
