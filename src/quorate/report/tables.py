"""Tables in the terminal, and the same rows as JSON or CSV. This file knows no policy: only numbers and names."""

import csv
import io
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from quorate.store import write_atomic

__all__ = ["check_output", "check_place", "macs", "percent", "print_table", "write_rows"]


def macs(cost: float | None, unit: float | None = None) -> str:
    """A cost with about four digits, in millions from ``unit`` (or its own size) a million upward.

    Example:
        >>> macs(1234.5), macs(36_200_000), macs(None), macs(900, unit=36_200_000)
        ('1,234', '36.20 M', '-', '0.00 M')
    """
    if cost is None:
        return "-"
    if abs(cost if unit is None else unit) >= 1e6:
        return f"{cost / 1e6:,.2f} M"
    return f"{cost:,.0f}" if abs(cost) >= 100 else f"{cost:.4g}"


def percent(share: float | None, digits: int = 2) -> str:
    """A share in per cent.

    Example:
        >>> percent(0.9305), percent(None)
        ('93.05 %', '-')
    """
    return "-" if share is None else f"{100 * share:.{digits}f} %"


def print_table(columns: Sequence[str], rows: Sequence[Sequence[str]], title: str | None = None) -> None:
    """Print rows under right-aligned columns, the first one left-aligned."""
    from rich import box
    from rich.console import Console
    from rich.table import Table

    table = Table(box=box.SIMPLE, pad_edge=False)
    for i, column in enumerate(columns):
        table.add_column(column, justify="left" if i == 0 else "right", no_wrap=True)
    for row in rows:
        table.add_row(*row)
    console = Console(highlight=False)
    needed = console.measure(table, options=console.options.update(width=1000)).maximum
    console.width = max(console.width, needed)  # a cropped number is worse than a long line
    with console.capture() as printed:
        console.print(table)
    lines = [line.rstrip() for line in printed.get().splitlines()]
    print("\n".join([*([title] if title else []), *lines]))


def check_output(path: Path | None) -> None:
    """Refuse a file that :func:`write_rows` could not write, before the work is done."""
    if path is not None and path.suffix not in (".json", ".csv"):
        raise ValueError(f"the name of an output file must end in .json or .csv, got {path.name!r}")
    check_place(path)


def check_place(path: Path | None) -> None:
    """Refuse a file that nothing could be written to, before the work is done."""
    if path is not None and not path.absolute().parent.is_dir():
        raise ValueError(f"{path}: cannot be written: there is no folder {path.absolute().parent}")
    if path is not None and path.absolute().is_dir():
        raise ValueError(f"{path}: cannot be written: it is a folder")


def write_rows(path: Path, rows: Sequence[Mapping[str, Any]], document: Mapping[str, Any]) -> None:
    """Write ``rows`` as CSV, or ``document`` as JSON, by the name's ending.

    Raises:
        QuorateError: the file cannot be written.
    """
    if path.suffix == ".json":
        text = json.dumps(document, indent=1, allow_nan=False) + "\n"
    else:
        buffer = io.StringIO()
        writer = csv.DictWriter(buffer, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
        text = buffer.getvalue()
    write_atomic(path, text.encode())
