"""The paper's own figures, to stand beside those of a run: QUEST, and the rivals it names.

Source: Gambella, Pittorino, Casale, Roveri, "SQUAD: Scalable Quorum Adaptive Decisions via ensemble of early exit
neural networks", its tables of accuracy, costs, disagreement and calibration. Accuracy, PPD and ECE in per cent, costs
in millions of MACs, search in GPU hours. Behind them: three learners of 36 channels and 20 cells, 600 epochs each.

This file computes nothing, and knows no run.
"""

from typing import NamedTuple

__all__ = ["PUBLISHED", "PUBLISHED_BUDGET", "Published", "Row"]


class Row(NamedTuple):
    """One line of the paper's table, for one data set."""

    name: str
    accuracy: float
    f_m: float
    f_mt: float
    hours: float
    note: str = ""


class Published(NamedTuple):
    """What the paper says of one data set.

    Attributes:
        title: the data set, as people write it.
        threshold: of the exit test.
        rows: of its main table.
        ppd: by exit, of QUEST.
        ppd_nesbs: of NESBS, which has one exit.
        exit_ece: by exit, of QUEST.
        ece: overall, by method.
    """

    title: str
    threshold: float
    rows: tuple[Row, ...]
    ppd: tuple[float, ...]
    ppd_nesbs: float
    exit_ece: tuple[float, ...]
    ece: dict[str, float]


PUBLISHED_BUDGET = "3 learners, C = 36, L = 20, 600 epochs each"

PUBLISHED = {
    "cifar10": Published(
        "CIFAR-10",
        0.95,
        (
            Row("NESBS", 97.64, 694.02, 2013.94, 8),
            Row("NACHOS", 95.40, 212.95, 212.95, 36),
            Row("CNAS", 93.73, 216.04, 216.04, 24),
            Row("QUEST, t-test", 96.97, 205.87, 603.63, 8),
            Row("QUEST, mean", 97.03, 204.06, 598.23, 8),
        ),
        (4.08, 3.13, 3.15),
        2.27,
        (0.60, 6.37, 13.74),
        {"QUEST": 1.72, "NACHOS": 5.33, "QUTE": 2.50, "EE-ensemble": 3.30},
    ),
    "cifar100": Published(
        "CIFAR-100",
        0.6,
        (
            Row("NESBS", 85.45, 694.08, 2014.12, 8),
            Row("NACHOS", 79.25, 312.14, 312.14, 36),
            Row("CNAS", 80.23, 315.32, 315.32, 24),
            Row("QUEST, t-test", 82.20, 302.87, 878.73, 8),
            Row("QUEST, mean", 79.97, 226.45, 656.72, 8),
        ),
        (21.30, 17.25, 17.50),
        13.16,
        (0.76, 6.53, 21.50),
        {"QUEST": 8.30, "NACHOS": 9.15},
    ),
    "imagenet16-120": Published(
        "ImageNet16-120",
        0.3,
        (
            Row("NESBS", 56.15, 161.09, 503.69, 8, "F_M cannot be so small: it is below a third of F_MT"),
            Row("NACHOS", 51.10, 95.53, 95.53, 36),
            Row("CNAS", 51.38, 97.60, 97.60, 24),
            Row("QUEST, t-test", 57.05, 93.12, 267.71, 8),
            Row("QUEST, mean", 54.22, 61.75, 177.37, 8),
        ),
        (37.91, 37.34, 39.18),
        35.22,
        (4.89, 4.38, 13.23),
        {"QUEST": 6.72, "NACHOS": 7.54},
    ),
}
"""By the name of the data set in :mod:`quorate.data`."""
