"""Leave a user's network as it was: its modes, and whatever a forward pass writes into it.

This file does not know why a network is run.
"""

import copy
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from torch import Tensor, nn

__all__ = ["held_tensors", "kept_as_it_was", "kept_modes"]


@contextmanager
def kept_modes(modules: Iterable[nn.Module]) -> Iterator[None]:
    """Give every module its own mode back: some may be in evaluation while others train.

    Example:
        >>> from torch import nn
        >>> from quorate.nets.restoring import kept_modes
        >>> layer = nn.Linear(2, 2).eval()
        >>> with kept_modes([layer]):
        ...     _ = layer.train()
        >>> layer.training
        False
    """
    modes = {module: module.training for module in modules}
    try:
        yield
    finally:
        for module, mode in modes.items():
            module.training = mode


@contextmanager
def kept_as_it_was(model: nn.Module) -> Iterator[None]:
    """Give every module its attributes back, and to dictionaries, lists and sets among them what they held.

    A forward pass may keep tensors for later; those of a run without numbers must not stay.

    Example:
        >>> from torch import nn
        >>> from quorate.nets.restoring import kept_as_it_was
        >>> layer = nn.Linear(2, 2)
        >>> with kept_as_it_was(layer):
        ...     layer.cache = "something"
        >>> hasattr(layer, "cache")
        False
    """
    attributes = [(module, dict(vars(module))) for module in model.modules()]
    held = {id(v): (v, copy.copy(v)) for _, saved in attributes for v in saved.values() if type(v) in _CONTAINERS}
    try:
        yield
    finally:
        for module, saved in attributes:
            vars(module).clear()
            vars(module).update(saved)
        for container, content in held.values():
            container.clear()
            container.extend(content) if isinstance(container, list) else container.update(content)


_CONTAINERS = (dict, list, set)


def held_tensors(modules: Iterable[tuple[str, nn.Module]]) -> dict[tuple[str, str], Tensor]:
    """Attributes and buffers that are tensors now, by the module's name and their own.

    Example:
        >>> from torch import nn
        >>> from quorate.nets.restoring import held_tensors
        >>> sorted(name for _, name in held_tensors([("norm", nn.BatchNorm1d(2))]))
        ['num_batches_tracked', 'running_mean', 'running_var']
    """
    found = {}
    for where, module in modules:
        for name, value in (*vars(module).items(), *module._buffers.items()):
            if isinstance(value, Tensor):
                found[where, name] = value
    return found
