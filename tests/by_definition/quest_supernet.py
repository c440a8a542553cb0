"""The supernet as its authors wrote one: each mixed operation a sum over its eight operations. Nothing shared, NCHW.

Nothing here comes from quorate.quest. ``w`` maps names of parameters to tensors; ``Z`` is [2, 14, 8].
"""

import torch
from torch.nn import functional as F  # noqa: N812

OPERATIONS = (
    *("none", "max_pool_3x3", "avg_pool_3x3", "skip_connect"),
    *("sep_conv_3x3", "sep_conv_5x5", "dil_conv_3x3", "dil_conv_5x5"),
)


def norm(x, weight=None, bias=None):
    mean, var = x.mean((0, 2, 3), keepdim=True), x.var((0, 2, 3), unbiased=False, keepdim=True)
    y = (x - mean) / torch.sqrt(var + 1e-5)
    return y if weight is None else y * weight[:, None, None] + bias[:, None, None]


def depthwise(x, kernel, stride, dilation):
    return F.conv2d(x, kernel, None, stride, dilation * (kernel.shape[-1] // 2), dilation, x.shape[1])


def halved(x, w, name):
    x = F.relu(x)
    left, right = (
        F.conv2d(x, w[name + ".even.weight"], stride=2),
        F.conv2d(x[:, :, 1:, 1:], w[name + ".odd.weight"], stride=2),
    )
    return norm(torch.cat([left, right], 1))


def operation(x, w, name, op, stride):
    if op == "none":
        return torch.zeros_like(x[:, :, ::stride, ::stride])
    if op == "max_pool_3x3":
        return norm(F.max_pool2d(x, 3, stride, 1))
    if op == "avg_pool_3x3":
        return norm(F.avg_pool2d(x, 3, stride, 1, count_include_pad=False))
    if op == "skip_connect":
        return x if stride == 1 else halved(x, w, f"{name}.{op}")
    name, dilation = f"{name}.{op}", 2 if op.startswith("dil") else 1
    x = norm(
        F.conv2d(depthwise(F.relu(x), w[name + ".depthwise.weight"], stride, dilation), w[name + ".pointwise.weight"])
    )
    if op.startswith("sep"):
        x = depthwise(F.relu(x), w[name + ".depthwise2.weight"], 1, 1)
        x = norm(F.conv2d(x, w[name + ".pointwise2.weight"]))
    return x


def cell(older, newer, w, name, Z, reduction, halve_older):
    if halve_older:
        older = halved(older, w, name + ".older")
    else:
        older = norm(F.conv2d(F.relu(older), w[name + ".older.conv.weight"]))
    states = [older, norm(F.conv2d(F.relu(newer), w[name + ".newer.conv.weight"]))]
    edge = 0
    for node in range(4):
        total = 0
        for source in range(2 + node):
            stride = 2 if reduction and source < 2 else 1
            mixed = sum(
                z * operation(states[source], w, f"{name}.edges.{edge}", op, stride)
                for z, op in zip(Z[edge], OPERATIONS, strict=True)
            )
            total, edge = total + mixed, edge + 1
        states.append(total)
    return torch.cat(states[2:], 1)


def logits(x, w, Z, cells, exits):
    older = newer = norm(F.conv2d(x, w["stem.conv.weight"], padding=1), w["stem.norm.weight"], w["stem.norm.bias"])
    out, after = [], False
    for index in range(cells):
        reduction = index in (cells // 3, 2 * cells // 3)
        older, newer = newer, cell(older, newer, w, f"cells.{index}", Z[int(reduction)], reduction, after)
        after = reduction
        if index in exits:
            head = f"heads.{len(out)}.linear"
            out.append(newer.mean((2, 3)) @ w[head + ".weight"].T + w[head + ".bias"])
    return out
