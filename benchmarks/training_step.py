"""A training step of a DARTS learner on a CPU, against the plain formulation: one interleaved run, medians and ratios.

    python benchmarks/training_step.py --threads 2 --turns 9

The plain formulation is the network as its authors wrote it: modules of the framework in NCHW, a ReLU in every
operation, float32, nothing shared. It is built here, from nothing of quorate.nets. A step is forward, the joint loss of
three exits, backward, clipping and SGD with momentum, on 64 images of 32 x 32, C = 16, L = 8.
"""

import argparse
import contextlib
import platform
import statistics
import time
from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

from quorate.nets import DARTS_V2, DartsLearner, Genotype, using_forms

CHANNELS, CELLS, SIDE, BATCH = 16, 8, 32, 64
WITH_5X5 = Genotype(
    normal=(
        *(("sep_conv_5x5", 0), ("sep_conv_3x3", 1), ("dil_conv_5x5", 0), ("skip_connect", 1)),
        *(("sep_conv_5x5", 1), ("skip_connect", 0), ("dil_conv_5x5", 2), ("sep_conv_3x3", 0)),
    ),
    reduce=(
        *(("dil_conv_5x5", 0), ("max_pool_3x3", 1), ("sep_conv_5x5", 2), ("max_pool_3x3", 1)),
        *(("dil_conv_5x5", 0), ("skip_connect", 2), ("skip_connect", 2), ("sep_conv_5x5", 1)),
    ),
)
"""``sep_conv_5x5`` and ``dil_conv_5x5`` on half of the edges."""


class Reduce(nn.Module):
    def __init__(self, into: int, out: int) -> None:
        super().__init__()
        self.a, self.b = (nn.Conv2d(into, out // 2, 1, stride=2, bias=False) for _ in range(2))
        self.norm = nn.BatchNorm2d(out)

    def forward(self, x: Tensor) -> Tensor:
        x = F.relu(x)
        y: Tensor = self.norm(torch.cat([self.a(x), self.b(x[:, :, 1:, 1:])], dim=1))
        return y


def block(width: int, kernel: int, stride: int, dilation: int) -> list[nn.Module]:
    pad = dilation * (kernel // 2)
    return [
        nn.ReLU(),
        nn.Conv2d(width, width, kernel, stride, pad, dilation, groups=width, bias=False),
        nn.Conv2d(width, width, 1, bias=False),
        nn.BatchNorm2d(width),
    ]


def operation(name: str, width: int, stride: int) -> nn.Module:
    kind, size = name[:3], int(name[-1]) if name[-1].isdigit() else 0
    if kind == "ski":
        return nn.Identity() if stride == 1 else Reduce(width, width)
    if kind == "max":
        return nn.MaxPool2d(3, stride, 1)
    if kind == "avg":
        return nn.AvgPool2d(3, stride, 1, count_include_pad=False)
    if kind == "dil":
        return nn.Sequential(*block(width, size, stride, 2))
    return nn.Sequential(*block(width, size, stride, 1), *block(width, size, 1, 1))


class PlainCell(nn.Module):
    def __init__(self, genotype: Genotype, before: Sequence[int], width: int, reduction: bool, halve: bool) -> None:
        super().__init__()

        def point(into: int) -> nn.Module:
            return nn.Sequential(nn.ReLU(), nn.Conv2d(into, width, 1, bias=False), nn.BatchNorm2d(width))

        self.older = Reduce(before[0], width) if halve else point(before[0])
        self.newer = point(before[1])
        edges = genotype.reduce if reduction else genotype.normal
        self.sources = [source for _, source in edges]
        self.edges = nn.ModuleList(
            operation(name, width, 2 if reduction and source < 2 else 1) for name, source in edges
        )

    def forward(self, older: Tensor, newer: Tensor) -> Tensor:
        states = [self.older(older), self.newer(newer)]
        for node in range(4):
            pair = (self.edges[i](states[self.sources[i]]) for i in (2 * node, 2 * node + 1))
            states.append(next(pair) + next(pair))
        return torch.cat(states[2:], dim=1)


class Plain(nn.Module):
    def __init__(self, genotype: Genotype) -> None:
        super().__init__()
        width = 3 * CHANNELS
        self.stem = nn.Sequential(nn.Conv2d(3, width, 3, padding=1, bias=False), nn.BatchNorm2d(width))
        self.cells, self.heads = nn.ModuleList(), nn.ModuleDict()
        before, halve, width = [width, width], False, CHANNELS
        for index in range(CELLS):
            reduction = index in (CELLS // 3, 2 * CELLS // 3)
            width *= 2 if reduction else 1
            self.cells.append(PlainCell(genotype, before, width, reduction, halve))
            before, halve = [before[1], 4 * width], reduction
            if reduction or index == CELLS - 1:
                self.heads[str(index)] = nn.Linear(4 * width, 10)

    def forward(self, x: Tensor) -> list[Tensor]:
        older = newer = self.stem(x)
        logits = []
        for index, cell in enumerate(self.cells):
            older, newer = newer, cell(older, newer)
            if str(index) in self.heads:
                logits.append(self.heads[str(index)](F.adaptive_avg_pool2d(newer, 1).flatten(1)))
        return logits


def steps(genotype: Genotype) -> dict[str, Callable[[], float]]:
    """Per name a step, which gives its loss."""
    torch.manual_seed(0)
    x, y = torch.randn(BATCH, 3, SIDE, SIDE), torch.randint(0, 10, (BATCH,))

    def made(network: nn.Module, half: bool, channels_last: bool, forms: str) -> Callable[[], float]:
        network.train()
        given = x.contiguous(memory_format=torch.channels_last) if channels_last else x
        optimizer = torch.optim.SGD(network.parameters(), lr=0.025, momentum=0.9, weight_decay=3e-4)

        def step() -> float:
            with using_forms("plain" if forms == "plain" else "auto"):
                with torch.autocast("cpu", torch.bfloat16) if half else contextlib.nullcontext():
                    loss = torch.stack([F.cross_entropy(out.float(), y) for out in network(given)]).sum()
                optimizer.zero_grad()
                loss.backward()  # type: ignore[no-untyped-call]
                torch.nn.utils.clip_grad_norm_(network.parameters(), 5.0)
                optimizer.step()
            return loss.item()

        return step

    return {
        "plain, NCHW, float32": made(Plain(genotype), False, False, "plain"),
        "plain, channels last, float32": made(Plain(genotype), False, True, "plain"),
        "plain, channels last, bfloat16": made(Plain(genotype), True, True, "plain"),
        "quorate, float32": made(DartsLearner(genotype, CHANNELS, CELLS, 10), False, False, "auto"),
        "quorate, bfloat16": made(DartsLearner(genotype, CHANNELS, CELLS, 10), True, False, "auto"),
    }


def medians(jobs: dict[str, Callable[[], float]], turns: int) -> dict[str, float]:
    """Seconds of each job, the jobs taking turns."""
    seconds: dict[str, list[float]] = {name: [] for name in jobs}
    for turn in range(turns + 1):
        for name, job in jobs.items():
            start = time.perf_counter()
            job()
            if turn:  # the first turn warms up
                seconds[name].append(time.perf_counter() - start)
    return {name: statistics.median(times) for name, times in seconds.items()}


def main() -> None:
    """Print one table per genotype."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--turns", type=int, default=9)
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    bf16 = torch.ops.mkldnn._is_mkldnn_bf16_supported()
    print(
        f"C = {CHANNELS}, L = {CELLS}, {BATCH} images of {SIDE} x {SIDE}, torch {torch.__version__} on {given.threads} "
        f"threads, {torch.backends.cpu.get_cpu_capability()} (bfloat16 instructions: {bf16}), "
        f"Python {platform.python_version()}, medians of {given.turns} interleaved turns"
    )
    for name, genotype in (("DARTS_V2", DARTS_V2), ("5x5 and dilated on half of the edges", WITH_5X5)):
        seconds = medians(steps(genotype), given.turns)
        base = seconds["plain, NCHW, float32"]
        print(f"\n{name}")
        for job, value in seconds.items():
            print(f"  {job:32s} {value * 1e3:8.1f} ms {value / BATCH * 1e3:6.2f} ms/image {base / value:6.2f}x")


if __name__ == "__main__":
    main()
