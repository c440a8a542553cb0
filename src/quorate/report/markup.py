"""HTML from plain values: tables, figures, sections. Text is escaped here, whoever it comes from.

This file knows no result.
"""

from collections.abc import Mapping, Sequence
from html import escape

__all__ = ["Cell", "facts", "figure", "legend", "section", "table", "tile"]

Cell = str | tuple[str, str]
"""What a cell says, and if it likes a smaller line below it."""


def table(
    columns: Sequence[str], rows: Sequence[tuple[str, Sequence[Cell]]], *, name: str = "", numbers: bool = True
) -> str:
    """A table that scrolls sideways where it does not fit; its first column stays.

    Args:
        columns: their heads.
        rows: a class and the cells of each.
        name: the caption.
        numbers: whether all columns but the first are numbers.

    Example:
        >>> table(["a", "b"], [("own", ["<x>", ("1", "of 2")])]).count("&lt;x&gt;")
        1
    """
    head = "".join(f'<th scope="col">{escape(c)}</th>' for c in columns)
    body = []
    for style, cells in rows:
        first, *rest = cells
        said = "".join(f"<td>{_cell(cell)}</td>" for cell in rest)
        body.append(f'<tr class="{escape(style)}"><th scope="row">{_cell(first)}</th>{said}</tr>')
    caption = f"<caption>{escape(name)}</caption>" if name else ""
    kind = "numbers" if numbers else "words"
    return (
        f'<div class="scroll" tabindex="0"><table class="{kind}">{caption}<thead><tr>{head}</tr></thead>'
        f"<tbody>{''.join(body)}</tbody></table></div>"
    )


def _cell(cell: Cell) -> str:
    if isinstance(cell, str):
        return escape(cell)
    return f"{escape(cell[0])}<small>{escape(cell[1])}</small>" if cell[1] else escape(cell[0])


def figure(title: str, drawn: str, says: str, *, style: str = "", above: str = "") -> str:
    """A chart with its title and a sentence that says what to see in it.

    Args:
        title: of the figure.
        drawn: HTML or SVG, taken as it is.
        says: the sentence.
        style: classes.
        above: HTML between title and chart, taken as it is.

    Example:
        >>> figure("Exits", "<svg></svg>", "Most leave at once.")
        '<figure><h3>Exits</h3><svg></svg><figcaption>Most leave at once.</figcaption></figure>'
    """
    said = f' class="{escape(style)}"' if style else ""
    return f"<figure{said}><h3>{escape(title)}</h3>{above}{drawn}<figcaption>{escape(says)}</figcaption></figure>"


def section(name: str, title: str, parts: Sequence[str], lead: str = "") -> str:
    """A part of the page that a link can name; nothing where there are no parts.

    Example:
        >>> section("a", "A", [])
        ''
    """
    if not any(parts):
        return ""
    head = f"<p class='lead'>{escape(lead)}</p>" if lead else ""
    return f'<section id="{escape(name)}"><h2>{escape(title)}</h2>{head}{"".join(parts)}</section>'


def tile(value: str, what: str, more: str) -> str:
    """One number that matters, large.

    Example:
        >>> "<b>97 %</b>" in tile("97 %", "accuracy", "static 97.1 %")
        True
    """
    return f'<div class="tile"><span>{escape(what)}</span><b>{escape(value)}</b><small>{escape(more)}</small></div>'


def legend(entries: Sequence[tuple[str, str]]) -> str:
    """What colours mean: class and name of each.

    Example:
        >>> legend([("x0", "exit 0")]).count("<svg")
        1
    """
    chips = ""
    for style, name in entries:
        patch = f'<rect class="{escape(style)}" width="14" height="14" rx="3"/>'
        chips += f'<span><svg viewBox="0 0 14 14" aria-hidden="true">{patch}</svg>{escape(name)}</span>'
    return f'<div class="legend">{chips}</div>'


def facts(values: Mapping[str, object]) -> str:
    """Names and what they are, two columns; nothing where there are none.

    Example:
        >>> facts({"seed": 0})
        '<dl><dt>seed</dt><dd>0</dd></dl>'
    """
    if not values:
        return ""
    pairs = "".join(f"<dt>{escape(str(k))}</dt><dd>{escape(str(v))}</dd>" for k, v in values.items())
    return f"<dl>{pairs}</dl>"
