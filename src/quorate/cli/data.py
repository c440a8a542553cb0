"""``quorate data``: fetch data sets from where they are published, and look at what one holds."""

import json as json_
import warnings
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from cyclopts import App, Parameter

from quorate.data.dataset import Dataset
from quorate.data.files import default_root
from quorate.data.registry import load, lookup
from quorate.report.tables import percent, print_table

__all__ = ["app"]

app = App(name="data", help="Fetch data sets and look at them.", help_format="markdown")


@app.command
def fetch(name: str, /, *, root: Path | None = None, json: bool = False) -> None:
    """Download a data set from where it is published: resumed, checked, unpacked.

    An interrupted download goes on where it stopped when the command is given again.

    ```
    quorate data fetch cifar10
    quorate data fetch fashion-mnist --root datasets
    ```

    Args:
        name: cifar10, cifar100, fashion-mnist or mnist.
        root: where data sets are kept; by default `$QUORATE_DATA`, else `~/.cache/quorate`.
        json: print JSON.
    """
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

    from quorate.data import fetch as fetching

    origin = lookup(name).origin
    if isinstance(origin, str):
        print(origin)
        return
    place = default_root() if root is None else root.expanduser().absolute()
    columns = TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TimeRemainingColumn()
    with Progress(*columns, console=Console(stderr=True)) as bars:
        tasks: dict[str, TaskID] = {}

        def show_progress(file: str, done: int, total: int | None) -> None:
            if file not in tasks:
                tasks[file] = bars.add_task(file, total=total)
            bars.update(tasks[file], completed=done, total=total)

        folder = fetching.fetch(origin, place, show_progress)
    data = lookup(name).load(place, True)
    if json:
        print(json_.dumps({"folder": str(folder), **_facts(data)}, indent=1))
        return
    print(f"{name}: {len(data.train_labels)} + {len(data.test_labels)} images in {folder}")


@app.command
def show(
    name: str,
    /,
    *,
    root: Path | None = None,
    side: int = 64,
    sheet: Path | None = None,
    verify: Annotated[bool, Parameter(negative="--no-verify")] = True,
    json: bool = False,
) -> None:
    """Print counts, shapes, class balance and channel statistics of a data set; write a contact sheet.

    ```
    quorate data show digits --sheet digits.png
    quorate data show cifar10 --root datasets
    quorate data show folder:photos --side 96
    quorate data show arrays:mine.npz
    ```

    Args:
        name: a data set by name, folder:PATH or arrays:FILE.
        root: where named data sets are kept; by default `$QUORATE_DATA`, else `~/.cache/quorate`.
        side: height and width of images from a folder of pictures.
        sheet: picture file to write, a row of images for each class.
        verify: compare files with the published checksums.
        json: print JSON.
    """
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".* left out: ")  # they are listed below
        data = load(name, root=root, side=side, verify=verify)
    if sheet is not None:
        from quorate.data.sheet import contact_sheet

        contact_sheet(data).save(sheet)
    if json:
        print(json_.dumps({**_facts(data), "sheet": sheet and str(sheet)}, indent=1))
        return
    print("\n".join(_lines(data)))
    _print_balance(data)
    if sheet is not None:
        print(f"contact sheet: {sheet}")


def _facts(data: Dataset) -> dict[str, Any]:
    train, test = _balance(data)
    return {
        "name": data.name,
        "source": data.source,
        "train": len(data.train_labels),
        "test": len(data.test_labels),
        "shape": list(data.shape),
        "mirror": data.mirror,
        "mean": list(data.mean),
        "std": list(data.std),
        "classes": {c: [int(a), int(b)] for c, a, b in zip(data.classes, train, test, strict=True)},
        "left_out": list(data.skipped),
    }


def _lines(data: Dataset) -> list[str]:
    height, width, channels = data.shape
    spread = " ".join(f"{value:.4f}" for value in data.std)
    facts = [
        f"{data.name}: {data.source}",
        f"images: {len(data.train_labels)} to train, {len(data.test_labels)} to test, "
        f"{height}x{width}, {channels} channel{'s' * (channels > 1)}, uint8",
        f"classes: {len(data.classes)}; mirror images {'mean the same' if data.mirror else 'are not used'}",
        f"channel mean {' '.join(f'{value:.4f}' for value in data.mean)}; deviation {spread} (of pixels in 0..1)",
    ]
    return facts + [f"left out: {reason}" for reason in data.skipped]


def _balance(data: Dataset) -> Any:
    return [np.bincount(labels, minlength=len(data.classes)) for labels in (data.train_labels, data.test_labels)]


def _print_balance(data: Dataset) -> None:
    """Every class with its share; of more than 20, the fullest and the emptiest ten."""
    train, test = _balance(data)
    chosen, title = list(range(len(train))), "class balance"
    if len(chosen) > 20:
        ranked = sorted(chosen, key=lambda c: (-train[c], c))
        chosen, title = ranked[:10] + ranked[-10:], "ten fullest, ten emptiest"
    rows = [[data.classes[c], f"{train[c]:,}", percent(train[c] / train.sum()), f"{test[c]:,}"] for c in chosen]
    print_table(["class", "train", "share", "test"], rows, title)
