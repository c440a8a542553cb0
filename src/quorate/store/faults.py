"""One line for whatever is wrong with a file: which file, what is wrong, what to do.

This file does not know what is in the files.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from quorate.errors import QuorateError

__all__ = ["on_disk", "short"]


@contextmanager
def on_disk(path: Path, verb: str = "read") -> Iterator[None]:
    """Whatever a file raises while it is ``read`` or ``written`` becomes one :class:`~quorate.errors.QuorateError`.

    A ``ValueError`` of the code inside should say what is wrong and what to do; the name of the file is put before it.

    Example:
        >>> with on_disk(Path("votes.npz")):
        ...     raise ValueError("holds no votes: record some")
        Traceback (most recent call last):
        quorate.errors.QuorateError: votes.npz: holds no votes: record some
    """
    try:
        yield
    except OSError as error:
        raise QuorateError(
            _line(path, f"cannot be {verb}: {error.strerror or error}; check the path, its permissions and the disk")
        ) from error
    except MemoryError as error:
        raise QuorateError(_line(path, f"cannot be {verb}: it needs more memory than there is")) from error
    except ValueError as error:
        raise QuorateError(_line(path, str(error))) from error


def short(value: object, limit: int = 60) -> str:
    """``repr`` of something found in a file, cut to a length that fits in a line.

    Example:
        >>> short("x" * 100, limit=8)
        "'xxxxxxx..."
    """
    text = repr(value)
    return text if len(text) <= limit else text[:limit] + "..."


def _line(path: Path, text: str) -> str:
    """One printable line, whatever names and bytes a hostile file brought into it."""
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in " ".join(f"{path}: {text}".split()))
