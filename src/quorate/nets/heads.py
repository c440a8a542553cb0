"""Heads: from what a block gives at an exit to the logits of the classes.

Shapes: ``B`` samples, ``C`` features; maps ``[B, C, H, W]``, sequences ``[B, T, C]`` of ``T`` tokens, vectors
``[B, C]``.

This file does not know which network the features come from.
"""

from collections.abc import Sequence
from typing import Literal

from torch import Tensor, nn

from quorate.nets.learner import check_count

__all__ = ["MapHead", "SequenceHead", "VectorHead", "make_head"]


class MapHead(nn.Module):
    """Global average pool, flatten, linear: ``[B, C, H, W] -> [B, classes]``."""

    def __init__(self, features: int, classes: int) -> None:
        super().__init__()
        self.linear = nn.Linear(features, classes)

    def forward(self, x_BCHW: Tensor) -> Tensor:
        logits: Tensor = self.linear(x_BCHW.mean(dim=(2, 3)))
        return logits


class SequenceHead(nn.Module):
    """The mean of the tokens, or the first one, layer norm, linear: ``[B, T, C] -> [B, classes]``.

    Note:
        **[ours]** The layer norm is there because inner blocks of a transformer are not normalised. The mean counts
        every token, padding too: take the first token where sequences are padded.
    """

    def __init__(self, features: int, classes: int, token: Literal["mean", "first"] = "mean") -> None:
        super().__init__()
        self.token = token
        self.norm = nn.LayerNorm(features)
        self.linear = nn.Linear(features, classes)

    def forward(self, x_BTC: Tensor) -> Tensor:
        logits: Tensor = self.linear(self.norm(x_BTC[:, 0] if self.token == "first" else x_BTC.mean(dim=1)))
        return logits


class VectorHead(nn.Module):
    """Linear: ``[B, C] -> [B, classes]``."""

    def __init__(self, features: int, classes: int) -> None:
        super().__init__()
        self.linear = nn.Linear(features, classes)

    def forward(self, x_BC: Tensor) -> Tensor:
        logits: Tensor = self.linear(x_BC)
        return logits


def make_head(shape: Sequence[int], classes: int, token: Literal["mean", "first"] = "mean") -> nn.Module:
    """The head that fits features of this shape, the batch included.

    Raises:
        ValueError: if the features are neither a map, a sequence nor a vector, or there are no classes.

    Example:
        >>> import torch
        >>> from quorate.nets import make_head
        >>> make_head((2, 16, 8, 8), classes=10)(torch.zeros(2, 16, 8, 8)).shape
        torch.Size([2, 10])
    """
    check_count("classes", classes, 2)
    if token not in ("mean", "first"):
        raise ValueError(f"token must be 'mean' or 'first', got {token!r}")
    match tuple(shape):
        case (_, features, _, _):
            return MapHead(features, classes)
        case (_, _, features):
            return SequenceHead(features, classes, token)
        case (_, features):
            return VectorHead(features, classes)
    raise ValueError(
        f"an exit must give a map [B, C, H, W], a sequence [B, T, C] or a vector [B, C], got shape {tuple(shape)}; "
        "name another submodule, or pass heads= with modules of your own"
    )
