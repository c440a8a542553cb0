"""``quorate data`` as a person calls it."""

import hashlib
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from quorate.cli import main
from quorate.data.registry import REGISTRY, Entry
from quorate.data.sheet import contact_sheet


def test_show_prints_the_facts_and_writes_a_sheet(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["data", "show", "digits", "--sheet", str(tmp_path / "digits.png")]) == 0
    said = capsys.readouterr().out
    assert "1438 to train, 359 to test, 8x8, 1 channel, uint8" in said
    assert "channel mean 0.3053; deviation 0.3758" in said
    assert "10.15 %" in said
    with Image.open(tmp_path / "digits.png") as sheet:
        assert sheet.width > 12 * 48


def test_show_lists_the_fullest_and_emptiest_of_many_classes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    labels = np.repeat(np.arange(30), np.arange(2, 32))
    np.savez(tmp_path / "many.npz", x=np.zeros((len(labels), 4, 4, 2), np.uint8), y=labels)
    assert main(["data", "show", f"arrays:{tmp_path / 'many.npz'}", "--sheet", str(tmp_path / "m.png")]) == 0
    said = capsys.readouterr().out
    assert "ten fullest, ten emptiest" in said
    assert "2 channels" in said


def test_show_lists_what_was_left_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("cat", "dog"):
        for i in range(5):
            (tmp_path / name).mkdir(exist_ok=True)
            Image.new("RGB", (9, 9)).save(tmp_path / name / f"{i}.png")
    (tmp_path / "dog" / "[bold]bad.png").touch()
    assert main(["data", "show", f"folder:{tmp_path}", "--side", "16"]) == 0
    assert "left out: dog/[bold]bad.png" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("tokens", "words"),
    [
        (["show", "cifar10"], "quorate: cifar10 is not in"),
        (["show", "nope"], "data must be one of"),
        (["fetch", "folder:x"], "data must be one of"),
        (["show", "folder:/nowhere"], "no such folder"),
    ],
)
def test_mistakes_are_one_line_and_status_2(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], tokens: list[str], words: str
) -> None:
    root = ["--root", str(tmp_path)] if tokens[0] == "show" else []
    assert main(["data", *tokens, *root]) == 2
    said = capsys.readouterr().err
    assert words in said
    assert said.count("\n") == 1


def test_fetch_says_where_what_cannot_be_fetched_comes_from(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["data", "fetch", "digits"]) == 0
    assert "come with the package" in capsys.readouterr().out
    assert main(["data", "fetch", "imagenet16-120"]) == 0
    assert "NATS-Bench" in capsys.readouterr().out


def test_fetch_brings_a_data_set_and_reads_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from tests.data.test_idx import write

    from quorate.data import fetch as fetching
    from quorate.data.files import Remote
    from quorate.data.idx import load_mnist

    write(tmp_path / "published" / "mnist", compressed=True)
    published = sorted((tmp_path / "published" / "mnist").iterdir())
    urls = tuple(
        (f"http://example.invalid/{path.name}", hashlib.md5(path.read_bytes(), usedforsecurity=False).hexdigest())
        for path in published
    )
    monkeypatch.setitem(REGISTRY, "mnist", Entry(load_mnist, Remote("mnist", urls)))  # type: ignore[misc]

    def copied(url: str, part: Path, progress: fetching.Progress) -> None:
        part.parent.mkdir(parents=True, exist_ok=True)
        part.write_bytes((tmp_path / "published" / "mnist" / url.rpartition("/")[2]).read_bytes())
        progress(part.stem, part.stat().st_size, part.stat().st_size)

    monkeypatch.setattr(fetching, "_continue", copied)
    assert main(["data", "fetch", "mnist", "--root", str(tmp_path / "root")]) == 0
    assert "mnist: 20 + 10 images in" in capsys.readouterr().out


def test_help_needs_no_torch_and_show_none_either(tmp_path: Path) -> None:
    for tokens in (["--help"], ["data", "show", "digits", "--sheet", str(tmp_path / "d.png")]):
        code = f"import sys; from quorate.cli import main; main({tokens!r}); sys.exit('torch' in sys.modules)"
        subprocess.run([sys.executable, "-c", code], check=True, stdout=subprocess.DEVNULL)


def test_a_sheet_has_a_row_for_each_class_and_its_first_images() -> None:
    from quorate.data import from_arrays

    images = np.zeros((40, 48, 48, 3), np.uint8)
    images[1::2] = 255
    sheet = contact_sheet(from_arrays("toy", images, np.arange(40) % 2, images, np.arange(40) % 2), columns=3)
    pixels = np.asarray(sheet)
    assert pixels.shape[0] == 2 * 50 + 2
    assert (pixels[10, -40] == 0).all()
    assert (pixels[60, -40] == 255).all()
