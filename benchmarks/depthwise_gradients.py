"""Depthwise convolutions on a CPU, forward and both gradients: the chosen form against the framework's, interleaved.

    python benchmarks/depthwise_gradients.py --threads 1 --turns 25

64 images, channels last; per kind the median of the framework's form, of the chosen one, and their ratio.
"""

import argparse
import platform
import statistics
import time
from collections.abc import Callable
from itertools import product

import torch

from quorate.nets import using_forms
from quorate.nets.depthwise import depthwise
from quorate.nets.forms import depthwise_form

SIZES = ((16, 32), (32, 16), (64, 8))
KINDS = ((3, 1, 1), (5, 1, 1), (3, 1, 2), (5, 1, 2), (3, 2, 1), (5, 2, 1), (3, 2, 2), (5, 2, 2))


def job(channels: int, side: int, kind: tuple[int, int, int], dtype: torch.dtype, forms: str) -> Callable[[], None]:
    """Forward and both gradients of one convolution."""
    kernel, stride, dilation = kind
    x = torch.randn(64, channels, side, side).to(dtype).contiguous(memory_format=torch.channels_last).requires_grad_()
    w = torch.randn(channels, 1, kernel, kernel).to(dtype).requires_grad_()
    with using_forms("plain" if forms == "plain" else "auto"):
        form = depthwise_form(kernel, stride, dilation, x.device, dtype)
    g = torch.randn_like(depthwise(x, w, stride, dilation, form))

    def run() -> None:
        torch.autograd.grad(depthwise(x, w, stride, dilation, form), (x, w), g)

    return run


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--turns", type=int, default=25)
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    print(
        f"64 images, channels last, torch {torch.__version__} on {given.threads} threads, "
        f"{torch.backends.cpu.get_cpu_capability()}, Python {platform.python_version()}, medians of {given.turns}"
    )
    print(
        "| channels, side | kernel, stride, dilation | float32: framework, ours, ratio | bfloat16 |\n|---|---|---|---|"
    )
    for (channels, side), kind in product(SIZES, KINDS):
        cells = []
        for dtype in (torch.float32, torch.bfloat16):
            jobs = [job(channels, side, kind, dtype, forms) for forms in ("plain", "auto")]
            seconds: list[list[float]] = [[], []]
            for turn, (run, times) in product(range(given.turns + 1), list(zip(jobs, seconds, strict=True))):
                start = time.perf_counter()
                run()
                if turn:  # the first turn warms up
                    times.append(time.perf_counter() - start)
            plain, ours = (statistics.median(times) * 1e3 for times in seconds)
            cells.append(f"{plain:.2f} ms, {ours:.2f} ms, {plain / ours:.1f}x")
        print(f"| {channels}, {side} | {kind[0]}, {kind[1]}, {kind[2]} | {cells[0]} | {cells[1]} |")


if __name__ == "__main__":
    main()
