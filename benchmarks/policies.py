"""What fitting and deciding cost, policy by policy: the tables of RECORDS.md.

``python benchmarks/policies.py fit``: fitting a pool. ``... million``: deciding a million recorded votes. ``... one``:
a vote of one sample. Alternatives take turns within one run; medians of the turns.
"""

import platform
import statistics
import sys
import time
from collections.abc import Callable
from functools import partial

import numpy as np

from quorate.squad import (
    Agreement,
    Cascade,
    Confidence,
    Lattice,
    Policy,
    Pool,
    Recorded,
    Rule,
    Soft,
    Static,
    drive,
    replay,
)

TURNS = 7
MACS = np.array([[3.0, 2.0, 4.0], [5.0, 4.0, 6.0], [5.0, 4.0, 6.0]])


def medians(jobs: dict[str, Callable[[], object]], turns: int = TURNS) -> dict[str, float]:
    """Seconds of each job, the jobs taking turns; the first turn warms up."""
    seconds: dict[str, list[float]] = {name: [] for name in jobs}
    for turn in range(turns + 1):
        for name, job in jobs.items():
            start = time.perf_counter()
            job()
            if turn:
                seconds[name].append(time.perf_counter() - start)
    return {name: statistics.median(times) for name, times in seconds.items()}


def votes(n: int, classes: int) -> tuple[np.ndarray, np.ndarray]:
    """Probabilities ``[3, 3, n, classes]`` of learners that are right more often the deeper they are, and labels."""
    rng = np.random.default_rng(0)
    labels = rng.integers(classes, size=n)
    logits = rng.normal(size=(3, 3, n, classes)).astype(np.float32) * 1.5
    for e in range(3):
        logits[e, :, np.arange(n), labels] += 3 + e
    logits = np.exp(logits - logits.max(-1, keepdims=True))
    return logits / logits.sum(-1, keepdims=True), labels


def policies(pool: Pool) -> dict[str, Policy]:
    """Each policy at a threshold that sends samples to every exit."""
    path = [(e, k) for k in range(3) for e in range(3)]
    return {
        "SQUAD, t-test": Rule(threshold=0.6),
        "SQUAD, mean": Rule("mean", 0.8),
        "static": Static(),
        "confidence": Confidence(1, 0.8),
        "cascade": Cascade(0.8),
        "soft, depth-first": Soft("depth", 0.8),
        "agreement": Agreement(1.0),
        "pool, gate, depth-first": pool.with_(path=path),
        "pool, gate, arrival": pool,
    }


def fit() -> None:
    """K = E = 3, 63 states, 5,000 samples."""
    jobs: dict[str, Callable[[], object]] = {}
    for classes in (10, 100):
        jobs[f"{classes} classes"] = partial(Pool.fit, *votes(5000, classes))
    for name, value in medians(jobs, turns=3).items():
        print(f"fitting a pool, 5,000 samples, {name:12s} {value:6.2f} s")


def million() -> None:
    """A million samples, as a ratio to one plain maximum with torch and to argmax and max with numpy."""
    import torch

    torch.set_num_threads(2)
    n = int(sys.argv[2]) if len(sys.argv) > 2 else 1_000_000
    probs, labels = votes(n, 10)
    tensor = torch.from_numpy(probs)
    pool = Pool.fit(probs[:, :, :5000], labels[:5000])
    jobs: dict[str, Callable[[], object]] = {"torch max": lambda: tensor.max(-1)}
    jobs["numpy argmax, max"] = lambda: (probs.argmax(-1), probs.max(-1))
    for name, policy in policies(pool).items():
        jobs[name] = partial(replay, tensor, MACS, policy)
    seconds = medians(jobs, turns=3)
    for name, value in seconds.items():
        print(f"{name:26s} {value * 1e3:8.0f} ms {value / seconds['torch max']:7.1f} x max")


def one() -> None:
    """One sample at a time, in numpy: microseconds a vote, the loop and the recorded source included and apart."""
    probs, labels = votes(5200, 10)
    pool = Pool.fit(probs[:, :, :5000], labels[:5000])
    lattice = Lattice(MACS, np.argsort(MACS, 1, "stable")[:, :, None], 10, probs[0, 0, :0, 0])
    singles = [probs[:, :, i : i + 1] for i in range(5000, 5200)]

    def policy_alone(policy: Policy) -> float:
        spent, told = 0.0, 0
        for single in singles:
            start = time.perf_counter()
            state = policy.start(1, lattice)
            wanted = policy.wanted(state)
            spent += time.perf_counter() - start
            while wanted[0] >= 0:
                e, k = divmod(int(wanted[0]), 3)
                vote, rows = single[e, k], np.zeros(1, int)
                start = time.perf_counter()
                state = policy.tell(state, rows, e * 3 + k, vote)
                wanted = policy.wanted(state)
                spent += time.perf_counter() - start
                told += 1
            start = time.perf_counter()
            policy.verdict(state)
            spent += time.perf_counter() - start
        return spent / told

    def with_loop(policy: Policy) -> float:
        start, told = time.perf_counter(), 0
        for single in singles:
            verdict, _ = drive(policy, Recorded(single), 1, lattice)
            told += int((verdict.waited >= 0).sum())
        return (time.perf_counter() - start) / told

    for name, policy in policies(pool).items():
        alone = statistics.median(policy_alone(policy) for _ in range(TURNS))
        whole = statistics.median(with_loop(policy) for _ in range(TURNS))
        print(f"{name:26s} {alone * 1e6:6.1f} us a vote, {whole * 1e6:6.1f} with loop and source")


if __name__ == "__main__":
    print(f"numpy {np.__version__}, Python {platform.python_version()}, K = E = 3, medians of interleaved turns")
    {"fit": fit, "million": million, "one": one}[sys.argv[1]]()
