"""Data sets fetched from where they are published: resumed, checked, unpacked file by file.

A download grows in ``NAME.part`` and continues where it stopped, in this run or in a later one, when the
server can; it takes its name once its md5 is right. Of an archive only the wanted files are taken, by their own names,
so nothing in it can be written anywhere else.

This file does not know what is inside the files, nor how progress is shown.
"""

import http.client
import os
import shutil
import tarfile
import time
import urllib.error
import urllib.request
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias
from urllib.parse import urlsplit

from quorate.data.files import Remote, md5_of, verify_md5
from quorate.errors import QuorateError

__all__ = ["Progress", "download", "fetch"]

Progress: TypeAlias = Callable[[str, int, int | None], None]
"""Told the file, the bytes that are there, and those there will be (None where the server does not say)."""

_CHUNK = 2**18
_ATTEMPTS = 4
_TIMEOUT = 30.0


class _BrokenOffError(Exception):
    """The connection ended early; what has come is kept."""


def fetch(remote: Remote, root: Path, progress: Progress = lambda file, done, total: None) -> Path:
    """Fetch what is not there yet, and return the folder it lies in.

    Args:
        remote: where it is published.
        root: the folder above.
        progress: told about every piece that arrives.

    Raises:
        QuorateError: no network, no such file, a wrong checksum, or an archive that lacks a file.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as root:
        ...     (Path(root) / "toy").mkdir()
        ...     _ = (Path(root) / "toy" / "a.bin").write_bytes(b"here already")
        ...     fetch(Remote("toy", (("https://example.invalid/toy.tar.gz", ""),), ("a.bin",)), Path(root)).name
        'toy'
    """
    folder = root / remote.folder
    if remote.unpack and all((folder / file).is_file() for file in remote.unpack):
        return folder
    for url, md5 in remote.urls:
        path = folder / urlsplit(url).path.rpartition("/")[2]
        unpacked = path.with_suffix("") if path.suffix == ".gz" else path
        if not path.is_file() and not unpacked.is_file():
            download(url, path, md5, progress)
        if remote.unpack:
            verify_md5({path.name: path}, {path.name: md5})
            _unpack(path, folder, remote.unpack)
            path.unlink()
    return folder


def download(url: str, path: Path, md5: str, progress: Progress = lambda file, done, total: None) -> None:
    """Download one file, continuing what an earlier call began.

    Args:
        url: http or https.
        path: where it goes, once it is whole and its checksum right.
        md5: of the whole file.
        progress: told about every piece that arrives.

    Raises:
        QuorateError: no network, no such file, or a wrong checksum.

    Example:
        >>> download("http://localhost:1/a.bin", Path("a.bin"), "")
        Traceback (most recent call last):
        quorate.errors.QuorateError: could not reach localhost (Connection refused). Is there a network? ...
    """
    part = path.with_name(path.name + ".part")
    for attempt in range(_ATTEMPTS):
        before = _size(part)
        try:
            _continue(url, part, progress)
            break
        except _BrokenOffError as error:
            if attempt == _ATTEMPTS - 1:
                raise QuorateError(
                    f"{url}: the connection broke off {_ATTEMPTS} times ({error}); {_size(part)} bytes are kept, "
                    "and the same command goes on from there"
                ) from None
            time.sleep(0 if _size(part) > before else 2**attempt)
    found = md5_of(part)
    if found != md5:
        part.unlink()
        raise QuorateError(
            f"{url}: md5 must be {md5}, what came has {found} and is removed. Fetch again; "
            "if it stays so, the file has been changed where it is published"
        )
    os.replace(part, path)


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def _continue(url: str, part: Path, progress: Progress) -> None:
    """Ask for what is lacking and append it; a server that sends everything again starts the file anew."""
    done = _size(part)
    headers = {"User-Agent": "quorate"} | ({"Range": f"bytes={done}-"} if done else {})
    try:
        response = urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=_TIMEOUT)
    except urllib.error.HTTPError as error:
        if error.code == 416 and done:  # nothing lies behind what is here: whole, or longer than the file
            if error.headers.get("Content-Range") == f"bytes */{done}":
                return
            part.unlink()
            raise _BrokenOffError("it was longer than the file") from None
        if error.code >= 500:
            raise _BrokenOffError(f"{error.code} {error.reason}") from None
        raise QuorateError(f"{url}: the server answers {error.code} {error.reason}") from None
    except (OSError, http.client.HTTPException) as error:
        raise _unreachable(url, part, error) from None
    with response:
        done = done if response.headers.get("Content-Range", "").startswith(f"bytes {done}-") else 0
        length = response.headers.get("Content-Length")
        total = done + int(length) if length else None
        part.parent.mkdir(parents=True, exist_ok=True)
        with part.open("ab" if done else "wb") as file:
            while chunk := _read(response):
                file.write(chunk)
                done += len(chunk)
                progress(part.stem, done, total)
    if total is not None and done < total:
        raise _BrokenOffError(f"{done} of {total} bytes")


def _read(response: http.client.HTTPResponse) -> bytes:
    try:
        return response.read(_CHUNK)
    except (OSError, http.client.HTTPException) as error:
        raise _BrokenOffError(str(error) or type(error).__name__) from None


def _unreachable(url: str, part: Path, error: Exception) -> QuorateError:
    reason = getattr(error, "reason", error)
    words = getattr(reason, "strerror", None) or str(reason) or type(reason).__name__
    return QuorateError(
        f"could not reach {urlsplit(url).hostname} ({words}). Is there a network? Without one, get {url} on another "
        f"machine and put it into {part.parent} as {part.stem}; this command then goes on with it"
    )


def _unpack(archive: Path, folder: Path, wanted: tuple[str, ...]) -> None:
    """Take the wanted regular files out of a tar archive, each written whole or not at all."""
    lacking = set(wanted)
    try:
        with tarfile.open(archive) as tar:
            for member in tar:
                name = member.name.rpartition("/")[2]
                source = tar.extractfile(member) if member.isreg() and name in lacking else None
                if source is not None:
                    with (folder / f"{name}.part").open("wb") as file:
                        shutil.copyfileobj(source, file)
                    os.replace(folder / f"{name}.part", folder / name)
                    lacking.discard(name)
    except (tarfile.TarError, EOFError, zlib.error) as error:
        raise QuorateError(f"{archive}: damaged ({error}); remove it and fetch again") from None
    if lacking:
        raise QuorateError(f"{archive}: lacks {', '.join(sorted(lacking))}; remove it and fetch again")
