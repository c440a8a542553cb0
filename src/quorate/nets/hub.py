"""Models from elsewhere: import packages whose wheels do not match this build of the framework.

This file does not know which model is wanted, nor how it is cut.
"""

import importlib
import sys
from types import ModuleType

import torch

__all__ = ["import_vision"]

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


def _declare() -> None:
    global _library  # noqa: PLW0603 - the declaration lives as long as the library object
    _library = torch.library.Library("torchvision", "FRAGMENT")  # type: ignore[no-untyped-call]
    for schema in _OPERATORS.values():
        _library.define(schema)  # type: ignore[no-untyped-call]


_library: torch.library.Library | None = None
