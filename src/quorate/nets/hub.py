"""Models from elsewhere: import packages whose wheels do not match this build of the framework, and make learners of
timm's models by name.

Shapes: images ``[B, 3, H, W]``. This file does not know where weights come from.
"""

import difflib
import importlib
import sys
from collections.abc import Sequence
from types import ModuleType
from typing import Any, NamedTuple

import torch
from torch import nn

from quorate.nets.adapter import attach_exits
from quorate.nets.learner import Learner
from quorate.nets.placing import even_exits

__all__ = ["TimmInput", "import_vision", "timm_input", "timm_learner", "timm_model"]

_OPERATORS = {
    "nms": "nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
    "qnms": "qnms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
}


def import_vision(package: str) -> ModuleType:
    """Import ``torchvision``, ``timm`` or ``transformers``, whichever build of torchvision is installed.

    A torchvision built for another torch cannot load its compiled operators, and then fails to import at the first one
    it describes. Only then the two it describes are declared, and it is imported again; classification needs neither.
    One that matches is imported as it is.

    Args:
        package: what to import, a submodule too (``torchvision.models``).

    Raises:
        ModuleNotFoundError: if it is not installed.

    Example:
        >>> from quorate.nets import import_vision
        >>> import_vision("math").sqrt(4.0)
        2.0
    """
    try:
        importlib.import_module("torchvision")
    except ModuleNotFoundError:
        pass  # the package may do without
    except RuntimeError as error:
        if "does not exist" not in str(error):
            raise
        for name in [name for name in sys.modules if name.partition(".")[0] == "torchvision"]:
            del sys.modules[name]
        _declare()
    return importlib.import_module(package)


class TimmInput(NamedTuple):
    """How a model of timm sees images: its side, and what is a normal pixel, channel by channel."""

    side: int
    mean: tuple[float, ...]
    std: tuple[float, ...]


def timm_model(name: str, *, classes: int, side: int | None = None, pretrained: bool = False) -> nn.Module:
    """A model of timm with a head for so many classes.

    Args:
        name: as timm has it.
        classes: number of classes.
        side: of its images, which models of one size only have to know; None: its own.
        pretrained: whether to take its weights from the user's cache or the network.

    Raises:
        ValueError: timm has no such model; names the nearest.

    Example:
        >>> timm_model("resnet10t", classes=5).get_classifier().out_features
        5
    """
    timm = import_vision("timm")
    if name.partition(".")[0] not in (known := timm.list_models()):
        near = ", ".join(difflib.get_close_matches(name, known, 3)) or "see timm.list_models()"
        raise ValueError(f"timm has no model {name!r}; did you mean {near}?")
    options: dict[str, Any] = {"num_classes": classes, "pretrained": pretrained}
    if side is not None and timm_input(name).side != side and _has_one_size(timm, name):
        options["img_size"] = side
    model: nn.Module = timm.create_model(name, **options)
    return model


def timm_input(name: str) -> TimmInput:
    """How a model of timm wants its images.

    Example:
        >>> timm_input("resnet18").side
        224
    """
    found = import_vision("timm").models.get_pretrained_cfg(name)
    if found is None:
        return TimmInput(224, (0.485, 0.456, 0.406), (0.229, 0.224, 0.225))
    return TimmInput(int(found.input_size[-1]), tuple(found.mean), tuple(found.std))


def timm_learner(
    model: str, *, classes: int, side: int, exits: Sequence[str] | None = None, network: nn.Module | None = None
) -> Learner:
    """A learner of a model of timm, that knows how it was made.

    Args:
        model: its name.
        classes: number of classes.
        side: of its images.
        exits: after which submodules; None: three, found by cost.
        network: the model itself, where it was made before; None: with fresh weights.

    Example:
        >>> timm_learner("resnet10t", classes=5, side=32, exits=["layer1", "layer3"]).origin
        {'kind': 'timm', 'model': 'resnet10t', 'classes': 5, 'side': 32, 'exits': ['layer1', 'layer3']}
    """
    network = timm_model(model, classes=classes, side=side) if network is None else network
    sample = torch.zeros(2, 3, side, side)
    names = list(exits) if exits is not None else even_exits(network, classes=classes, sample=sample)
    learner = attach_exits(network, names, classes=classes, sample=sample)
    learner.origin = {"kind": "timm", "model": model, "classes": classes, "side": side, "exits": names}
    return learner


def _has_one_size(timm: ModuleType, name: str) -> bool:
    found = timm.models.get_pretrained_cfg(name)
    return bool(found is not None and found.fixed_input_size)


def _declare() -> None:
    global _library  # noqa: PLW0603 - the declaration lives as long as the library object
    _library = torch.library.Library("torchvision", "FRAGMENT")  # type: ignore[no-untyped-call]
    for schema in _OPERATORS.values():
        _library.define(schema)  # type: ignore[no-untyped-call]


_library: torch.library.Library | None = None
