"""Folders of pictures of every kind, and the odd folders people have."""

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from quorate.data.folder import load_folder
from quorate.data.pictures import read_picture
from quorate.errors import QuorateError

RED, BLUE = (250, 5, 5), (5, 5, 250)


def picture(
    path: Path, colour: tuple[int, ...] | int = RED, size: tuple[int, int] = (20, 16), mode: str = "RGB"
) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new(mode, size, colour).save(path)
    return path


def classes(root: Path, count: int = 5) -> Path:
    for i in range(count):
        picture(root / "red" / f"{i}.png", RED)
        picture(root / "blue" / f"{i}.png", BLUE)
    return root


def near(pixels: np.ndarray, colour: tuple[int, ...] | int, within: int = 6) -> bool:
    return bool((abs(pixels.astype(int) - np.array(colour)) <= within).all())


def test_a_stratified_fifth_is_held_out(tmp_path: Path) -> None:
    data = load_folder(classes(tmp_path / "photos"), side=8)
    assert data.classes == ("blue", "red")
    assert (len(data.train_labels), sorted(data.test_labels.tolist())) == (8, [0, 1])
    assert near(data.train_images[data.train_labels == 1], RED)
    assert data.shape == (8, 8, 3)
    assert data.mirror
    assert "short side to 8" in data.source


def test_the_seed_chooses_the_test_part(tmp_path: Path) -> None:
    for i in range(20):
        picture(tmp_path / "a" / f"{i:02}.png", (i, i, i))
        picture(tmp_path / "b" / f"{i:02}.png", (99, 99, i))
    parts = [load_folder(tmp_path, side=4, seed=seed).test_images.tobytes() for seed in (0, 0, 1)]
    assert parts[0] == parts[1] != parts[2]


@pytest.mark.parametrize("name", ["test", "val", "valid", "validation"])
def test_a_test_part_of_its_own_is_used(tmp_path: Path, name: str) -> None:
    classes(tmp_path / "train")
    classes(tmp_path / name, 2)
    data = load_folder(tmp_path, side=8)
    assert (len(data.train_labels), len(data.test_labels)) == (10, 4)


def test_with_test_and_val_the_val_part_joins_the_training_part(tmp_path: Path) -> None:
    for part, count in (("train", 5), ("val", 3), ("test", 2)):
        classes(tmp_path / part, count)
    data = load_folder(tmp_path, side=8)
    assert (len(data.train_labels), len(data.test_labels)) == (16, 4)


def test_classes_may_be_called_train_and_test(tmp_path: Path) -> None:
    picture(tmp_path / "train" / "loco.png")
    picture(tmp_path / "train" / "wagon.png")
    picture(tmp_path / "test" / "tube.png")
    picture(tmp_path / "test" / "glass.png")
    assert load_folder(tmp_path, side=8).classes == ("test", "train")


def test_pictures_lie_in_deeper_folders_too_and_other_files_are_passed_over(tmp_path: Path) -> None:
    classes(tmp_path)
    picture(tmp_path / "red" / "deep" / "er" / "x.PNG")
    (tmp_path / "red" / "notes.txt").write_text("hello")
    (tmp_path / "red" / "._0.png").write_bytes(b"a mac was here")
    (tmp_path / ".cache" / "x").mkdir(parents=True)
    (tmp_path / "readme.md").write_text("hello")
    data = load_folder(tmp_path, side=8)
    assert len(data.train_labels) + len(data.test_labels) == 11
    assert data.skipped == ()


def test_grey_pictures_make_one_channel_unless_one_has_colour(tmp_path: Path) -> None:
    for i in range(4):
        picture(tmp_path / "a" / f"{i}.png", 10, mode="L")
        picture(tmp_path / "b" / f"{i}.png", 200, mode="L")
    assert load_folder(tmp_path, side=8).shape == (8, 8, 1)
    picture(tmp_path / "b" / "red.png", RED)
    data = load_folder(tmp_path, side=8)
    assert data.shape == (8, 8, 3)
    assert near(data.train_images[data.train_labels == 0], (10, 10, 10))


def test_unreadable_pictures_are_listed_by_name(tmp_path: Path) -> None:
    classes(tmp_path)
    (tmp_path / "red" / "empty.jpg").touch()
    (tmp_path / "red" / "text.png").write_text("no picture")
    whole = picture(tmp_path / "blue" / "half.png", size=(300, 300))
    Image.effect_noise((300, 300), 90).save(whole)
    whole.write_bytes(whole.read_bytes()[:3000])
    Image.new("F", (9, 9)).save(tmp_path / "blue" / "float.tiff")
    with pytest.warns(UserWarning, match=r"4 pictures left out: .*red/empty\.jpg"):
        data = load_folder(tmp_path, side=8)
    assert [reason.partition(":")[0] for reason in sorted(data.skipped)] == [
        "blue/float.tiff",
        "blue/half.png",
        "red/empty.jpg",
        "red/text.png",
    ]
    assert any("no agreed range" in reason for reason in data.skipped)
    assert len(data.train_labels) + len(data.test_labels) == 10


def test_a_bomb_of_pixels_is_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    classes(tmp_path)
    picture(tmp_path / "red" / "bomb.png", size=(300, 300))
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 10_000)
    with pytest.warns(UserWarning, match="1 picture left out: red/bomb"):
        assert "decompression bomb" in load_folder(tmp_path, side=8).skipped[0]


def test_a_picture_that_a_program_would_have_to_draw_is_left_out_whatever_its_name(tmp_path: Path) -> None:
    classes(tmp_path)
    Image.new("RGB", (9, 9)).save(tmp_path / "red" / "drawing.eps")
    (tmp_path / "red" / "drawing.eps").rename(tmp_path / "red" / "drawing.png")
    with pytest.warns(UserWarning, match=r"red/drawing\.png: not a picture that can be read"):
        assert len(load_folder(tmp_path, side=8).skipped) == 1


@pytest.mark.parametrize("ending", ["png", "jpg", "gif", "bmp", "tif", "webp"])
@pytest.mark.filterwarnings("ignore")
def test_changed_bytes_are_read_or_refused_never_more(tmp_path: Path, ending: str) -> None:
    rng = np.random.default_rng(0)
    Image.fromarray(rng.integers(0, 256, (20, 24, 3), np.uint8)).save(tmp_path / f"a.{ending}")
    whole = (tmp_path / f"a.{ending}").read_bytes()
    for _ in range(60):
        changed = bytearray(whole[: rng.integers(1, len(whole) + 1)])
        changed[int(rng.integers(len(changed)))] = int(rng.integers(256))
        (tmp_path / f"a.{ending}").write_bytes(changed)
        try:
            assert read_picture(tmp_path / f"a.{ending}", 8, 3).shape == (8, 8, 3)
        except QuorateError as error:
            assert f"a.{ending}" in str(error)  # noqa: PT017


def test_many_unreadable_pictures_are_all_kept_but_not_all_said(tmp_path: Path) -> None:
    classes(tmp_path)
    for i in range(25):
        (tmp_path / "red" / f"bad{i}.jpg").touch()
    with pytest.warns(UserWarning, match="and 15 more"):
        assert len(load_folder(tmp_path, side=8).skipped) == 25


@pytest.mark.filterwarnings("ignore:.*pictures? left out")
def test_odd_folders_are_told(tmp_path: Path) -> None:
    def told(folder: Path) -> str:
        with pytest.raises(QuorateError) as caught:
            load_folder(folder, side=8)
        return str(caught.value)

    assert "no such folder" in told(tmp_path / "nowhere")
    (tmp_path / "empty").mkdir()
    assert "at least two classes; none has any" in told(tmp_path / "empty")
    picture(tmp_path / "one" / "cat" / "a.png")
    (tmp_path / "one" / "dog").mkdir()
    assert "only 'cat' has any" in told(tmp_path / "one")
    picture(tmp_path / "flat" / "a.png")
    assert "none has any" in told(tmp_path / "flat")
    picture(tmp_path / "file.png")
    assert "no such folder" in told(tmp_path / "file.png")
    classes(tmp_path / "strange" / "train")
    picture(tmp_path / "strange" / "test" / "green" / "a.png")
    assert "classes that the training part has not: green" in told(tmp_path / "strange")
    picture(tmp_path / "tiny" / "a" / "a.png")
    picture(tmp_path / "tiny" / "b" / "b.png")
    assert "the test part has no images" in told(tmp_path / "tiny")
    broken = classes(tmp_path / "broken")
    for path in (broken / "red").iterdir():
        path.write_bytes(path.read_bytes()[:60])
    assert "red" in told(broken)


def test_a_side_must_be_positive(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="at least 1, got 0"):
        load_folder(tmp_path, side=0)


def test_the_middle_is_cut_out_of_a_long_picture(tmp_path: Path) -> None:
    path = tmp_path / "long.png"
    long = Image.new("RGB", (300, 20), BLUE)
    long.paste(RED, (140, 0, 160, 20))
    long.save(path)
    assert near(read_picture(path, 20, 3), RED)
    long.transpose(Image.Transpose.ROTATE_90).save(path)
    assert near(read_picture(path, 20, 3), RED)


def test_small_pictures_are_enlarged_and_one_pixel_is_enough(tmp_path: Path) -> None:
    assert near(read_picture(picture(tmp_path / "dot.png", RED, (1, 1)), 16, 3), RED)


@pytest.mark.parametrize(
    ("mode", "ending", "colour", "expected"),
    [
        ("CMYK", "jpg", (0, 0, 0, 0), (255, 255, 255)),
        ("CMYK", "tif", (255, 255, 0, 0), (0, 0, 255)),
        ("L", "jpg", 90, (90, 90, 90)),
        ("1", "png", 1, (255, 255, 255)),
        ("P", "gif", 0, (0, 0, 0)),
        ("I;16", "png", 32896, (128, 128, 128)),
        ("I;16", "tif", 65535, (255, 255, 255)),
        ("I", "tif", 32896, (128, 128, 128)),
        ("RGBA", "png", (255, 0, 0, 0), (255, 255, 255)),
        ("RGBA", "webp", (255, 0, 0, 255), (255, 0, 0)),
        ("LA", "png", (0, 128), (127, 127, 127)),
    ],
)
def test_every_kind_of_file_comes_out_in_colour(
    tmp_path: Path, mode: str, ending: str, colour: tuple[int, ...] | int, expected: tuple[int, ...]
) -> None:
    path = picture(tmp_path / f"a.{ending}", colour, mode=mode)
    assert near(read_picture(path, 8, 3), expected)


@pytest.mark.parametrize(("mode", "colour", "expected"), [("I;16", 32896, 128), ("L", 7, 7), ("LA", (0, 0), 255)])
def test_grey_files_come_out_grey(tmp_path: Path, mode: str, colour: tuple[int, ...] | int, expected: int) -> None:
    got = read_picture(picture(tmp_path / "a.png", colour, mode=mode), 8, 1)
    assert got.shape == (8, 8, 1)
    assert near(got, expected)


def test_a_palette_with_a_transparent_colour_is_laid_over_white(tmp_path: Path) -> None:
    image = Image.new("P", (8, 8), 0)
    image.putpalette([0, 0, 0, 255, 0, 0])
    image.save(tmp_path / "a.gif", transparency=0)
    assert near(read_picture(tmp_path / "a.gif", 8, 3), (255, 255, 255))


@pytest.mark.parametrize("orientation", range(1, 9))
def test_a_camera_held_any_way_gives_an_upright_picture(tmp_path: Path, orientation: int) -> None:
    # Upright: red above, blue below. What a camera stores is the inverse of the turn that the tag asks for.
    upright = Image.new("RGB", (32, 32), BLUE)
    upright.paste(RED, (0, 0, 32, 16))
    t = Image.Transpose
    stored_as = [
        None,
        t.FLIP_LEFT_RIGHT,
        t.ROTATE_180,
        t.FLIP_TOP_BOTTOM,
        t.TRANSPOSE,
        t.ROTATE_90,
        t.TRANSVERSE,
        t.ROTATE_270,
    ][orientation - 1]
    stored = upright if stored_as is None else upright.transpose(stored_as)
    exif = Image.Exif()
    exif[0x0112] = orientation
    stored.save(tmp_path / "a.jpg", exif=exif, quality=95)
    got = read_picture(tmp_path / "a.jpg", 32, 3)
    assert near(got[:12], RED, 40)
    assert near(got[20:], BLUE, 40)
