"""How long deciding takes, as a ratio to one sweep over the probabilities: the table of RECORDS.md.

Run ``python benchmarks/deciding.py [SAMPLES]``. Alternatives take turns within one run; medians of the turns.
"""

import platform
import statistics
import sys
import time
import tracemalloc
from collections.abc import Callable

import numpy as np
import torch

from quorate.squad import Rule, replay

TURNS = 7


def medians(jobs: dict[str, Callable[[], object]]) -> dict[str, float]:
    """Seconds of each job, the jobs taking turns."""
    seconds: dict[str, list[float]] = {name: [] for name in jobs}
    for turn in range(TURNS + 1):
        for name, job in jobs.items():
            start = time.perf_counter()
            job()
            if turn:  # the first turn warms up
                seconds[name].append(time.perf_counter() - start)
    return {name: statistics.median(times) for name, times in seconds.items()}


def main() -> None:
    """Print the table."""
    n = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
    torch.set_num_threads(2)
    macs = np.array([[3.0, 2.0, 4.0], [5.0, 4.0, 6.0], [5.0, 4.0, 6.0]])
    tensor = torch.softmax(torch.randn(3, 3, n, 10, generator=torch.Generator().manual_seed(0)) * 3, -1)
    array = tensor.numpy()
    rule = Rule(threshold=0.8)
    seconds = medians(
        {
            "torch max": lambda: tensor.max(-1),
            "torch replay": lambda: replay(tensor, macs, rule),
            "numpy argmax, max": lambda: (array.argmax(-1), array.max(-1)),
            "numpy replay": lambda: replay(array, macs, rule),
        }
    )
    print(
        f"n = {n}, K = E = 3, C = 10, float32, torch {torch.__version__} on 2 threads, numpy {np.__version__}, "
        f"Python {platform.python_version()}, medians of {TURNS} interleaved turns"
    )
    for name, value in seconds.items():
        print(f"{name:20s} {value * 1e3:8.1f} ms")
    print(f"torch: replay / max                  {seconds['torch replay'] / seconds['torch max']:.2f}")
    print(f"numpy: replay / (argmax and max)     {seconds['numpy replay'] / seconds['numpy argmax, max']:.2f}")
    tracemalloc.start()
    replay(array, macs, rule)
    print(f"peak extra memory / probabilities    {tracemalloc.get_traced_memory()[1] / array.nbytes:.2f}")


if __name__ == "__main__":
    main()
