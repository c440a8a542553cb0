"""Networks that a user brings to a run: models of timm by name, functions in a file; with weights, where there are any.

``timm:resnet18``, ``my_models.py:build``; behind an ``@`` the submodules after which exits shall stand, found by cost
where nothing is said: ``timm:resnet18@layer2,layer3``.

This file does not know how learners are trained.
"""

import importlib.util
import inspect
import sys
import traceback
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from quorate.data.dataset import Dataset
from quorate.errors import QuorateError
from quorate.nets import Learner, attach_exits, even_exits, timm_input, timm_learner, timm_model
from quorate.store.run import InputSpec
from quorate.train import input_for

__all__ = ["Brought", "bring", "load_into", "side_read"]


class Brought(NamedTuple):
    """A network made ready: the learner, how it sees images, what it is called, and where its weights came from."""

    learner: Learner
    spec: InputSpec
    name: str
    source: str


def side_read(model: str) -> int:
    """The side of the images that a model was made for; 0 where nobody knows.

    Example:
        >>> side_read("timm:resnet18"), side_read("mine.py:build")
        (224, 0)
    """
    kind, _, rest = model.partition(":")
    return timm_input(rest.partition("@")[0]).side if kind == "timm" else 0


def bring(model: str, data: Dataset, weights: str | None = None, *, pretrain: bool = True) -> Brought:
    """Make a learner of what a user named.

    Args:
        model: ``timm:NAME`` or ``FILE.py:FUNCTION``, with ``@EXIT,EXIT`` behind it or not. The function is called with
            ``classes=`` and ``side=`` where it takes them, and gives a network or a learner.
        data: what it is for.
        weights: a file, ``pretrained`` or ``none``; None: pretrained for timm, whatever the function gives else.
        pretrain: whether weights are wanted at all; they are not where trained ones will replace them.

    Raises:
        ValueError: no such model, function or file; or the network cannot be cut.
        QuorateError: the weights cannot be had or are those of another network; says what to do.

    Example:
        >>> from quorate.data import load
        >>> bring("resnet18", load("digits"))
        Traceback (most recent call last):
        ValueError: model must be timm:NAME or FILE.py:FUNCTION, got 'resnet18'; ...
    """
    kind, _, rest = model.partition(":")
    name, _, places = rest.partition("@")
    exits = [place.strip() for place in places.split(",") if place.strip()] or None
    if weights not in (None, "none", "pretrained") and not Path(weights).is_file():
        raise ValueError(f"weights must be a file, pretrained or none, got {weights!r}: there is no such file")
    if kind == "timm" and name:
        return _of_timm(name, exits, data, weights or "pretrained", pretrain)
    if kind.endswith(".py") and name:
        return _of_file(Path(kind), name, exits, data, weights, pretrain)
    raise ValueError(
        f"model must be timm:NAME or FILE.py:FUNCTION, got {model!r}; exits stand behind an @: "
        "timm:resnet18@layer2,layer3"
    )


def _of_timm(name: str, exits: list[str] | None, data: Dataset, weights: str, pretrain: bool) -> Brought:
    side, classes, own = data.shape[0], len(data.classes), timm_input(name)
    if data.shape[0] != data.shape[1]:
        raise ValueError(f"models of timm read square images, {data.name} has {data.shape[0]} x {data.shape[1]}")
    if pretrain and weights == "pretrained":
        network, source = _pretrained(name, classes, side), "pretrained"
    else:
        network, source = timm_model(name, classes=classes, side=side), "none"
        if pretrain and weights != "none":
            source = load_into(network, Path(weights), classes)
    learner = timm_learner(name, classes=classes, side=side, exits=exits, network=network)
    return Brought(learner, input_for(data, channels=3, mean=own.mean, std=own.std), name, source)


def _pretrained(name: str, classes: int, side: int) -> nn.Module:
    try:
        return timm_model(name, classes=classes, side=side, pretrained=True)
    except ValueError:
        raise
    except Exception as error:  # whatever the hub, its cache and the network raise
        raise QuorateError(
            f"the weights of timm:{name} are neither in the cache nor to be had from the network "
            f"({type(error).__name__}: {' '.join(str(error).split())[:120]}): give a file with --weights FILE, one for "
            "each --model in the same order, or --weights none to begin from chance"
        ) from error


def _of_file(
    path: Path, name: str, exits: list[str] | None, data: Dataset, weights: str | None, pretrain: bool
) -> Brought:
    if not path.is_file():
        raise ValueError(f"{path}: no such file; a model of your own is FILE.py:FUNCTION")
    if weights == "pretrained":
        raise ValueError(f"{path}:{name} decides itself what it begins with; give a file of weights, or none")
    function = _function(path, name)
    classes, side = len(data.classes), data.shape[0]
    takes = inspect.signature(function).parameters
    with _of_the_user(path):
        made = function(**{key: value for key, value in {"classes": classes, "side": side}.items() if key in takes})
    if not isinstance(made, nn.Module):
        raise ValueError(f"{path}:{name} must give a network (a torch module) or a learner, got {type(made).__name__}")
    source = "its own"
    if pretrain and weights not in (None, "none"):
        source = load_into(made, Path(str(weights)), classes)
    channels = _channels(made, data.shape[2])
    spec = input_for(data, channels=channels)
    if not isinstance(made, Learner):
        sample = torch.zeros(2, channels, *data.shape[:2])
        names = exits if exits is not None else even_exits(made, classes=classes, sample=sample)
        made = attach_exits(made, names, classes=classes, sample=sample)
    elif exits is not None:
        raise ValueError(f"{path}:{name} gives a learner, which has its exits already: leave @{','.join(exits)} out")
    return Brought(made, spec, name, source)


def _function(path: Path, name: str) -> Any:
    spec = importlib.util.spec_from_file_location(f"quorate_models_{path.stem}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look there for the module that they are written in
    with _of_the_user(path):
        spec.loader.exec_module(module)
    function = getattr(module, name, None)
    if not callable(function):
        raise ValueError(f"{path} has no function {name}; it has {', '.join(_functions(module)) or 'none'}")
    return function


@contextmanager
def _of_the_user(path: Path) -> Iterator[None]:
    """What goes wrong in the user's own code is said as theirs, with its line."""
    try:
        yield
    except Exception as error:  # anything may be raised there
        at = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(path)]
        line = f", line {at[-1]}" if at else ""
        said = " ".join(str(error).split())
        raise QuorateError(f"{path}{line}: raises {type(error).__name__}: {said}; mend it there") from error


def _functions(module: Any) -> list[str]:
    return [name for name, value in vars(module).items() if inspect.isfunction(value) and not name.startswith("_")]


def _channels(network: nn.Module, own: int) -> int:
    first = next((m for m in network.modules() if isinstance(m, nn.Conv2d)), None)
    return own if first is None else first.in_channels


def load_into(network: nn.Module, path: Path, classes: int) -> str:
    """Load weights from a file into a network; a classifier of other classes is left as it is.

    Args:
        network: any.
        path: ``.safetensors``, or what ``torch.save`` wrote of a state dict (read without executing anything).
        classes: of the network.

    Returns:
        The name of the file.

    Raises:
        QuorateError: it cannot be read, or holds the weights of another network.

    Example:
        >>> load_into(nn.Linear(2, 2), Path("/nowhere.pth"), 2)
        Traceback (most recent call last):
        quorate.errors.QuorateError: /nowhere.pth: cannot be read as weights (...
    """
    found, wanted = _tensors(path), network.state_dict()
    other = {
        name
        for name, tensor in found.items()
        if name in wanted and tensor.shape != wanted[name].shape and wanted[name].shape[:1] == (classes,)
    }
    odd = [name for name in found if name in wanted and name not in other and found[name].shape != wanted[name].shape]
    missing = [name for name in wanted if name not in found and not name.endswith("num_batches_tracked")]
    unknown = [name for name in found if name not in wanted]
    if odd or missing or unknown:
        first = (odd or missing or unknown)[0]
        why = "has another shape" if odd else "is missing" if missing else "is not of this network"
        raise QuorateError(
            f"{path}: these are the weights of another network than {type(network).__name__}: {first} {why} "
            f"({len(odd) + len(missing) + len(unknown)} such names)"
        )
    network.load_state_dict({name: found[name] for name in found if name not in other}, strict=False)
    return path.name


def _tensors(path: Path) -> Mapping[str, Tensor]:
    try:
        if path.suffix == ".safetensors":
            from safetensors.torch import load_file

            return load_file(path)
        found = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # unpicklers and readers raise what they like
        raise QuorateError(
            f"{path}: cannot be read as weights ({type(error).__name__}): give a .safetensors file, or a state dict "
            "that torch.save wrote"
        ) from error
    for key in ("state_dict", "model"):
        if isinstance(found, Mapping) and isinstance(found.get(key), Mapping):
            found = found[key]
    if not isinstance(found, Mapping) or not all(isinstance(x, Tensor) for x in found.values()):
        raise QuorateError(f"{path}: holds no state dict: a mapping of names to tensors")
    return found
