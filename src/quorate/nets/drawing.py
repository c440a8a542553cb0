"""Pictures of genotypes: both cells, their nodes, edges and operations.

Every node is a box that lists its two operations, each with the port where its edge arrives, so that no label lies on a
line. Colours are those of operations; free ones (skips and pools) are dashed.

This file knows no network: a genotype is drawn without torch.
"""

import io
import os
from pathlib import Path
from typing import Any

from quorate.nets.genotype import NODES, Cell, Genotype

__all__ = ["draw_genotype"]

_COLOURS = {
    "sep_conv_3x3": "#1f5fa8",
    "sep_conv_5x5": "#0b2f5c",
    "dil_conv_3x3": "#c2571a",
    "dil_conv_5x5": "#7a3208",
    "skip_connect": "#5c6670",
    "max_pool_3x3": "#2f7d4f",
    "avg_pool_3x3": "#6a8f2a",
}
_FREE = ("skip_connect", "max_pool_3x3", "avg_pool_3x3")
_WIDTH, _HEIGHT = 1.62, 0.86  # of a node's box
_PLACES = {0: (0.0, 1.1), 1: (0.0, -1.1), 2: (2.3, 1.1), 3: (4.6, -1.1), 4: (6.9, 1.1), 5: (9.2, -1.1)}
_LANES = {
    0: 0.50,
    2: 0.28,
    4: 0.06,
    1: -0.48,
    3: -0.24,
}  # between the rows of boxes, one for each node that is read from afar
_END = (11.6, 0.0)


def draw_genotype(genotype: Genotype, path: str | os.PathLike[str], title: str = "") -> Path:
    """Draw both cells to a file.

    Args:
        genotype: what to draw.
        path: where to; its suffix chooses SVG, PNG or PDF.
        title: a line above the cells, taken as it is.

    Returns:
        The path that was written.

    Raises:
        ValueError: if the suffix is another one, the folder does not exist, or the path is one.

    Example:
        >>> import tempfile
        >>> from quorate.nets import DARTS_V2, draw_genotype
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     draw_genotype(DARTS_V2, f"{folder}/darts.svg").stat().st_size > 1000
        True
    """
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    path = Path(path)
    if not path.parent.is_dir():
        raise ValueError(f"the folder {str(path.parent)!r} must exist before a drawing is written to it")
    kind = path.suffix.lower().removeprefix(".")
    if kind not in ("svg", "png", "pdf"):
        raise ValueError(f"a drawing must be written as .svg, .png or .pdf, got {path.name!r}")
    if path.is_dir():
        raise ValueError(f"a drawing must be written to a file, but {str(path)!r} is a folder; name a file in it")
    figure = Figure(figsize=(12.6, 8.2), layout="constrained")
    if title:
        figure.suptitle(title.replace("$", r"\$"), fontsize=15, fontweight="bold")
    for axes, name in zip(figure.subplots(2, 1), ("normal", "reduce"), strict=True):
        _draw_cell(axes, getattr(genotype, name), "normal cell" if name == "normal" else "reduction cell")
    buffer = io.BytesIO()
    with rc_context({"svg.hashsalt": "quorate", "svg.fonttype": "none"}):
        stamp = {"Date": None} if kind == "svg" else {"CreationDate": None} if kind == "pdf" else {}
        figure.savefig(buffer, format=kind, dpi=110, metadata=stamp)
    _write(path, buffer.getvalue())
    return path


def _write(path: Path, content: bytes) -> None:
    """Write next to the file and rename, so that nobody ever sees half a picture."""
    partial = path.with_name(f".{path.name}.partial")
    try:
        partial.write_bytes(content)
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


def _draw_cell(axes: Any, cell: Cell, title: str) -> None:
    axes.set_title(title, loc="left", fontsize=12)
    axes.set_xlim(-0.95, 12.5)
    axes.set_ylim(-2.0, 2.0)
    axes.set_axis_off()
    for source, label in ((0, "input 0\nlast cell but one"), (1, "input 1\nlast cell")):
        _box(axes, _PLACES[source], label, "#eef1f4")
    for node in range(2, 2 + NODES):
        _draw_node(axes, node, cell[2 * (node - 2) : 2 * (node - 1)])
    _box(axes, _END, "output\nnodes 2 to 5", "#eef1f4")


def _draw_node(axes: Any, node: int, edges: Cell) -> None:
    from matplotlib.patches import FancyBboxPatch

    x, y = _PLACES[node]
    style: dict[str, Any] = {"boxstyle": "round,pad=0,rounding_size=0.08", "linewidth": 1.1, "zorder": 3}
    axes.add_patch(
        FancyBboxPatch((x - _WIDTH / 2, y - _HEIGHT / 2), _WIDTH, _HEIGHT, fc="white", ec="#30363c", **style)
    )
    axes.text(x, y + 0.27, f"node {node}", ha="center", va="center", fontsize=10, fontweight="bold", zorder=4)
    ordered = sorted(enumerate(edges), key=lambda item: -_PLACES[item[1][1]][1])  # from above to the upper port
    for place, (_, (operation, source)) in enumerate(ordered):
        port = (x - _WIDTH / 2, y + 0.02 - 0.26 * place)
        colour = _COLOURS[operation]
        axes.text(
            port[0] + 0.12,
            port[1],
            f"{operation} of {source}",
            ha="left",
            va="center",
            fontsize=9,
            color=colour,
            zorder=4,
        )
        axes.plot(*port, marker="o", markersize=4.5, color=colour, zorder=5)
        _edge(axes, source, port, colour, "--" if operation in _FREE else "-", 1.7)
    _edge(axes, node, (_END[0] - _WIDTH / 2, _LANES.get(node, -0.36) / 2), "#c3cad1", "-", 1.0)


def _edge(axes: Any, source: int, end: tuple[float, float], colour: str, line: str, width: float) -> None:
    """A curve that leaves and arrives horizontally; where other boxes stand between, it takes its node's lane."""
    from matplotlib.patches import PathPatch
    from matplotlib.path import Path as Curve

    (x0, y0), (x1, y1) = (_PLACES[source][0] + _WIDTH / 2, _PLACES[source][1]), end
    if x1 - x0 > 2.0:
        lane, a, b = _LANES[source], x0 + 0.75, x1 - 0.75
        before = [(x0, y0), (x0 + 0.45, y0), (a - 0.4, lane), (a, lane)]
        points = [*before, (b, lane), (b + 0.4, lane), (x1 - 0.45, y1), (x1, y1)]
        codes = [Curve.MOVETO, *[Curve.CURVE4] * 3, Curve.LINETO, *[Curve.CURVE4] * 3]
    else:
        bend = (x1 - x0) / 2
        points = [(x0, y0), (x0 + bend, y0), (x1 - bend, y1), (x1, y1)]
        codes = [Curve.MOVETO, *[Curve.CURVE4] * 3]
    style = {"facecolor": "none", "edgecolor": colour, "linestyle": line, "linewidth": width}
    axes.add_patch(PathPatch(Curve(points, codes), zorder=1 if width < 1.5 else 2, **style))


def _box(axes: Any, place: tuple[float, float], label: str, colour: str) -> None:
    from matplotlib.patches import FancyBboxPatch

    x, y = place
    corner = (x - _WIDTH / 2, y - _HEIGHT / 2)
    style: dict[str, Any] = {"boxstyle": "round,pad=0,rounding_size=0.08", "linewidth": 1.1, "zorder": 3}
    axes.add_patch(FancyBboxPatch(corner, _WIDTH, _HEIGHT, fc=colour, ec="#30363c", **style))
    axes.text(x, y, label, ha="center", va="center", fontsize=9, zorder=4)
