"""How long a training batch takes to augment: the table of RECORDS-data.md.

Run ``python benchmarks/augment.py [BATCH]``. Whole batches against the same work image by image, the way per-sample
transforms do it, and against the training step of a small learner. Alternatives take turns within one run.
"""

import importlib
import platform
import statistics
import sys
import time
from collections.abc import Callable

import numpy as np
import torch
from PIL import Image, ImageOps
from torch import Tensor

from quorate.train.augment import augment, augmentation_for, crop, cutout, mirror, normalise, scale_for

TURNS = 200
SLOW_TURNS = 7
SIDE = 32


def medians(jobs: dict[str, Callable[[], object]], turns: int) -> dict[str, float]:
    """Seconds of each job, the jobs taking turns."""
    seconds: dict[str, list[float]] = {name: [] for name in jobs}
    for turn in range(turns + 1):
        for name, job in jobs.items():
            start = time.perf_counter()
            job()
            if turn:  # the first turn warms up
                seconds[name].append(time.perf_counter() - start)
    return {name: statistics.median(times) for name, times in seconds.items()}


def one_by_one(images: list[Image.Image], mean: Tensor, std: Tensor, generator: torch.Generator) -> Tensor:
    """The transforms of the original DARTS code, image by image: pad, crop, flip, to tensor, normalise, mask."""
    out = []
    for image in images:
        top, left = torch.randint(9, (2,), generator=generator).tolist()
        flip, row, column = torch.randint(SIDE, (3,), generator=generator).tolist()
        window = ImageOps.expand(image, 4).crop((left, top, left + SIDE, top + SIDE))
        window = window.transpose(Image.Transpose.FLIP_LEFT_RIGHT) if flip < SIDE // 2 else window
        pixels = torch.from_numpy(np.array(window)).permute(2, 0, 1).contiguous().float().div(255)
        pixels = (pixels - mean) / std
        mask = np.ones((SIDE, SIDE), np.float32)
        mask[max(row - 8, 0) : row + 8, max(column - 8, 0) : column + 8] = 0
        out.append(pixels * torch.from_numpy(mask).expand_as(pixels))
    return torch.stack(out)


def training_step(images: Tensor) -> Callable[[], object] | None:
    """One step of DARTS_V2, C = 8, L = 8, joint loss, SGD; None where there are no networks to train."""
    try:
        nets = importlib.import_module("quorate.nets")
    except ModuleNotFoundError:
        return None
    learner = nets.DartsLearner(nets.DARTS_V2, channels=8, cells=8, classes=10)
    optimiser = torch.optim.SGD(learner.parameters(), lr=0.025, momentum=0.9, weight_decay=3e-4)
    labels = torch.randint(10, (len(images),))

    def step() -> None:
        losses = [torch.nn.functional.cross_entropy(logits, labels) for logits in learner(images)]
        optimiser.zero_grad()
        torch.autograd.backward(losses)
        torch.nn.utils.clip_grad_norm_(learner.parameters(), 5.0)
        optimiser.step()

    return step


def main() -> None:
    """Print the table."""
    size = int(sys.argv[1]) if len(sys.argv) > 1 else 96
    torch.set_num_threads(2)
    g = torch.Generator().manual_seed(0)
    images = torch.randint(256, (size, SIDE, SIDE, 3), dtype=torch.uint8, generator=g)
    mean, std = [0.4914, 0.4822, 0.4465], [0.2470, 0.2435, 0.2616]
    how, scale = augmentation_for(SIDE, mirrored=True), scale_for(mean, std)
    corner, centre = torch.randint(9, (2, size)), torch.randint(SIDE, (2, size))
    flips, out = torch.rand(size) < 0.5, normalise(images, scale)
    pictures = [Image.fromarray(image) for image in images.numpy()]
    mean_C, std_C = torch.tensor(mean)[:, None, None], torch.tensor(std)[:, None, None]
    fast: dict[str, Callable[[], object]] = {
        "whole batch, everything": lambda: augment(images, how, scale, g),
        "  crop": lambda: crop(images, corner[0], corner[1], 4),
        "  mirror": lambda: mirror(images, flips),
        "  normalise": lambda: normalise(images, scale),
        "  cutout": lambda: cutout(out, centre[0], centre[1], 16),
    }
    slow: dict[str, Callable[[], object]] = {
        "whole batch, in turn with the next": fast["whole batch, everything"],
        "image by image": lambda: one_by_one(pictures, mean_C, std_C, g),
    }
    if (step := training_step(out)) is not None:
        slow["training step, C = 8, L = 8"] = step
    print(
        f"batch {size}, {SIDE}x{SIDE}x3, torch {torch.__version__} on {torch.get_num_threads()} threads, "
        f"Python {platform.python_version()}, medians of {TURNS} ({SLOW_TURNS} below the line) interleaved turns"
    )
    for jobs, turns in ((fast, TURNS), (slow, SLOW_TURNS)):
        for name, seconds in medians(jobs, turns).items():
            print(f"{name:36s} {seconds * 1e3:9.3f} ms {size / seconds:12,.0f} images/s")
        print("-" * 70)


if __name__ == "__main__":
    main()
