"""The alphabet of our charts: elements, texts, round numbers. Text is escaped here, whoever it comes from.

Sizes are user units: the page scales a chart to its column, and enlarges its text on a phone. Colours are classes,
``s0`` .. ``s8`` for series and ``x0`` .. for exits, so that one style sheet serves light, dark and print.

This file knows numbers and names, and no chart.
"""

import math
from collections.abc import Iterable
from html import escape

__all__ = ["element", "group", "nice", "svg", "text", "tick"]


def element(kind: str, style: str = "", title: str = "", **attributes: float | str) -> str:
    """One element, its numbers with a decimal at most; ``title`` is what a mouse over it says.

    Example:
        >>> element("rect", "bar s0", "a < b", x=1.26, stroke_width=2)
        '<rect class="bar s0" x="1.3" stroke-width="2"><title>a &lt; b</title></rect>'
    """
    said = f' class="{style}"' if style else ""
    for name, value in attributes.items():
        plain = escape(value) if isinstance(value, str) else f"{value:.1f}".removesuffix(".0")
        said += f' {name.replace("_", "-")}="{plain}"'
    return f"<{kind}{said}/>" if not title else f"<{kind}{said}><title>{escape(title)}</title></{kind}>"


def text(said: str, x: float, y: float, style: str = "", turned: float = 0) -> str:
    """A text; ``style`` may end in ``mid`` or ``end``, how it is anchored.

    Example:
        >>> text("R&D", 1, 2, "tick mid")
        '<text class="tick mid" x="1" y="2">R&amp;D</text>'
    """
    if turned:
        return f'<text class="{style}" transform="translate({x:.1f} {y:.1f}) rotate({turned:g})">{escape(said)}</text>'
    where = element("text", style, x=x, y=y).removesuffix("/>")
    return f"{where}>{escape(said)}</text>"


def group(parts: Iterable[str], style: str = "", **attributes: str) -> str:
    """Elements that belong together.

    Example:
        >>> group(["<line/>"], "series", data_series="pool")
        '<g class="series" data-series="pool"><line/></g>'
    """
    return f"{element('g', style, **attributes).removesuffix('/>')}>{''.join(parts)}</g>"


def svg(parts: Iterable[str], width: float, height: float, label: str, **attributes: str) -> str:
    """A whole chart; ``label`` is what those hear who cannot see it.

    Example:
        >>> svg([], 10, 5, "empty")
        '<svg class="chart" viewBox="0 0 10 5" role="img" aria-label="empty"></svg>'
    """
    head = element("svg", "chart", viewBox=f"0 0 {width:.0f} {height:.0f}", role="img", aria_label=label, **attributes)
    return f"{head.removesuffix('/>')}>{''.join(parts)}</svg>"


def nice(low: float, high: float, most: int = 6, whole: bool = False) -> list[float]:
    """Round numbers that cover a range; ``whole`` ones where something is counted.

    Example:
        >>> nice(0, 97), nice(0.93, 0.97, 5)
        ([0.0, 20.0, 40.0, 60.0, 80.0, 100.0], [0.93, 0.94, 0.95, 0.96, 0.97])
    """
    if high - low <= 1e-6 * abs(high):
        high = low + (0.01 * abs(low) or 1.0)
    span = high - low
    raw = span / max(1, most - 1)
    raw = max(raw, 1.0) if whole else raw
    power = 10 ** math.floor(math.log10(raw))
    step = next(m * power for m in ((1, 2, 5, 10) if whole else (1, 2, 2.5, 5, 10)) if m * power >= raw * 0.999)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return [round(float(i * step), 12) for i in range(first, max(last, first + 1) + 1)]


def tick(value: float) -> str:
    """A number as an axis says it.

    Example:
        >>> [tick(x) for x in (0, 0.25, 1500, 20_000_000, 97.5)]
        ['0', '0.25', '1.5 k', '20 M', '97.5']
    """
    for size, unit in ((1e9, " G"), (1e6, " M"), (1e3, " k")):
        if abs(value) >= size:
            return f"{value / size:.4g}{unit}"
    return f"{value:.4g}"
