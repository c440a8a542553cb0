"""How fast one learner trains on a CPU: the table of RECORDS-train.md.

Run ``python -m benchmarks.training [--threads 2] [--turns 5]``. The whole loop (data, augmentation, step) of this
library against a plain one, written the way the original DARTS code writes it: transforms image by image, modules of
the framework in NCHW, a ReLU in every operation, float32. They take turns within one run. Ours drops paths, the plain
one does not.
"""

import argparse
import os
import platform
import statistics
import time
from collections.abc import Callable

import numpy as np
import torch
from benchmarks.augment import one_by_one
from benchmarks.training_step import CHANNELS, Plain
from PIL import Image

from quorate.nets import DARTS_V2, DartsLearner
from quorate.store.run import InputSpec
from quorate.train.augment import augmentation_for
from quorate.train.config import Training
from quorate.train.inputs import Part
from quorate.train.optim import make_optimiser
from quorate.train.step import make_step

MEAN, STD = (0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616)
BATCH, SIDE, STEPS = 96, 32, 2
Loop = Callable[[], float]


def data() -> tuple[np.ndarray, np.ndarray]:
    """Images of noise: what they show does not change how long they take."""
    rng = np.random.default_rng(0)
    return rng.integers(0, 256, (4 * BATCH, SIDE, SIDE, 3), dtype=np.uint8), rng.integers(0, 10, 4 * BATCH)


def ours(precision: str) -> Loop:
    """Steps of this library."""
    learner = DartsLearner(DARTS_V2, channels=CHANNELS, cells=8, drop_path=0.1)
    learner.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    images, labels = data()
    part = Part(images, labels, np.arange(len(images)), torch.device("cpu"))
    training = Training(precision=precision)  # type: ignore[arg-type]
    spec, how = InputSpec(SIDE, SIDE, 3, MEAN, STD), augmentation_for(SIDE, mirrored=True)
    step = make_step(learner, make_optimiser(learner), training, spec, how, torch.Generator().manual_seed(0))

    def run() -> float:
        order = torch.randperm(len(part))
        for rows in order[: STEPS * BATCH].view(STEPS, BATCH):
            loss = step(*part.batch(rows), 0.025)[0]
        return float(loss)

    return run


def plain() -> Loop:
    """Steps as the original code makes them."""
    learner = Plain(DARTS_V2)
    images, labels = data()
    optimiser = torch.optim.SGD(learner.parameters(), 0.025, momentum=0.9, weight_decay=3e-4)
    mean, std = (torch.tensor(values)[:, None, None] for values in (MEAN, STD))
    generator = torch.Generator().manual_seed(0)

    def run() -> float:
        order = torch.randperm(len(images)).numpy()
        for rows in np.split(order[: STEPS * BATCH], STEPS):
            x = one_by_one([Image.fromarray(images[i]) for i in rows], mean, std, generator)
            y = torch.from_numpy(labels[rows])
            total = torch.stack([torch.nn.functional.cross_entropy(logits, y) for logits in learner(x)]).sum()
            optimiser.zero_grad()
            torch.autograd.backward(total)
            torch.nn.utils.clip_grad_norm_(learner.parameters(), 5.0)
            optimiser.step()
        return float(total.detach())

    return run


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--turns", type=int, default=5)
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    loops = {
        "plain: image by image, NCHW, float32": plain(),
        "ours, float32": ours("float32"),
        "ours, bfloat16": ours("bfloat16"),
    }
    seconds: dict[str, list[float]] = {name: [] for name in loops}
    for turn in range(given.turns + 1):
        for name, run in loops.items():
            start = time.perf_counter()
            run()
            if turn:  # the first turn warms up
                seconds[name].append((time.perf_counter() - start) / STEPS)
    print(
        f"DARTS_V2, C = {CHANNELS}, L = 8, {SIDE}x{SIDE}, batch {BATCH}, three exits; torch {torch.__version__} "
        f"on {given.threads} threads, Python {platform.python_version()}, load {os.getloadavg()[0]:.1f}; "
        f"{given.turns} interleaved turns of {STEPS} steps"
    )
    base = statistics.median(seconds["plain: image by image, NCHW, float32"])
    print(f"{'':38s}{'s a step':>10s}{'fastest':>10s}{'slowest':>10s}{'images/s':>10s}{'ratio':>8s}")
    for name, times in seconds.items():
        middle = statistics.median(times)
        print(f"{name:38s}{middle:10.3f}{min(times):10.3f}{max(times):10.3f}{BATCH / middle:10.1f}{base / middle:8.2f}")


if __name__ == "__main__":
    main()
