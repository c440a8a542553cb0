"""Bars, stacked and grouped, and the squares of a confusion matrix.

This file knows numbers and names, no policy.
"""

from collections.abc import Sequence

from quorate.report.svg import element, nice, svg, text, tick

__all__ = ["bars", "grouped", "squares", "stacked"]


def stacked(rows: Sequence[tuple[str, Sequence[float], float]], part: str = "exit", *, width: float = 460) -> str:
    """Bars of shares that sum to 1, one part after the other, and the forced ones hatched at the end.

    Args:
        rows: name, shares by part, share of forced answers.
        part: what a part is.
        width: in user units.

    Example:
        >>> stacked([("all", [0.75, 0.25], 0.0)]).count("<rect")
        2
    """
    pitch, thick = 48, 20
    out = []
    for i, (name, shares, forced) in enumerate(rows):
        y, x = i * pitch + 20, 0.0
        out.append(text(name, 0, y - 6, "label"))
        for style, share, what in [
            *((f"x{min(e, 7)}", share, f"{part} {e}") for e, share in enumerate(shares)),
            ("forced", forced, "forced"),
        ]:
            wide = share * width
            if share > 0:
                out.append(element("rect", style, f"{what}: {100 * share:.1f} %", x=x, y=y, width=max(wide - 1, 0.5),
                                   height=thick))  # fmt: skip
            if wide > 46:
                out.append(text(f"{100 * share:.0f} %", x + wide / 2, y + 14.5, f"inside mid in-{style}"))
            x += wide
    return svg(out, width, pitch * len(rows) + 2, f"shares by {part}")


def bars(rows: Sequence[tuple[str, float, str, int]], *, full: float = 1.0, width: float = 460) -> str:
    """Horizontal bars with the name above, on a track of full length, and what they say behind it.

    Args:
        rows: name, length, text, style.
        full: the length of the track.
        width: in user units.

    Example:
        >>> "42 %" in bars([("pool", 0.42, "42 %", 0)])
        True
    """
    pitch, thick = 40, 13
    room = 20 + 8.2 * max(len(row[2]) for row in rows)
    longest = max([full, *(row[1] for row in rows)])
    unit = (width - room) / longest
    out = []
    for i, (name, value, said, style) in enumerate(rows):
        y = i * pitch + 20
        out += [
            text(name, 0, y - 6, "label"),
            element("rect", "track", x=0, y=y, width=full * unit, height=thick, rx=2),
            element("rect", f"bar s{style}", x=0, y=y, width=max(1.0, value * unit), height=thick, rx=2),
            text(said, max(value, full) * unit + 9, y + 11, "value"),
        ]
    return svg(out, width, pitch * len(rows) + 2, "bars")


def grouped(
    groups: Sequence[str],
    series: Sequence[tuple[str, str, Sequence[float | None]]],
    *,
    y: str,
    width: float = 460,
    height: float = 270,
) -> str:
    """Upright bars side by side, their values above them; None is left out.

    Args:
        groups: names along the x axis.
        series: name, class, and a value for each group.
        y: what the y axis says.
        width: in user units.
        height: in user units.

    Example:
        >>> grouped(["exit 0", "exit 1"], [("ours", "s0", [1.0, None])], y="%").count('class="bar')
        1
    """
    left, top, bottom = 48, 20, height - 30
    ticks = nice(0, max((v for _, _, row in series for v in row if v is not None), default=1), 5)
    room = (width - left - 8) / len(groups)
    thick = min(46.0, room * 0.82 / len(series))

    def up(value: float) -> float:
        return bottom - value / ticks[-1] * (bottom - top)

    out = [text(y, 11, (top + bottom) / 2, "label mid", turned=-90)]
    for value in ticks:
        out.append(element("line", "grid", x1=left, x2=width, y1=up(value), y2=up(value)))
        out.append(text(tick(value), left - 6, up(value) + 4, "tick end"))
    for g, called in enumerate(groups):
        middle = left + room * (g + 0.5)
        out.append(text(called, middle, bottom + 19, "tick mid"))
        for i, (name, style, row) in enumerate(series):
            x, at = middle - thick * len(series) / 2 + thick * i, row[g]
            if at is not None:
                out.append(element("rect", f"bar {style}", f"{name}: {at:.2f}", x=x + 1, y=up(at), width=thick - 2,
                                   height=max(bottom - up(at), 0.5), rx=1.5))  # fmt: skip
                if thick >= 22:
                    out.append(text(f"{at:.1f}", x + thick / 2, up(at) - 5, "value mid"))
    return svg(out, width, height, y)


def squares(table: Sequence[Sequence[int]], names: Sequence[str], *, width: float = 460) -> str:
    """A confusion matrix: rows are true classes, stronger where a larger share of the row is; names where they fit.

    Example:
        >>> squares([[3, 1], [0, 4]], ["cat", "dog"]).count("<title>")
        3
    """
    n = len(names)
    said = n <= 20
    left = min(110, 16 + 7 * min(14, max(len(name) for name in names))) if said else 4
    cell, top = (width - left - 4) / n, left * 0.75 if said else 4
    gap = 1 if said else 0
    out = []
    for i, row in enumerate(table):
        y = top + i * cell
        if said:
            out.append(text(names[i][:14], left - 6, y + cell / 2 + 4, "tick end"))
            out.append(text(names[i][:14], left + cell * (i + 0.5) + 4, top - 6, "tick", turned=-45))
        for j, count in enumerate(row[:n]):
            if count:
                share = count / sum(row)
                strength = 0.12 + 0.88 * share**0.6
                title = f"{names[i]}, answered {names[j]}: {count}" if said else ""
                out.append(element("rect", "hit" if i == j else "miss", title, x=left + j * cell, y=y,
                                   width=cell - gap, height=cell - gap, fill_opacity=f"{strength:.2f}"))  # fmt: skip
                if said and cell >= 22:
                    style = "cell mid on" if strength > 0.55 else "cell mid"
                    out.append(text(str(count), left + (j + 0.5) * cell, y + cell / 2 + 4, style))
    out.append(element("rect", "frame", x=left, y=top, width=cell * n, height=cell * n))
    return svg(out, width, top + cell * n + 4, "true classes down, answers across")
