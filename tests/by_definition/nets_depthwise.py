"""A depthwise convolution and its two gradients, read slowly: six nested loops over the definition."""

import numpy as np


def output_side(side, kernel, stride, dilation):
    pad = dilation * (kernel // 2)
    return (side + 2 * pad - dilation * (kernel - 1) - 1) // stride + 1


def depthwise(x, w, stride, dilation, gradient=None):
    """``y``, or with the gradient of ``y`` the gradients of ``x`` and ``w``."""
    n, channels, height, width = x.shape
    kernel = w.shape[-1]
    pad = dilation * (kernel // 2)
    rows, columns = (output_side(s, kernel, stride, dilation) for s in (height, width))
    y, gx, gw = np.zeros((n, channels, rows, columns)), np.zeros_like(x), np.zeros_like(w)
    for r in range(rows):
        for c in range(columns):
            for i in range(kernel):
                for j in range(kernel):
                    h, v = stride * r + dilation * i - pad, stride * c + dilation * j - pad
                    if 0 <= h < height and 0 <= v < width:
                        y[:, :, r, c] += x[:, :, h, v] * w[:, 0, i, j]
                        if gradient is not None:
                            gx[:, :, h, v] += gradient[:, :, r, c] * w[:, 0, i, j]
                            gw[:, 0, i, j] += (gradient[:, :, r, c] * x[:, :, h, v]).sum(0)
    return y if gradient is None else (gx, gw)
