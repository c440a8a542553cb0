"""The frontier of a tuning as a figure: what no policy beats, the best of each family, and the choice.

This file does not know how any of them decides.
"""

from pathlib import Path
from typing import Any

import numpy as np

from quorate.report.figures import COLOURS, MARKS, check_figure
from quorate.squad import Tuned

__all__ = ["draw_frontier"]


def draw_frontier(path: Path, tuned: Tuned) -> None:
    """Draw accuracy against the wished cost on the calibration samples, one standard error shaded.

    Args:
        path: a .png, .svg or .pdf.
        tuned: what was chosen.
    """
    check_figure(path)
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    unit, name = _unit(tuned)
    figure, axis = plt.subplots(figsize=(6.4, 4.6))
    x, y = np.array([(p.cost / unit, 100 * p.accuracy) for p in tuned.frontier]).T
    error = 100 * np.sqrt(y / 100 * (1 - y / 100) / tuned.samples)
    axis.plot(x, y, color="#000000", lw=1.4, drawstyle="steps-post", label="what no policy beats")
    axis.fill_between(x, y - error, y + error, color="#000000", alpha=0.08, lw=0, step="post")
    kept = {family: point for family, point in tuned.best.items() if point is not None}
    for i, (family, point) in enumerate(kept.items()):
        style: dict[str, Any] = {"marker": MARKS[i % len(MARKS)], "color": COLOURS[i % len(COLOURS)], "label": family}
        axis.plot(point.cost / unit, 100 * point.accuracy, ls="", ms=7, **style)
    ring: dict[str, Any] = {"marker": "o", "ms": 15, "mfc": "none", "mec": "#D55E00", "mew": 2, "label": "chosen"}
    axis.plot(tuned.chosen.cost / unit, 100 * tuned.chosen.accuracy, ls="", **ring)
    axis.axhline(100 * tuned.static_accuracy, color="#000000", lw=0.8, ls=":")
    whole = f"static ensemble: {tuned.static_cost / unit:,.4g}"
    axis.annotate(whole, (0.98, 0.97), xycoords="axes fraction", ha="right", va="top", fontsize=8)
    axis.set_ylim(100 * tuned.static_accuracy - 6, None)
    axis.set_xlabel(f"mean {tuned.wish.cost} cost per sample{name}")
    axis.set_ylabel(f"accuracy, % of {tuned.samples:,} calibration samples")
    axis.spines[["top", "right"]].set_visible(False)
    axis.grid(alpha=0.2)
    axis.legend(fontsize=8, frameon=False, loc="lower right")
    figure.tight_layout()
    figure.savefig(path, dpi=150)
    plt.close(figure)


def _unit(tuned: Tuned) -> tuple[float, str]:
    if tuned.wish.cost == "milliseconds":
        return 1.0, " (milliseconds)"
    return (1e6, " (millions of MACs)") if tuned.static_cost >= 1e6 else (1.0, "")
