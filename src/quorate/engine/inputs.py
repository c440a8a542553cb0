"""What users bring, as the learners read it: pixels of any layout, kind and size, or tensors as they are.

Shapes: ``N`` samples, ``C`` channels, ``H`` and ``W`` the sides of an image.
This file does not know networks. It needs numpy alone; tensors and pictures are recognised, never imported.
"""

import threading
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, TypeAlias

import numpy as np

from quorate.engine.networks import Array
from quorate.squad.arrays import host
from quorate.store.run import InputSpec

__all__ = ["Prepared", "Tensors", "prepare"]

Tensors: TypeAlias = Array | tuple[Array, ...] | dict[str, Array]
ROUNDING = 1e-3  # how far a float pixel may be outside 0..1, as resizing elsewhere leaves it


class Prepared:
    """The inputs of one call; each size and normalisation is made once, when a learner first asks for it.

    Args:
        n: number of samples.
        pixels: one array or a list of arrays ``[C, H, W]``, or the tensors themselves.
        specs: how each learner sees images; None: as they are.
    """

    def __init__(self, n: int, pixels: Any, specs: Sequence[InputSpec | None]) -> None:
        """See the class."""
        self.n, self._pixels, self._specs = n, pixels, specs
        self._made: dict[InputSpec, Array] = {}
        self._making = threading.Lock()  # workers that ask at once wait for one to make it

    def of(self, learner: int, rows: Array) -> Tensors:
        """What a learner reads, for some samples."""
        spec = self._specs[learner]
        if spec is None:
            tensors: Tensors = self._pixels
        else:
            with self._making:
                if spec not in self._made:
                    self._made[spec] = normal_images(self._pixels, spec)
                tensors = self._made[spec]
        if len(rows) != self.n or (self.n > 1 and not np.array_equal(rows, np.arange(self.n))):
            tensors = _rows(tensors, rows)
        return tensors

    def part(self, start: int, stop: int) -> "Prepared":
        """Some of the samples, nothing made yet."""
        some = slice(start, min(stop, self.n))
        return Prepared(some.stop - start, _rows(self._pixels, some), self._specs)


def prepare(given: Any, specs: Sequence[InputSpec | None]) -> Prepared:
    """Recognise what was given, and check it.

    Args:
        given: for learners of images ``[N, C, H, W]`` or ``[N, H, W, C]``, uint8 in 0..255 or floats in 0..1, numpy or
            torch; a picture, or a list of pictures or of arrays without ``N``, of any sizes. For other learners a
            tensor, or a tuple or dict of tensors with their samples first.
        specs: how each learner sees images; None for tensors as they are.

    Raises:
        TypeError: for what is neither.
        ValueError: for images whose layout or values are not what they must be.

    Example:
        >>> spec = InputSpec(2, 2, 1, (0.5,), (0.5,))
        >>> made = prepare(np.full((3, 2, 2, 1), 255, np.uint8), [spec]).of(0, np.array([0]))
        >>> made.shape, float(made.max())
        ((1, 1, 2, 2), 1.0)
    """
    images = [spec for spec in specs if spec is not None]
    if not images:
        return _as_they_are(given, specs)
    if len(images) < len(specs):
        raise ValueError("either all learners read images or none does: give every one an InputSpec")
    channels = {spec.channels for spec in images}
    if len(channels - {1}) > 1:
        raise ValueError(f"learners of one committee must read images of the same channels, got {sorted(channels)}")
    allowed = {1} if 1 in channels else {1, *channels}
    if _is_picture(given):
        given = [given]
    if isinstance(given, list | tuple):
        pixels = [_checked(_one(image, allowed)) for image in given]
        return Prepared(len(pixels), pixels, specs)
    if not hasattr(given, "shape"):
        raise TypeError(f"images must be arrays, tensors, pictures or a list of them, got {type(given).__name__}")
    array = _checked(host(given))
    if array.ndim != 4:
        raise ValueError(
            f"images must be [N, C, H, W] or [N, H, W, C], got shape {list(array.shape)}; "
            "a single one as images[None] or in a list"
        )
    array = array if _channels_first(array.shape[1:], images[0], allowed) else array.transpose(0, 3, 1, 2)
    return Prepared(len(array), array, specs)


def normal_images(pixels: Any, spec: InputSpec) -> Array:
    """``[N, C, H, W]`` float32: the right size, channels repeated where they are grey, ``(x - mean) / std``.

    Example:
        >>> normal_images(np.ones((1, 1, 4, 4)), InputSpec(2, 2, 3, (0, 0, 1), (1, 1, 1))).tolist()[0][2]
        [[0.0, 0.0], [0.0, 0.0]]
    """
    if isinstance(pixels, list):
        made = [_sized(image[None], spec) for image in pixels]
        x = np.concatenate(made) if made else np.empty((0, spec.channels, spec.height, spec.width), np.float32)
    else:
        x = _sized(pixels, spec)
    mean, std = (np.asarray(v, dtype=np.float32)[:, None, None] for v in (spec.mean, spec.std))
    return np.ascontiguousarray((x - mean) / std)


def _sized(pixels_NCHW: Array, spec: InputSpec) -> Array:
    """Pixels in 0..1 of the right size; whole numbers stay whole numbers, as they were when the learner was trained."""
    x: Array = pixels_NCHW.astype(np.float32)
    height, width = x.shape[2:]
    if height != spec.height:
        x = np.einsum("ij,ncjw->nciw", _triangles(height, spec.height), x, optimize=True)
    if width != spec.width:
        x = np.einsum("ij,nchj->nchi", _triangles(width, spec.width), x, optimize=True)
    if pixels_NCHW.dtype == np.uint8:
        x = np.rint(x) / np.float32(255)
    return x


@lru_cache(maxsize=64)
def _triangles(old: int, new: int) -> Array:
    """``[new, old]``: bilinear weights, widened where the image shrinks so that every pixel counts."""
    scale = old / new
    width = max(scale, 1.0)
    centre = (np.arange(new) + 0.5) * scale - 0.5
    weights = np.maximum(0, 1 - np.abs(np.arange(old) - centre[:, None]) / width)
    made: Array = (weights / weights.sum(1, keepdims=True)).astype(np.float32)
    made.flags.writeable = False
    return made


def _as_they_are(given: Any, specs: Sequence[InputSpec | None]) -> Prepared:
    tensors: Tensors
    parts: list[Array]
    if isinstance(given, Mapping):
        tensors = {str(name): host(value) for name, value in given.items()}
        parts = list(tensors.values())
    elif isinstance(given, list | tuple):
        tensors = tuple(host(value) for value in given)
        parts = list(tensors)
    else:
        tensors = one = host(given)
        parts = [one]
    if not parts or any(not isinstance(part, np.ndarray) or part.ndim < 1 or part.dtype == object for part in parts):
        raise TypeError("inputs must be a tensor, or a tuple or dict of tensors, each with its samples first")
    sizes = {len(part) for part in parts}
    if len(sizes) > 1:
        raise ValueError(f"the tensors of a call must have the same number of samples, got {sorted(sizes)}")
    return Prepared(sizes.pop(), tensors, specs)


def _rows(tensors: Any, rows: Any) -> Any:
    if isinstance(tensors, list):
        return tensors[rows]
    if isinstance(tensors, tuple):
        return tuple(x[rows] for x in tensors)
    if isinstance(tensors, dict):
        return {name: x[rows] for name, x in tensors.items()}
    return tensors[rows]


def _is_picture(given: Any) -> bool:
    return hasattr(given, "getbands") and hasattr(given, "convert")


def _one(image: Any, allowed: set[int]) -> Array:
    """One image as ``[C, H, W]``."""
    if _is_picture(image):
        grey = allowed == {1} or image.mode in ("L", "1")
        image = np.atleast_3d(np.asarray(image.convert("L" if grey else "RGB"))).transpose(2, 0, 1)
    array: Array = host(image)
    if array.ndim == 2:
        array = array[None]
    if array.ndim != 3:
        raise ValueError(f"an image of a list must be [C, H, W], [H, W, C] or [H, W], got shape {list(array.shape)}")
    return array if _channels_first(array.shape, None, allowed) else array.transpose(2, 0, 1)


def _channels_first(shape: tuple[int, ...], spec: InputSpec | None, allowed: set[int]) -> bool:
    first, last = shape[0] in allowed, shape[2] in allowed
    if first and last and spec is not None:
        first, last = shape[1:] == (spec.height, spec.width), shape[:2] == (spec.height, spec.width)
    if first == last:
        what = "either" if first else "neither"
        wanted = " or ".join(str(c) for c in sorted(allowed))
        raise ValueError(
            f"one side of an image must be its channels, {wanted}, as [C, H, W] or [H, W, C]; {what} end of "
            f"{list(shape)} could be"
        )
    return first


def _checked(array: Array) -> Array:
    if array.dtype == np.uint8:
        return array
    if array.dtype.kind != "f":
        raise TypeError(f"pixels must be uint8 in 0..255 or floats in 0..1, got {array.dtype}")
    if array.size and not (array.min() >= -ROUNDING and array.max() <= 1 + ROUNDING):
        raise ValueError(
            f"float pixels must lie in 0..1 before normalisation, got {array.min():g} to {array.max():g}; "
            "pass uint8 for 0..255, and leave normalising to the committee"
        )
    return array
