"""On what: images by class, read once into a frozen value, and split the same way on every machine.

Read in this order: :mod:`~quorate.data.dataset` (what a data set is), :mod:`~quorate.data.splits`, the readers
(:mod:`~quorate.data.digits`, :mod:`~quorate.data.idx`, :mod:`~quorate.data.cifar`, :mod:`~quorate.data.imagenet16`,
:mod:`~quorate.data.folder`, :mod:`~quorate.data.arrays`), and :mod:`~quorate.data.registry`, which finds them by name.
"""

from quorate.data.arrays import from_arrays, from_torch
from quorate.data.dataset import Dataset
from quorate.data.registry import load
from quorate.data.splits import Splits, split

__all__ = ["Dataset", "Splits", "from_arrays", "from_torch", "load", "split"]
