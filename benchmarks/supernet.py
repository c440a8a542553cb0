"""Steps of the supernet on a CPU, against the plain formulation: one interleaved run, medians and ratios.

    python benchmarks/supernet.py --threads 2 --turns 3
    python benchmarks/supernet.py --threads 1 --clock cpu     # on a machine that others use: processor time

The plain formulation is the supernet as its authors wrote one: each mixed operation a Python sum over its eight
operations, NCHW, modules of the framework, dilated depthwise convolutions as they are. It is built here, from nothing
of quorate.quest, and given the same weights: outputs and gradients are compared before anything is timed. A step is
forward, the joint loss of three exits, backward, clipping and SGD with momentum, on 32 images of 32 x 32, C = 16,
L = 8; the single path is the mean over 50 fixed uniform architectures.
"""

import argparse
import platform
import statistics
import time
from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

from quorate.nets import PRIMITIVES
from quorate.quest.supernet import TABLE, Supernet

CHANNELS, CELLS, SIDE, BATCH, ARCHITECTURES = 16, 8, 32, 32, 50


class Reduce(nn.Module):
    def __init__(self, into: int, out: int) -> None:
        super().__init__()
        self.even, self.odd = (nn.Conv2d(into, out // 2, 1, stride=2, bias=False) for _ in range(2))
        self.norm = nn.BatchNorm2d(out, affine=False)

    def forward(self, x: Tensor) -> Tensor:
        x = F.relu(x)
        y: Tensor = self.norm(torch.cat([self.even(x), self.odd(x[:, :, 1:, 1:])], dim=1))
        return y


class Zero(nn.Module):
    def __init__(self, stride: int) -> None:
        super().__init__()
        self.stride = stride

    def forward(self, x: Tensor) -> Tensor:
        return x[:, :, :: self.stride, :: self.stride].mul(0.0)


def block(width: int, kernel: int, stride: int, dilation: int) -> list[nn.Module]:
    pad = dilation * (kernel // 2)
    return [
        nn.ReLU(),
        nn.Conv2d(width, width, kernel, stride, pad, dilation, groups=width, bias=False),
        nn.Conv2d(width, width, 1, bias=False),
        nn.BatchNorm2d(width, affine=False),
    ]


def operation(name: str, width: int, stride: int) -> nn.Module:
    kind, norm = name[:3], nn.BatchNorm2d(width, affine=False)
    if kind == "non":
        return Zero(stride)
    if kind == "ski":
        return nn.Identity() if stride == 1 else Reduce(width, width)
    if kind == "max":
        return nn.Sequential(nn.MaxPool2d(3, stride, 1), norm)
    if kind == "avg":
        return nn.Sequential(nn.AvgPool2d(3, stride, 1, count_include_pad=False), norm)
    size = int(name[-1])
    if kind == "dil":
        return nn.Sequential(*block(width, size, stride, 2))
    return nn.Sequential(*block(width, size, stride, 1), *block(width, size, 1, 1))


class PlainCell(nn.Module):
    def __init__(self, before: Sequence[int], width: int, reduction: bool, halve: bool) -> None:
        super().__init__()

        def point(into: int) -> nn.Module:
            return nn.Sequential(nn.ReLU(), nn.Conv2d(into, width, 1, bias=False), nn.BatchNorm2d(width, affine=False))

        self.older = Reduce(before[0], width) if halve else point(before[0])
        self.newer = point(before[1])
        self.edges = nn.ModuleList(
            nn.ModuleList(operation(name, width, 2 if reduction and source < 2 else 1) for name in PRIMITIVES)
            for node in range(2, 6)
            for source in range(node)
        )

    def forward(self, older: Tensor, newer: Tensor, Z_JO: Tensor) -> Tensor:
        states, edge = [self.older(older), self.newer(newer)], 0
        for node in range(2, 6):
            total = torch.zeros(())
            for source in range(node):
                operations = self.edges[edge]
                assert isinstance(operations, nn.ModuleList)
                mixed = (z * one(states[source]) for z, one in zip(Z_JO[edge], operations, strict=True))
                total, edge = total + sum(mixed), edge + 1
            states.append(total)
        return torch.cat(states[2:], dim=1)


class Plain(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        width = 3 * CHANNELS
        self.stem = nn.Sequential(nn.Conv2d(3, width, 3, padding=1, bias=False), nn.BatchNorm2d(width))
        self.cells, self.heads = nn.ModuleList(), nn.ModuleList()
        before, halve, width = [width, width], False, CHANNELS
        self.reductions, self.exits = (CELLS // 3, 2 * CELLS // 3), (CELLS // 3, 2 * CELLS // 3, CELLS - 1)
        for index in range(CELLS):
            reduction = index in self.reductions
            width *= 2 if reduction else 1
            self.cells.append(PlainCell(before, width, reduction, halve))
            before, halve = [before[1], 4 * width], reduction
            if index in self.exits:
                self.heads.append(nn.Linear(4 * width, 10))

    def forward(self, x: Tensor, Z_TJO: Tensor) -> list[Tensor]:
        older = newer = self.stem(x)
        logits, heads = [], iter(self.heads)
        for index, cell in enumerate(self.cells):
            older, newer = newer, cell(older, newer, Z_TJO[int(index in self.reductions)])
            if index in self.exits:
                logits.append(next(heads)(F.adaptive_avg_pool2d(newer, 1).flatten(1)))
        return logits

    def take(self, ours: Supernet) -> None:
        """The weights of our supernet: both list them in the same order."""
        for mine, theirs in zip(self.parameters(), ours.parameters(), strict=True):
            assert mine.shape == theirs.shape
            mine.data.copy_(theirs.data)


def difference(dtype: torch.dtype) -> tuple[float, float]:
    """Largest difference of outputs, and of gradients over the largest gradient."""
    torch.manual_seed(0)
    ours, plain = Supernet(CHANNELS, CELLS), Plain()
    plain.take(ours)
    ours, plain = ours.to(dtype).to(memory_format=torch.channels_last), plain.to(dtype)  # type: ignore[call-overload]
    x, y = torch.randn(2, 3, SIDE, SIDE, dtype=dtype), torch.tensor([3, 7])
    Z = torch.randn(TABLE, dtype=dtype).softmax(-1).requires_grad_()
    found = []
    for net in (ours, plain):
        out = list(net(x, Z))
        loss = torch.stack([F.cross_entropy(one, y) for one in out]).sum()
        found.append((torch.stack(out).detach(), torch.autograd.grad(loss, [Z, *net.parameters()])))
    largest = max(float(g.abs().max()) for g in found[1][1])
    apart = max(float((a - b).abs().max()) for a, b in zip(found[0][1], found[1][1], strict=True))
    return float((found[0][0] - found[1][0]).abs().max()), apart / largest


def steps() -> dict[str, list[Callable[[], float]]]:
    """Per name its steps: one, or one for each architecture."""
    torch.manual_seed(0)
    x, y = torch.randn(BATCH, 3, SIDE, SIDE), torch.randint(0, 10, (BATCH,))
    logits, g = torch.zeros(TABLE, requires_grad=True), torch.Generator().manual_seed(0)
    architectures = torch.randint(0, len(PRIMITIVES), (ARCHITECTURES, *TABLE[:2]), generator=g).tolist()
    ours = Supernet(CHANNELS, CELLS).to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    plain = Plain()
    optimisers = {
        id(net): torch.optim.SGD(net.parameters(), lr=0.025, momentum=0.9, weight_decay=3e-4) for net in (ours, plain)
    }

    def step(net: nn.Module, forward: Callable[[], Sequence[Tensor]], half: bool) -> float:
        optimiser = optimisers[id(net)]
        optimiser.zero_grad()
        with torch.autocast("cpu", torch.bfloat16, enabled=half):
            out = forward()
        loss = torch.stack([F.cross_entropy(one.float(), y) for one in out]).sum()
        torch.autograd.backward(loss)
        torch.nn.utils.clip_grad_norm_([p for p in net.parameters() if p.grad is not None], 5.0)
        optimiser.step()
        return loss.item()

    def mixed() -> Tensor:
        return (logits + torch.randn(TABLE)).softmax(-1)

    def path(choice: list[list[int]], half: bool) -> Callable[[], float]:
        return lambda: step(ours, lambda: ours.chosen(x, choice), half)

    return {
        "plain, soft, float32": [lambda: step(plain, lambda: plain(x, mixed()), False)],
        "quorate, soft, float32": [lambda: step(ours, lambda: ours(x, mixed()), False)],
        "quorate, soft, bfloat16": [lambda: step(ours, lambda: ours(x, mixed()), True)],
        "quorate, single path, float32": [path(one, False) for one in architectures],
        "quorate, single path, bfloat16": [path(one, True) for one in architectures],
    }


def main() -> None:
    """Print differences, then a table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--clock", choices=("wall", "cpu"), default="wall")
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    clock = time.perf_counter if given.clock == "wall" else time.process_time
    print(
        f"C = {CHANNELS}, L = {CELLS}, {BATCH} images of {SIDE} x {SIDE}, torch {torch.__version__} on {given.threads} "
        f"threads, {torch.backends.cpu.get_cpu_capability()}, Python {platform.python_version()}, medians of "
        f"{given.turns} interleaved turns, {given.clock} time; single path: mean over {ARCHITECTURES} architectures"
    )
    for dtype in (torch.float64, torch.float32):
        outputs, gradients = difference(dtype)
        print(f"  {dtype}: outputs differ by {outputs:.1e}, gradients by {gradients:.1e} of the largest")
    jobs = steps()
    seconds: dict[str, list[float]] = {name: [] for name in jobs}
    for turn in range(given.turns + 1):
        for name, parts in jobs.items():
            chosen = parts if turn else parts[:2]  # the first turn warms up
            start = clock()
            for part in chosen:
                part()
            if turn:
                seconds[name].append((clock() - start) / len(chosen))
    base = statistics.median(seconds["plain, soft, float32"])
    for name, times in seconds.items():
        middle = statistics.median(times)
        print(f"  {name:32s} {middle * 1e3:9.1f} ms  {base / middle:6.2f}x   (fastest {min(times) * 1e3:.1f} ms)")


if __name__ == "__main__":
    main()
