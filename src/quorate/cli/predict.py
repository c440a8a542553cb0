"""``quorate predict``: what a bundle says of pictures, as CSV or JSON lines."""

import csv
import io
import json as json_
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import numpy as np

from quorate.data.pictures import picture_endings, read_picture
from quorate.engine.committee import Committee
from quorate.engine.loading import load
from quorate.errors import QuorateError
from quorate.store import write_atomic

__all__ = ["predict"]

COLUMNS = ("file", "label", "confidence", "exit", "passed", "lazy")


def predict(
    bundle: Path,
    images: list[Path],
    /,
    *,
    out: Path | None = None,
    source: Literal["lazy", "eager", "parallel", "auto"] = "lazy",
    backend: Literal["onnxruntime", "openvino"] | None = None,
    batch: int = 32,
    threads: int | None = None,
    json: bool = False,
) -> None:
    """Classify pictures with a bundle: label, confidence, exit and lazy cost in MACs, a line for each. Needs no torch.

    ```
    quorate predict bundle/ cat.jpg dog.png
    quorate predict bundle/ photos/ --out answers.csv
    quorate predict bundle/ photos/ --json --batch 128
    ```

    Pictures are read as data sets of pictures are: turned upright, the short side resized, the middle cropped.

    Args:
        bundle: its folder.
        images: picture files, and folders of them.
        out: write here instead of printing: .csv or .jsonl.
        source: lazy runs what a vote needs, eager whole exits, parallel learners at once; auto is the one that
            `quorate bench` found the fastest here.
        backend: who runs the branches; by default onnxruntime.
        batch: how many pictures are decided together.
        threads: how many each branch may use; by default all that this process may.
        json: JSON lines instead of CSV.
    """
    if out is not None and (out.suffix not in (".csv", ".jsonl") or not out.absolute().parent.is_dir()):
        raise ValueError(f"the output must be a .csv or .jsonl file in a folder that exists, got {out}")
    if batch < 1:
        raise ValueError(f"batch must be at least 1, got {batch}")
    committee = load(bundle, backend=backend, source=source, threads=threads)
    files = pictures_of(images)
    rows = answers(committee, files, batch)
    lines = json_lines(rows) if json or (out is not None and out.suffix == ".jsonl") else csv_lines(rows)
    if out is None:
        for line in lines:
            print(line)
    else:
        write_atomic(out, ("\n".join(lines) + "\n").encode())
        print(f"Written: {out}", file=sys.stderr)


def pictures_of(paths: list[Path]) -> list[Path]:
    """The files named, and the pictures in the folders named, at any depth, sorted.

    Raises:
        QuorateError: a path is not there, or there is no picture at all.
    """
    endings, files = picture_endings(), []
    for path in paths:
        if path.is_dir():
            files += sorted(file for file in path.rglob("*") if file.suffix.lower() in endings and file.is_file())
        elif path.exists():
            files.append(path)
        else:
            raise QuorateError(f"{path}: no such file or folder; give pictures, or folders of them")
    if not files:
        raise QuorateError(f"{', '.join(map(str, paths))}: no pictures there; their names must end in .jpg, .png or so")
    return files


def answers(committee: Committee, files: list[Path], batch: int) -> Iterator[dict[str, Any]]:
    """A row per picture that can be read; what cannot be is said on standard error.

    Raises:
        QuorateError: none could be read.
    """
    specs = [spec for spec in committee.inputs if spec is not None]
    if not specs:
        raise QuorateError("this bundle does not read pictures: call it in Python with the tensors that it reads")
    side = max(max(spec.height, spec.width) for spec in specs)
    channels = min(spec.channels for spec in specs)
    read = 0
    for start in range(0, len(files), batch):
        good, pixels = [], []
        for file in files[start : start + batch]:
            try:
                pixels.append(read_picture(file, side, channels))
                good.append(file)
            except QuorateError as error:
                print(f"quorate: left out: {error}", file=sys.stderr)
        if good:
            read += len(good)
            yield from rows_of(committee, good, np.stack(pixels))
    if not read:
        raise QuorateError(f"none of the {len(files)} pictures could be read")


def rows_of(committee: Committee, files: list[Path], pixels: Any) -> Iterator[dict[str, Any]]:
    """What the committee says of one batch."""
    answer = committee(pixels)
    for i, file in enumerate(files):
        label = int(answer.label[i])
        yield {
            "file": str(file).encode(errors="backslashreplace").decode(),  # names may be no text
            "label": committee.classes[label] if label >= 0 else None,
            "confidence": round(float(answer.confidence[i]), 6),
            "exit": int(answer.exit[i]),
            "passed": bool(answer.passed[i]),
            "lazy": float(answer.lazy_macs[i]),
        }


def json_lines(rows: Iterator[dict[str, Any]]) -> Iterator[str]:
    """One JSON object per row."""
    for row in rows:
        yield json_.dumps(row, allow_nan=False)


def csv_lines(rows: Iterator[dict[str, Any]]) -> Iterator[str]:
    """A header, and one line per row."""
    yield ",".join(COLUMNS)
    for row in rows:
        yield _csv_line(row)


def _csv_line(row: dict[str, Any]) -> str:
    buffer = io.StringIO()
    csv.DictWriter(buffer, COLUMNS, lineterminator="").writerow(row)
    return buffer.getvalue()
