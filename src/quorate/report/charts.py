"""Lines: accuracy against cost, a training over its epochs, confidence against truth.

This file knows numbers and names, no policy.
"""

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from quorate.report.svg import element, group, nice, svg, text, tick

__all__ = ["Series", "lines", "reliability"]


class Series(NamedTuple):
    """A line.

    Attributes:
        name: for people.
        style: number of its colour and dashes.
        points: ``(x, y, standard error of y)``.
        marks: what stands at points that stand out, by index.
    """

    name: str
    style: int
    points: Sequence[tuple[float, float, float]]
    marks: Mapping[int, str] = MappingProxyType({})


class _Frame:
    """The axes of a chart: from values to places."""

    def __init__(
        self, xs: Sequence[float], ys: Sequence[float], width: float, height: float, whole: bool = False
    ) -> None:
        """Round both ranges."""
        self.width, self.height = width, height
        self.left, self.right, self.top, self.bottom = 56.0, width - 14, 26.0, height - 48
        self.x_ticks, self.y_ticks = nice(min(xs), max(xs), 5, whole), nice(min(ys), max(ys), 6)

    def at(self, x: float) -> float:
        low, high = self.x_ticks[0], self.x_ticks[-1]
        return self.left + (x - low) / (high - low) * (self.right - self.left)

    def up(self, y: float) -> float:
        low, high = self.y_ticks[0], self.y_ticks[-1]
        return self.bottom - (max(y, low) - low) / (high - low) * (self.bottom - self.top)

    def drawn(self, x: str, y: str) -> list[str]:
        """Grid, ticks, and what the axes say."""
        out = []
        for value in self.y_ticks:
            at = self.up(value)
            out += [
                element("line", "grid", x1=self.left, x2=self.right, y1=at, y2=at),
                text(tick(value), self.left - 7, at + 4, "tick end"),
            ]
        out += [text(tick(value), self.at(value), self.bottom + 18, "tick mid") for value in self.x_ticks]
        out.append(element("line", "axis", x1=self.left, x2=self.right, y1=self.bottom, y2=self.bottom))
        out.append(text(x, (self.left + self.right) / 2, self.height - 8, "label mid"))
        out.append(text(y, 13, (self.top + self.bottom) / 2, "label mid", turned=-90))
        return out

    def level(self, y: float, said: str) -> list[str]:
        """A dotted line across, and above the chart, where no curve runs, what it is."""
        at, above = self.up(y), self.top - 12
        return [
            element("line", "level", x1=self.left, x2=self.right, y1=at, y2=at),
            text(f"····  {said}", self.right, above, "tick end"),
        ]


def lines(
    series: Sequence[Series],
    *,
    name: str,
    x: str,
    y: str,
    level: tuple[float, str] | None = None,
    low: float | None = None,
    origin: float | None = 0.0,
    whole: bool = False,
    width: float = 460,
    height: float = 320,
) -> str:
    """Lines, each with a band of one standard error, and a dotted level to compare with.

    Args:
        series: what to draw; the last ones lie on top.
        name: of the chart, different from that of any other on the page.
        x: what the x axis says.
        y: what the y axis says.
        level: a height, and what it is.
        low: lowest y to show; what is below is cut off.
        origin: where the x axis begins; None: with the first point.
        whole: whether x counts something.
        width: in user units.
        height: in user units.

    Returns:
        The chart; its attribute ``data-scale`` says where values are, for a script.

    Example:
        >>> lines([Series("a", 0, [(0, 1, 0), (1, 2, 0.1)])], name="toy", x="MACs", y="accuracy").count("<path")
        2
    """
    xs = [p[0] for one in series for p in one.points] + ([] if origin is None else [origin])
    ys = [p[1] for one in series for p in one.points if low is None or p[1] >= low]
    ys += ([] if level is None else [level[0]]) + ([] if low is None else [low])
    frame = _Frame(xs, ys, width, height, whole)
    out = frame.drawn(x, y)
    clip = f"clip-{name}"
    area = element("rect", x=frame.left, y=frame.top - 8, width=frame.right - frame.left + 8,
                   height=frame.bottom - frame.top + 8)  # fmt: skip
    out.append(f'<clipPath id="{clip}">{area}</clipPath>')
    out += [] if level is None else frame.level(*level)
    out.append(group([_line(one, frame.at, frame.up) for one in series], clip_path=f"url(#{clip})"))
    for one in series:
        for i, letter in one.marks.items():
            px, py, _ = one.points[i]
            if py >= frame.y_ticks[0]:
                out.append(_mark(one, letter, frame.at(px), frame.up(py)))
    out.append('<circle class="here" r="7" visibility="hidden"/>')
    ends = (frame.x_ticks[0], frame.x_ticks[-1], frame.y_ticks[0], frame.y_ticks[-1])
    places = (frame.left, frame.right, frame.bottom, frame.top)
    scale = " ".join(f"{v:.10g}" for v in (*ends, *places))
    return svg(out, width, height, f"{y} against {x}", data_chart=name, data_scale=scale)


def _line(one: Series, at: Callable[[float], float], up: Callable[[float], float]) -> str:
    """The band and the line of a series."""
    places = dict.fromkeys(f"{at(x):.1f} {up(y):.1f}" for x, y, _ in one.points)  # many thresholds fall together
    path = "M" + "L".join(places)
    band = [*dict.fromkeys(f"{at(x):.1f} {up(y + e):.1f}" for x, y, e in one.points),
            *dict.fromkeys(f"{at(x):.1f} {up(y - e):.1f}" for x, y, e in reversed(one.points))]  # fmt: skip
    parts = [element("path", "band", d="M" + "L".join(band) + "Z")] if any(p[2] for p in one.points) else []
    parts.append(element("path", "line", d=path))
    return group(parts, f"series s{one.style}", data_series=one.name)


def _mark(one: Series, letter: str, x: float, y: float) -> str:
    parts = [element("circle", "", f"{one.name}", cx=x, cy=y, r=5.0)]
    return group(parts + ([text(letter, x, y - 9, "mid")] if letter else []), f"mark s{one.style}",
                 data_series=one.name)  # fmt: skip


def reliability(bins: Sequence[tuple[float, float, float] | None], *, width: float = 460, height: float = 340) -> str:
    """How often answers of a confidence are right: bars against the diagonal, darker where more samples are.

    Args:
        bins: of equal width, ``(confidence, accuracy, share of the samples)`` or None where empty.
        width: in user units.
        height: in user units.

    Example:
        >>> reliability([None, (0.75, 0.5, 1.0)]).count('class="bin')
        1
    """
    frame = _Frame([0, 100], [0, 100], width, height)
    out = frame.drawn("confidence, %", "right, %")
    for i, one in enumerate(bins):
        if one is None:
            continue
        sure, right, share = one
        a, b = (frame.at(100 * j / len(bins)) for j in (i, i + 1))
        said = f"said {100 * sure:.1f} %, right {100 * right:.1f} %: {100 * share:.1f} % of the samples"
        top = frame.up(100 * right)
        out.append(element("rect", "bin s0", said, x=a + 1, y=top, width=b - a - 2, height=max(frame.bottom - top, 1),
                           fill_opacity=f"{0.3 + 0.7 * min(1, share * 2):.2f}"))  # fmt: skip
        out.append(element("line", "said", x1=a + 1, x2=b - 1, y1=frame.up(100 * sure), y2=frame.up(100 * sure)))
    out.append(element("line", "level", x1=frame.at(0), y1=frame.up(0), x2=frame.at(100), y2=frame.up(100)))
    return svg(out, width, height, "accuracy against confidence")
