"""Which form an operation takes on which device and in which precision: the one place that chooses.

A *form* is another way to the same numbers. The plain one is what the framework does when nobody asks; the others exist
because on a CPU some of the framework's gradients of depthwise convolutions are 5 to 40 times slower than its forward
pass (``benchmarks/RECORDS.md`` has the figures). Every form is tested against the plain one.

This file does not know how a form computes: :mod:`quorate.nets.depthwise` does.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal, NamedTuple

import torch

__all__ = ["PLAIN", "DepthwiseForm", "dense_gradients", "depthwise_form", "memory_format", "using_forms"]


class DepthwiseForm(NamedTuple):
    """How a depthwise convolution is differentiated.

    Attributes:
        input_gradient: ``native``; ``flipped``, the forward convolution with the kernel turned round (stride 1), of the
            gradient with zeros between its entries (stride 2).
        weight_gradient: ``native``; ``split``, a kernel of five columns as two of three, and a dilation of 2 as
            none on the map whose pixels are dealt out by parity.
        phase: whether stride 2 and dilation 2 together become one convolution of the pixels with even coordinates,
            the only ones it reads.
    """

    input_gradient: Literal["native", "flipped"] = "native"
    weight_gradient: Literal["native", "split"] = "native"
    phase: bool = False


PLAIN = DepthwiseForm()
"""The framework's own convolution and gradients."""

_Name = Literal["auto", "plain", "fast"]
_chosen: _Name = "auto"


@contextmanager
def using_forms(name: _Name) -> Iterator[None]:
    """Within the block, take ``plain`` forms only, the ``fast`` ones wherever they exist, or (``auto``) choose.

    Example:
        >>> import torch
        >>> from quorate.nets import using_forms
        >>> from quorate.nets.forms import PLAIN, depthwise_form
        >>> with using_forms("plain"):
        ...     depthwise_form(5, 1, 1, torch.device("cpu"), torch.float32) == PLAIN
        True
    """
    global _chosen  # noqa: PLW0603 - one switch for the process, as for the framework's own backends
    if name not in ("auto", "plain", "fast"):
        raise ValueError(f"forms must be auto, plain or fast, got {name!r}")
    before, _chosen = _chosen, name
    try:
        yield
    finally:
        _chosen = before


def depthwise_form(kernel: int, stride: int, dilation: int, device: torch.device, dtype: torch.dtype) -> DepthwiseForm:
    """The form of a depthwise convolution's gradients.

    On a CPU: everything that is not a plain 3 x 3 takes the fast form; so do strided ones in bfloat16, whose native
    input gradient has no kernel of its own. On every other device the plain one.

    Note:
        For dilated kernels the form matters for more than speed: in channels-last bfloat16 the native weight gradient
        of torch 2.13.0 on a CPU is wrong (16 channels, 32 x 32: garbage in 48 of 48 trials), ours is not.

    Example:
        >>> import torch
        >>> from quorate.nets.forms import depthwise_form
        >>> depthwise_form(5, 1, 1, torch.device("cpu"), torch.float32).weight_gradient
        'split'
    """
    if _chosen == "plain" or device.type == "meta" or (_chosen == "auto" and device.type != "cpu"):
        return PLAIN
    flipped = stride == 1 or dtype != torch.float32 or _chosen == "fast"
    split = kernel > 3 or dilation > 1 or _chosen == "fast"
    return DepthwiseForm(
        "flipped" if flipped else "native", "split" if split else "native", phase=stride == 2 and dilation == 2
    )


def memory_format(device: torch.device) -> torch.memory_format:
    """The order in which maps lie in memory: channels last, on a CPU and on a GPU.

    Example:
        >>> import torch
        >>> from quorate.nets.forms import memory_format
        >>> memory_format(torch.device("cpu"))
        torch.channels_last
    """
    return torch.contiguous_format if _chosen == "plain" or device.type == "meta" else torch.channels_last


def dense_gradients(device: torch.device) -> bool:
    """Whether a concatenation gives its parts gradients of their own rather than slices of one.

    Example:
        >>> import torch
        >>> from quorate.nets.forms import dense_gradients
        >>> dense_gradients(torch.device("cpu")), dense_gradients(torch.device("cuda"))
        (True, False)
    """
    return _chosen == "fast" or (_chosen == "auto" and device.type == "cpu")
