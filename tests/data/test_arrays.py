"""Arrays in memory and in files, and torch data sets."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import TensorDataset

from quorate.data import from_arrays, from_torch, load
from quorate.data.arrays import load_arrays
from quorate.errors import QuorateError

RNG = np.random.default_rng(0)
IMAGES = RNG.integers(0, 256, (20, 6, 5, 3), np.uint8)
LABELS = np.arange(20) % 4


def test_without_a_test_part_a_stratified_fifth_is_held_out() -> None:
    data = from_arrays("toy", IMAGES, LABELS)
    assert sorted(data.test_labels.tolist()) == [0, 1, 2, 3]
    both = {image.tobytes() for image in (*data.train_images, *data.test_images)}
    assert both == {image.tobytes() for image in IMAGES}
    by_image = {image.tobytes(): label for image, label in zip(IMAGES, LABELS, strict=True)}
    assert all(by_image[i.tobytes()] == label for i, label in zip(data.train_images, data.train_labels, strict=True))
    assert not data.mirror


def test_classes_are_whatever_the_labels_are() -> None:
    assert from_arrays("toy", IMAGES, LABELS * 10 + 7).classes == ("7", "17", "27", "37")
    data = from_arrays("toy", IMAGES, np.array(["dog", "cat", "eel", "fox"])[LABELS], IMAGES[:2], ["eel", "cat"])
    assert data.classes == ("cat", "dog", "eel", "fox")
    assert data.test_labels.tolist() == [2, 0]


def test_named_classes_need_numbers() -> None:
    data = from_arrays("toy", IMAGES, LABELS[:, None], classes=["a", "b", "c", "d", "unused"])
    assert data.classes[4] == "unused"
    with pytest.raises(ValueError, match=r"must be 0\.\.3 when classes are named"):
        from_arrays("toy", IMAGES, LABELS.astype(str), classes=list("abcd"))


def test_grey_images_and_many_channels() -> None:
    assert from_arrays("toy", IMAGES[..., 0], LABELS).shape == (6, 5, 1)
    assert from_arrays("toy", np.zeros((20, 6, 5, 12), np.uint8), LABELS).shape == (6, 5, 12)
    assert from_arrays("toy", IMAGES.astype(np.int64).tolist(), LABELS.tolist()).shape == (6, 5, 3)


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"train_images": IMAGES / 255}, r"\(images \* 255\)\.round"),
        ({"train_images": IMAGES.astype(int) + 9}, "beyond that range"),
        ({"train_images": IMAGES.transpose(0, 3, 1, 2)}, r"images\.transpose\(0, 2, 3, 1\)"),
        ({"train_images": IMAGES[0, 0]}, r"or \[N, H, W\], got \[5, 3\]"),
        ({"train_labels": LABELS[:9]}, "got 9 for 20 images"),
        ({"train_labels": LABELS + 0.5}, "one integer or string an image"),
        ({"train_labels": LABELS * 0}, "at least two classes"),
        ({"test_images": IMAGES}, "given together"),
        ({"test_images": IMAGES, "test_labels": LABELS + 1}, "among the training ones, got 4 besides"),
        ({"test_images": IMAGES[:, :4], "test_labels": LABELS}, "like the training images"),
        ({"train_images": IMAGES[:0], "train_labels": LABELS[:0]}, "the training part has no images"),
    ],
)
def test_mistakes_are_told(changed: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        from_arrays("toy", **({"train_images": IMAGES, "train_labels": LABELS} | changed))


@pytest.mark.parametrize(
    "names",
    [
        ("train_images", "train_labels", "test_images", "test_labels"),
        ("x_train", "y_train", "x_test", "y_test"),
        ("images", "labels", "test_images", "test_labels"),
    ],
)
def test_npz_files_of_every_spelling(tmp_path: Path, names: tuple[str, ...]) -> None:
    np.savez(tmp_path / "mine.npz", **dict(zip(names, (IMAGES, LABELS, IMAGES[:4], LABELS[:4, None]), strict=True)))
    data = load(f"arrays:{tmp_path / 'mine.npz'}")
    assert (data.name, len(data.train_labels), data.test_labels.tolist()) == ("mine", 20, [0, 1, 2, 3])


def test_a_pair_of_npy_files(tmp_path: Path) -> None:
    np.save(tmp_path / "i.npy", IMAGES)
    np.save(tmp_path / "l.npy", LABELS)
    data = load(f"arrays:{tmp_path / 'i.npy'},{tmp_path / 'l.npy'}")
    assert len(data.train_labels) == 16
    assert (from_arrays("i", IMAGES, LABELS).train_images == data.train_images).all()


def test_what_is_wrong_with_files_is_told_with_their_name(tmp_path: Path) -> None:
    def told(paths: str) -> str:
        with pytest.raises(QuorateError) as caught:
            load_arrays(paths)
        return str(caught.value)

    assert "no such file" in told(str(tmp_path / "none.npz"))
    (tmp_path / "junk.npz").write_bytes(b"junk")
    assert "junk.npz: no .npz or .npy file of plain arrays" in told(str(tmp_path / "junk.npz"))
    np.savez(tmp_path / "whole.npz", images=IMAGES, labels=LABELS)
    (tmp_path / "cut.npz").write_bytes((tmp_path / "whole.npz").read_bytes()[:700])
    assert "damaged" in told(str(tmp_path / "cut.npz"))
    np.savez(tmp_path / "other.npz", a=IMAGES)
    assert "called train_images, train_labels or x_train, y_train" in told(str(tmp_path / "other.npz"))
    np.savez(tmp_path / "object.npz", images=np.array([{}]), labels=LABELS)
    assert "object.npz: no .npz or .npy file of plain arrays" in told(str(tmp_path / "object.npz"))
    np.save(tmp_path / "i.npy", IMAGES)
    assert "IMAGES.npy,LABELS.npy" in told(str(tmp_path / "i.npy"))
    (tmp_path / "empty.npz").touch()
    assert "empty.npz" in told(str(tmp_path / "empty.npz"))


def test_a_torch_data_set_of_bytes_and_one_of_floats_are_the_same() -> None:
    tensor = torch.from_numpy(IMAGES).permute(0, 3, 1, 2)
    labels = torch.from_numpy(LABELS)
    of_bytes = from_torch("toy", TensorDataset(tensor, labels))
    of_floats = from_torch("toy", TensorDataset(tensor.float() / 255, labels))
    assert (of_bytes.train_images == from_arrays("toy", IMAGES, LABELS).train_images).all()
    assert (of_floats.train_images == of_bytes.train_images).all()


def test_pictures_arrays_and_class_names_of_a_data_set() -> None:
    from PIL import Image

    class Pictures(torch.utils.data.Dataset[tuple[Image.Image, int]]):
        classes = ("a", "b", "c", "d")

        def __len__(self) -> int:
            return 20

        def __getitem__(self, i: int) -> tuple[Image.Image, int]:
            return Image.fromarray(IMAGES[i]), int(LABELS[i])

    data = from_torch("toy", Pictures(), Pictures(), mirror=True)
    assert (data.train_images == IMAGES).all()
    assert (data.test_images == IMAGES).all()
    assert data.classes == Pictures.classes
    arrays = [(image, label) for image, label in zip(IMAGES, LABELS, strict=True)]
    assert (from_torch("toy", arrays, arrays).train_images == IMAGES).all()
    grey = [(torch.zeros(6, 5, dtype=torch.uint8), i % 2) for i in range(10)]
    assert from_torch("toy", grey).shape == (6, 5, 1)


def test_torch_data_sets_that_are_not_plain_images_are_told() -> None:
    labels = torch.arange(10) % 2
    with pytest.raises(ValueError, match="leave out normalisation"):
        from_torch("toy", TensorDataset(torch.randn(10, 3, 4, 4), labels))
    with pytest.raises(ValueError, match=r"training image 1 is \[5, 4, 3\], the first is \[4, 4, 3\]"):
        from_torch("toy", [(np.zeros((4, 4, 3), np.uint8), 0), (np.zeros((5, 4, 3), np.uint8), 1)])
    with pytest.raises(ValueError, match="the training part has no images"):
        from_torch("toy", [])
