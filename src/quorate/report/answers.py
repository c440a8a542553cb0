"""What a policy's answers are like, class by class: right ones, confused ones, and how far its confidence holds.

Shapes: ``N`` samples, ``C`` classes, ``M`` bins. This file does not know how anybody decided.
"""

from typing import Any

import numpy as np

from quorate.measures import CalibrationMeter

__all__ = ["answers", "confused", "confusion"]

Array = np.ndarray[Any, Any]


def confusion(labels: Array, answered: Array, classes: int) -> list[list[int]]:
    """``[C][C + 1]`` samples by true class and answer; the last column counts those that nobody could answer.

    Example:
        >>> confusion(np.array([0, 0, 1]), np.array([0, 1, -1]), 2)
        [[1, 1, 0], [0, 0, 1]]
    """
    column = np.where(answered < 0, classes, answered)
    table = np.bincount(labels * (classes + 1) + column, minlength=classes * (classes + 1))
    rows: list[list[int]] = table.reshape(classes, classes + 1).tolist()
    return rows


def confused(table: list[list[int]], most: int = 8) -> list[tuple[int, int, int]]:
    """The most frequent mistakes, ``(true class, answer, samples)``.

    Example:
        >>> confused([[5, 3, 0], [1, 9, 0]])
        [(0, 1, 3), (1, 0, 1)]
    """
    pairs = [(count, i, j) for i, row in enumerate(table) for j, count in enumerate(row[:-1]) if i != j and count]
    return [(i, j, count) for count, i, j in sorted(pairs, key=lambda p: (-p[0], p[1], p[2]))[:most]]


def answers(labels: Array, answered: Array, confidence: Array, classes: int) -> dict[str, Any]:
    """Confusion matrix, accuracy of each class with its samples, and the bins of the calibration error (Eq. 3).

    Example:
        >>> document = answers(np.array([0, 0, 1]), np.array([0, 1, 1]), np.array([0.9, 0.6, 1.0]), 2)
        >>> document["per_class"]
        [{'samples': 2, 'accuracy': 0.5}, {'samples': 1, 'accuracy': 1.0}]
    """
    table = confusion(labels, answered, classes)
    meter = CalibrationMeter().update(confidence, answered == labels)
    per_class = [{"samples": sum(row), "accuracy": row[c] / sum(row) if sum(row) else None}
                 for c, row in enumerate(table)]  # fmt: skip
    bins = [
        {"samples": int(n), "accuracy": float(r / n), "confidence": float(c / n)} if n else None
        for n, r, c in zip(meter.count, meter.right, meter.confidence, strict=True)
    ]
    return {"per_class": per_class, "confusion": table, "reliability": bins}
