"""Depthwise convolution, and exact ways round its slow gradients.

Shapes: ``N`` samples, ``C`` channels, ``H`` x ``W`` the map, ``k`` the side of the kernel (odd), ``s`` the stride,
``d`` the dilation; padding ``p = d (k - 1) / 2`` keeps the side at stride 1. Per channel, and over one axis for short,

    y[o] = sum_i x[s o + d i - p] w[i].

The gradients are ``gx[h] = sum_m u[m] w[(h - m + p) / d]``, where ``u`` is the gradient of ``y`` with ``s - 1`` zeros
between its entries, and ``gw[i] = sum_o x[s o + d i - p] gy[o]``.

This file does not know which form is worth taking where: :mod:`quorate.nets.forms` does.
"""

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

from quorate.nets.forms import PLAIN, DepthwiseForm, depthwise_form

__all__ = ["DepthwiseConv", "depthwise"]


class DepthwiseConv(nn.Module):
    """A depthwise convolution without bias whose gradients take the form chosen for device and precision.

    Where nothing is differentiated it is the framework's convolution, whatever the form; a backward pass takes the
    chosen one in evaluation too, because some of the framework's gradients are wrong (see
    :func:`quorate.nets.forms.depthwise_form`).
    """

    def __init__(self, channels: int, kernel: int, stride: int, dilation: int = 1) -> None:
        super().__init__()
        self.kernel, self.stride, self.dilation = kernel, stride, dilation
        self.weight = nn.Parameter(torch.empty(channels, 1, kernel, kernel))
        nn.init.kaiming_uniform_(self.weight, a=5**0.5)

    def forward(self, x_NCHW: Tensor) -> Tensor:
        if not (torch.is_grad_enabled() and (x_NCHW.requires_grad or self.weight.requires_grad)):
            return depthwise(x_NCHW, self.weight, self.stride, self.dilation, PLAIN)
        x_NCHW, weight = _autocast(x_NCHW, self.weight)
        form = depthwise_form(self.kernel, self.stride, self.dilation, x_NCHW.device, x_NCHW.dtype)
        return depthwise(x_NCHW, weight, self.stride, self.dilation, form)

    def extra_repr(self) -> str:
        return f"{self.weight.shape[0]}, kernel={self.kernel}, stride={self.stride}, dilation={self.dilation}"


def depthwise(x_NCHW: Tensor, weight_C1kk: Tensor, stride: int, dilation: int, form: DepthwiseForm) -> Tensor:
    """Depthwise convolution with padding ``d (k - 1) / 2``, differentiated as the form says.

    Note:
        With ``s = d = 2`` and an even ``p``, ``y[o] = sum_i x[2 (o + i - p / 2)] w[i]`` reads even pixels only: it is
        the undilated convolution of stride 1 of those (``form.phase``).

    Example:
        >>> import torch
        >>> from quorate.nets.depthwise import depthwise
        >>> from quorate.nets.forms import DepthwiseForm
        >>> x, w = torch.randn(2, 3, 8, 8), torch.randn(3, 1, 5, 5)
        >>> plain = depthwise(x, w, 2, 2, DepthwiseForm())
        >>> torch.allclose(plain, depthwise(x, w, 2, 2, DepthwiseForm(phase=True)), atol=1e-5)
        True
    """
    if form.phase and stride == 2 and dilation == 2:
        return depthwise(x_NCHW[:, :, ::2, ::2], weight_C1kk, 1, 1, form)
    if form.input_gradient == form.weight_gradient == "native":
        return _forward(x_NCHW, weight_C1kk, stride, dilation)
    y: Tensor = _Depthwise.apply(x_NCHW, weight_C1kk, stride, dilation, form)  # type: ignore[no-untyped-call]
    return y


def _forward(x: Tensor, w: Tensor, s: int, d: int) -> Tensor:
    return F.conv2d(x, w, None, s, d * (w.shape[-1] // 2), d, w.shape[0])


class _Depthwise(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, w: Tensor, s: int, d: int, form: DepthwiseForm) -> Tensor:
        ctx.save_for_backward(x, w)
        ctx.s, ctx.d, ctx.form = s, d, form
        return _forward(x, w, s, d)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        x, w = ctx.saved_tensors
        g, s, d = gradients[0], ctx.s, ctx.d
        gx = gw = None
        if ctx.needs_input_grad[0]:
            flipped = ctx.form.input_gradient == "flipped"
            gx = _input_gradient(g, x, w, s, d) if flipped else _native(g, x, w, s, d, 0)
        if ctx.needs_input_grad[1]:
            split = ctx.form.weight_gradient == "split"
            gw = _weight_gradient(g, x, w, s, d) if split else _native(g, x, w, s, d, 1)
        return gx, gw, None, None, None


def _native(g: Tensor, x: Tensor, w: Tensor, s: int, d: int, which: int) -> Tensor:
    """The framework's gradient with respect to the input (0) or the weight (1)."""
    p = d * (w.shape[-1] // 2)
    mask = [which == 0, which == 1, False]
    both = torch.ops.aten.convolution_backward(g, x, w, None, [s, s], [p, p], [d, d], False, [0, 0], w.shape[0], mask)
    gradient: Tensor = both[which]
    return gradient


def _input_gradient(g: Tensor, x: Tensor, w: Tensor, s: int, d: int) -> Tensor:
    """``gx[h] = sum_i u[h + d i - p] w[k - 1 - i]``: the forward convolution with the kernel turned round."""
    if s > 1:
        u = torch.zeros_like(x)
        u[:, :, ::s, ::s] = g
        g = u
    return _forward(g, w.flip(2, 3), 1, d)


def _weight_gradient(g: Tensor, x: Tensor, w: Tensor, s: int, d: int) -> Tensor:
    if d == 2 and s == 1:
        margin = w.shape[-1] // 2
        pairs_2C = _weight_gradient(_by_parity(g, margin), _by_parity(x, margin), w.repeat(2, 1, 1, 1), 1, 1)
        return pairs_2C.view(2, *w.shape).sum(0)
    if w.shape[-1] == 5 and d == 1:
        return _two_of_three_columns(g, x, w, s)
    return _native(g, x, w, s, d, 1)


def _two_of_three_columns(g: Tensor, x: Tensor, w: Tensor, s: int) -> Tensor:
    """A weight gradient of five columns as two of three: of the map after two columns of zeros, and before them.

    Column ``j`` of a kernel of three columns without padding gets ``sum_o x'[s o + j] gy[o]``. That is column ``j`` of
    the five for ``x'[h] = x[h - 2]``, and column ``j + 2`` for ``x' = x``. Kernels of three columns have a fast path;
    at stride 1 it wants at least five rows, and rows of zeros change nothing.
    """
    w_53 = w[..., :3]
    rows = max(0, 5 - x.shape[2]) if s == 1 else 0
    g = F.pad(g, (0, 0, 0, rows)) if rows else g

    def columns(pad: tuple[int, int]) -> Tensor:
        gradient: Tensor = torch.ops.aten.convolution_backward(
            g,
            F.pad(x, (*pad, 0, rows)),
            w_53,
            None,
            [s, s],
            [2, 0],
            [1, 1],
            False,
            [0, 0],
            w.shape[0],
            [False, True, False],
        )[1]
        return gradient

    return torch.cat((columns((2, 0)), columns((0, 2))[..., 1:]), dim=-1)


def _by_parity(x_NCHW: Tensor, margin: int) -> Tensor:
    """Deal the pixels out by parity: rows side by side, columns as channels, so that dilation 2 becomes 1.

    ``[N, C, H, W] -> [N, 2 C, H / 2, W + 2 margin]``; ``margin`` zero columns part the even rows from the odd ones. In
    channels-last memory this is a view of the padded map.
    """
    height, width = x_NCHW.shape[2:]
    padded = F.pad(x_NCHW, (0, width % 2 + 2 * margin, 0, height % 2))
    _, channels, height, width = padded.shape
    x_NHWC = padded.permute(0, 2, 3, 1)
    return x_NHWC.reshape(-1, height // 2, width, 2 * channels).permute(0, 3, 1, 2)


def _autocast(x: Tensor, w: Tensor) -> tuple[Tensor, Tensor]:
    """Cast as automatic mixed precision would: a custom gradient is outside its reach."""
    if torch.is_autocast_enabled(x.device.type):
        dtype = torch.get_autocast_dtype(x.device.type)
        return x.to(dtype), w.to(dtype)
    return x, w
