"""A DARTS network read slowly: one function, straight from the weights of the original, by the original's names.

Nothing here comes from quorate.nets. ``weights`` maps names to tensors; genotypes are lists of (operation, input).
"""

import torch
from torch.nn import functional as F  # noqa: N812


def norm(x, w, name, training=False):
    mean, var = w[name + ".running_mean"], w[name + ".running_var"]
    if training:
        mean, var = x.mean((0, 2, 3)), x.var((0, 2, 3), unbiased=False)
    y = (x - mean[:, None, None]) / torch.sqrt(var[:, None, None] + 1e-5)
    return y * w[name + ".weight"][:, None, None] + w[name + ".bias"][:, None, None]


def depthwise(x, kernel, stride, dilation):
    pad = dilation * (kernel.shape[-1] // 2)
    return F.conv2d(x, kernel, stride=stride, padding=pad, dilation=dilation, groups=x.shape[1])


def factorized_reduce(x, w, name, training):
    x = x.clamp(min=0)
    left = F.conv2d(x, w[name + ".conv_1.weight"], stride=2)
    right = F.conv2d(x[:, :, 1:, 1:], w[name + ".conv_2.weight"], stride=2)
    return norm(torch.cat([left, right], 1), w, name + ".bn", training)


def operation(x, w, name, op, stride, training):
    if op == "skip_connect":
        return x if stride == 1 else factorized_reduce(x, w, name, training)
    if op == "max_pool_3x3":
        return F.max_pool2d(x, 3, stride, 1)
    if op == "avg_pool_3x3":
        total = F.avg_pool2d(x, 3, stride, 1, count_include_pad=True) * 9
        return total / (F.avg_pool2d(torch.ones_like(x), 3, stride, 1, count_include_pad=True) * 9)
    dilation = 2 if op.startswith("dil") else 1
    x = depthwise(x.clamp(min=0), w[name + ".op.1.weight"], stride, dilation)
    x = norm(F.conv2d(x, w[name + ".op.2.weight"]), w, name + ".op.3", training)
    if op.startswith("sep"):
        x = depthwise(x.clamp(min=0), w[name + ".op.5.weight"], 1, 1)
        x = norm(F.conv2d(x, w[name + ".op.6.weight"]), w, name + ".op.7", training)
    return x


def cell(older, newer, w, name, edges, reduction, halve_older, training):
    if halve_older:
        older = factorized_reduce(older, w, name + ".preprocess0", training)
    else:
        older = F.conv2d(older.clamp(min=0), w[name + ".preprocess0.op.1.weight"])
        older = norm(older, w, name + ".preprocess0.op.2", training)
    newer = norm(
        F.conv2d(newer.clamp(min=0), w[name + ".preprocess1.op.1.weight"]), w, name + ".preprocess1.op.2", training
    )
    states = [older, newer]
    for node in range(4):
        total = 0
        for i in (2 * node, 2 * node + 1):
            op, source = edges[i]
            stride = 2 if reduction and source < 2 else 1
            total = total + operation(states[source], w, f"{name}._ops.{i}", op, stride, training)
        states.append(total)
    return torch.cat(states[2:], 1)


def features(x, weights, normal, reduce, cells, stem="cifar", training=False):
    """What every cell gives."""
    w = weights
    if stem == "cifar":
        older = newer = norm(F.conv2d(x, w["stem.0.weight"], padding=1), w, "stem.1", training)
        halved = False
    else:
        y = norm(F.conv2d(x, w["stem0.0.weight"], stride=2, padding=1), w, "stem0.1", training).clamp(min=0)
        older = norm(F.conv2d(y, w["stem0.3.weight"], stride=2, padding=1), w, "stem0.4", training)
        newer = norm(F.conv2d(older.clamp(min=0), w["stem1.1.weight"], stride=2, padding=1), w, "stem1.2", training)
        halved = True
    out = []
    for index in range(cells):
        reduction = index in (cells // 3, 2 * cells // 3)
        edges = reduce if reduction else normal
        older, newer = newer, cell(older, newer, w, f"cells.{index}", edges, reduction, halved, training)
        halved = reduction
        out.append(newer)
    return out


def logits(x, weights, normal, reduce, cells, stem="cifar"):
    pooled = features(x, weights, normal, reduce, cells, stem)[-1].mean((2, 3))
    return pooled @ weights["classifier.weight"].T + weights["classifier.bias"]


def shapes(normal, reduce, channels, cells, classes, stem="cifar"):
    """Names and shapes of all weights of the original."""
    found = {}

    def conv(name, out, into, kernel):
        found[name + ".weight"] = (out, into, kernel, kernel)

    def bn(name, width):
        for part in ("weight", "bias", "running_mean", "running_var"):
            found[f"{name}.{part}"] = (width,)

    def reduce_map(name, out, into):
        conv(name + ".conv_1", out // 2, into, 1)
        conv(name + ".conv_2", out // 2, into, 1)
        bn(name + ".bn", out)

    if stem == "cifar":
        conv("stem.0", 3 * channels, 3, 3)
        bn("stem.1", 3 * channels)
        before, halved = [3 * channels] * 2, False
    else:
        for name, out, into in (
            ("stem0.0", channels // 2, 3),
            ("stem0.3", channels, channels // 2),
            ("stem1.1", channels, channels),
        ):
            conv(name, out, into, 3)
            bn(f"{name[:-1]}{int(name[-1]) + 1}", out)
        before, halved = [channels] * 2, True
    c = channels
    for index in range(cells):
        reduction = index in (cells // 3, 2 * cells // 3)
        c *= 2 if reduction else 1
        name = f"cells.{index}"
        if halved:
            reduce_map(name + ".preprocess0", c, before[0])
        else:
            conv(name + ".preprocess0.op.1", c, before[0], 1)
            bn(name + ".preprocess0.op.2", c)
        conv(name + ".preprocess1.op.1", c, before[1], 1)
        bn(name + ".preprocess1.op.2", c)
        for i, (op, source) in enumerate(reduce if reduction else normal):
            here = f"{name}._ops.{i}"
            if op == "skip_connect" and reduction and source < 2:
                reduce_map(here, c, c)
            if op.startswith(("sep", "dil")):
                for at in (1, 5) if op.startswith("sep") else (1,):
                    conv(f"{here}.op.{at}", c, 1, int(op[-1]))
                    conv(f"{here}.op.{at + 1}", c, c, 1)
                    bn(f"{here}.op.{at + 2}", c)
        before, halved = [before[1], 4 * c], reduction
    found["classifier.weight"], found["classifier.bias"] = (classes, before[1]), (classes,)
    return found


def macs(normal, reduce, channels, cells, classes, side, stem="cifar"):
    """Multiply-accumulates after each cell, counted by hand, and of a head there."""
    total, done, heads = 0, [], []
    if stem == "cifar":
        total += side * side * 9 * 3 * 3 * channels
        before, sides = [3 * channels] * 2, [side] * 2
    else:
        total += (side // 2) ** 2 * 9 * 3 * (channels // 2) + (side // 4) ** 2 * 9 * channels * (channels // 2)
        total += (side // 8) ** 2 * 9 * channels * channels
        before, sides = [channels] * 2, [side // 4, side // 8]
    c = channels
    for index in range(cells):
        reduction = index in (cells // 3, 2 * cells // 3)
        c *= 2 if reduction else 1
        now = sides[1]
        total += (
            now * now * c * (before[0] + before[1])
        )  # both 1 x 1 convolutions; a factorized reduce halves twice over
        after = now // 2 if reduction else now
        for op, source in reduce if reduction else normal:
            pixels, k = after * after, int(op[-1]) if op[-1].isdigit() else 0
            if op.startswith("sep"):
                total += 2 * pixels * (k * k * c + c * c)
            elif op.startswith("dil"):
                total += pixels * (k * k * c + c * c)
            elif op == "skip_connect" and reduction and source < 2:
                total += pixels * c * c
        before, sides = [before[1], 4 * c], [now, after]
        done.append(total)
        heads.append(4 * c * classes)
    return done, heads
