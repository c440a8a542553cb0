"""One picture file of any kind and size, as the square of pixels that a data set needs.

Grey, palette, CMYK, 16-bit, transparent and EXIF-rotated files all come out as 8-bit grey or RGB:
turned the way the camera was held, transparency over white, 16 bits scaled to 8, the short side resized to ``side`` and
the middle cropped.

Shapes: ``[side, side, C]`` uint8, ``C`` 1 or 3.

This file does not know folders, classes or labels.
"""

import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from quorate.data.dataset import Images
from quorate.errors import QuorateError

if TYPE_CHECKING:
    from PIL import Image

__all__ = ["is_grey", "picture_endings", "read_picture"]

_FORMATS = ("AVIF", "BMP", "GIF", "JPEG", "JPEG2000", "MPO", "PNG", "PPM", "TGA", "TIFF", "WEBP")
"""What is opened: of Pillow's other formats some call programs (EPS runs Ghostscript), most are no photographs."""
_GREY = {"1", "L", "LA", "La", "I", "I;16", "I;16L", "I;16B", "I;16N"}


def picture_endings() -> frozenset[str]:
    """File name endings of pictures that are read, lower case.

    Example:
        >>> {".jpg", ".png", ".tif", ".webp"} <= picture_endings(), ".eps" in picture_endings()
        (True, False)
    """
    from PIL import Image

    return frozenset(end for end, kind in Image.registered_extensions().items() if kind in _FORMATS)


def is_grey(path: Path) -> bool:
    """Whether a picture has no colours by its very format; reads the header only.

    Example:
        >>> import tempfile
        >>> from PIL import Image
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     Image.new("L", (4, 4)).save(Path(folder) / "a.png")
        ...     is_grey(Path(folder) / "a.png")
        True
    """
    with _opened(path) as image:
        return image.mode in _GREY


def read_picture(path: Path, side: int, channels: int) -> Images:
    """Decode one picture to ``[side, side, channels]``.

    Raises:
        QuorateError: it cannot be read, has a bomb's number of pixels, or pixels that are floating-point numbers,
            whose range nobody knows.

    Example:
        >>> import tempfile
        >>> from PIL import Image
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     Image.new("RGB", (40, 20), (255, 0, 0)).save(Path(folder) / "a.png")
        ...     read_picture(Path(folder) / "a.png", 8, 3)[0, 0]
        array([255,   0,   0], dtype=uint8)
    """
    from PIL import Image, ImageOps

    with _opened(path) as opened:
        opened.draft(None, (2 * side, 2 * side))  # a JPEG decoder may leave out what the resize would drop anyway
        image = _eight_bits(ImageOps.exif_transpose(opened))
        square = ImageOps.fit(image.convert("RGB" if channels == 3 else "L"), (side, side), Image.Resampling.BICUBIC)
    return np.asarray(square, np.uint8).reshape(side, side, channels)


@contextmanager
def _opened(path: Path) -> Iterator["Image.Image"]:
    """An open picture; whatever Pillow raises about it becomes one error that names the file and the reason."""
    from PIL import Image, UnidentifiedImageError

    try:
        Image.init()
        with Image.open(path, formats=[kind for kind in _FORMATS if kind in Image.OPEN]) as image:
            yield image
    except UnidentifiedImageError:
        raise QuorateError(f"{path}: not a picture that can be read") from None
    except (
        Image.DecompressionBombError,
        ArithmeticError,
        LookupError,
        OSError,
        RuntimeError,
        SyntaxError,
        TypeError,
        ValueError,
        struct.error,
    ) as error:  # decoders of damaged files have been seen to raise all of these
        raise QuorateError(f"{path}: {error}") from None


def _eight_bits(image: "Image.Image") -> "Image.Image":
    """Pixels of 16 bits scaled to 8, transparency laid over white."""
    from PIL import Image

    if image.mode == "F":
        raise ValueError("floating-point pixels have no agreed range; save it with 8 or 16 bits")
    if image.mode.startswith("I"):
        scaled = np.clip(np.round(np.asarray(image, np.float32) / 257), 0, 255)
        return Image.fromarray(scaled.astype(np.uint8))
    if image.has_transparency_data:
        layers = image.convert("RGBA")
        return Image.alpha_composite(Image.new("RGBA", image.size, "white"), layers)
    return image
