"""Figures as files: matplotlib, colours that colour-blind readers and printers can tell apart.

This file knows numbers and names, no policy.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from quorate.report.tables import check_place

__all__ = ["COLOURS", "MARKS", "accuracy_against_cost", "check_figure"]

# Okabe and Ito (2008), "Color universal design"; the yellow is left out, it cannot be read on white.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#555555")
MARKS = ("o", "s", "^", "D", "v", "P", "X")


def check_figure(path: Path | None) -> None:
    """Refuse a figure that could not be written, before the work is done."""
    if path is not None and path.suffix not in (".png", ".svg", ".pdf"):
        raise ValueError(f"the name of a figure must end in .png, .svg or .pdf, got {path.name!r}")
    check_place(path)


def accuracy_against_cost(
    path: Path,
    panels: Mapping[str, Mapping[str, Sequence[tuple[float, float, float]]]],
    static: Mapping[str, tuple[float, float]],
    samples: int,
) -> None:
    """Draw accuracy against cost over thresholds, a panel for each device, one standard error shaded.

    Args:
        path: a .png, .svg or .pdf.
        panels: by title and policy, points ``(threshold, cost, accuracy)``.
        static: by title, cost and accuracy of the static ensemble.
        samples: how many the accuracies were measured on.
    """
    check_figure(path)
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(1, len(panels), figsize=(5.6 * len(panels), 4.6), squeeze=False, sharey=True)
    lowest = min(accuracy for _, accuracy in static.values()) - 0.06
    for axis, (title, curves) in zip(axes[0], panels.items(), strict=True):
        for i, (name, points) in enumerate(curves.items()):
            cost, accuracy = (
                np.array(x) for x in zip(*[p[1:] for p in sorted(points, key=lambda p: p[1])], strict=True)
            )
            style = {"color": COLOURS[i % len(COLOURS)], "marker": MARKS[i % len(MARKS)]}
            axis.plot(cost, 100 * accuracy, label=name, lw=1.6, ms=4, markevery=0.12, **style)
            error = np.sqrt(accuracy * (1 - accuracy) / samples)
            axis.fill_between(
                cost, 100 * (accuracy - error), 100 * (accuracy + error), color=style["color"], alpha=0.1, lw=0
            )
        whole, best = static[title]
        axis.axhline(100 * best, color="#000000", lw=0.8, ls=":")
        axis.annotate(f"static ensemble: {whole:,.0f}", (0.98, 0.97), xycoords="axes fraction", ha="right", va="top",
                      fontsize=8)  # fmt: skip
        axis.legend(fontsize=8, frameon=False, loc="lower right")
        axis.set_title(title, fontsize=10)
        axis.set_xlabel("mean cost per sample (MACs, or the unit of the votes file)")
        axis.spines[["top", "right"]].set_visible(False)
        axis.grid(alpha=0.2)
    axes[0][0].set_ylabel(f"accuracy, % of {samples:,} samples")
    axes[0][0].set_ylim(bottom=100 * lowest)
    figure.tight_layout()
    figure.savefig(path, dpi=150)
    plt.close(figure)
