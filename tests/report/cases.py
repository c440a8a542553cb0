"""Votes of a committee that is right more often the deeper it looks, and the document of their results."""

import numpy as np

from quorate.report.gallery import as_png
from quorate.report.looking import Extras, Sample
from quorate.report.results import results_of
from quorate.squad import Rule, Votes

HOSTILE = "</script><img src=x onerror=boom()>\"'&"
MACS = np.array([[3.0, 4.0, 5.0], [2.0, 3.0, 4.0]])


def votes(n=240, seed=0, num_exits=2, num_learners=3, classes=4, **fields):
    rng = np.random.default_rng(seed)
    labels = rng.integers(classes, size=n)
    hard = rng.exponential(size=n)
    depth = np.arange(1, num_exits + 1)[:, None, None]
    signal = (1.5 + 1.2 * depth - 1.4 * hard)[..., None] * np.eye(classes)[labels]
    logits = signal + 0.9 * rng.normal(size=(num_exits, num_learners, n, classes))
    probs = np.exp(logits) / np.exp(logits).sum(-1, keepdims=True)
    return Votes(probs, labels, MACS[:num_exits, :num_learners], **fields)


def document(about=None, classes="class", policy=Rule("mean", 0.8), **fields):  # noqa: B008 - frozen
    names = [f"{classes}{c}" for c in range(4)]
    judging, choosing = (votes(seed=s, metadata={"classes": names}, **fields) for s in (1, 2))
    told = {"run": "toy", "data": {"name": "toy"}, "split": "test", "calibration": "calibration", **(about or {})}
    return results_of(judging, choosing, policy=policy, max_drop=1.0, about=told)


def extras():
    """Pictures of two exits, a drawing, two histories."""
    png = as_png(np.zeros((8, 8, 3), np.uint8))
    samples = [Sample(png, 0, HOSTILE, HOSTILE, 0.99, True), Sample(png, 1, "cat", HOSTILE, 0.4, False)]
    rows = [
        {"epoch": e, "accuracy": [0.3, 0.4 + e / 10], "calibration_accuracy": [0.2, 0.5 + e / 10]} for e in range(3)
    ]
    search = [{"epoch": e, "phase": "supernet", "loss": [2.0 - e, 1.0], "entropy": 2.0 - e / 9} for e in range(3)]
    drawing = b'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 9 9"><rect width="9" height="9"/></svg>'
    return Extras(samples, {HOSTILE: drawing}, {HOSTILE: rows}, search)
