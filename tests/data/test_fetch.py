"""Fetching from a server on this machine: whole, interrupted, resumed, altered, absent."""

import contextlib
import hashlib
import io
import tarfile
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pytest

from quorate.data import fetch as fetching
from quorate.data.fetch import download, fetch
from quorate.data.files import Remote
from quorate.errors import QuorateError

BLOB = np.random.default_rng(0).bytes(1_000_000)
MD5 = hashlib.md5(BLOB, usedforsecurity=False).hexdigest()


class Server(ThreadingHTTPServer):
    """Serves one file; may break off, ignore ranges, or be ill."""

    blob = BLOB
    ranges = True
    break_after: int | None = None  # bytes of a response
    breaks = 0  # responses that break off
    status = 200
    asked: list[str | None]

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/files/a.bin"


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        server, wanted = self.server, self.headers.get("Range")
        server.asked.append(wanted)
        if server.status != 200:
            return self.send_error(server.status)
        begin = int(wanted[6:-1]) if wanted and server.ranges else 0
        if begin >= len(server.blob):
            self.send_response(416)
            self.send_header("Content-Range", f"bytes */{len(server.blob)}")
            return self.end_headers()
        body = server.blob[begin:]
        self.send_response(206 if begin else 200)
        if begin:
            self.send_header("Content-Range", f"bytes {begin}-{len(server.blob) - 1}/{len(server.blob)}")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if server.breaks > 0 and server.break_after is not None:
            server.breaks -= 1
            body = body[: server.break_after]
        with contextlib.suppress(OSError):
            self.wfile.write(body)
        return None

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    for proxy in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(proxy, raising=False)
    monkeypatch.setattr(fetching.time, "sleep", lambda seconds: None)
    with Server(("127.0.0.1", 0), Handler) as running:
        running.asked = []
        thread = threading.Thread(target=running.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield running
        running.shutdown()
        thread.join()


def test_a_file_comes_whole_and_progress_is_told(server: Server, tmp_path: Path) -> None:
    told: list[tuple[str, int, int | None]] = []
    download(server.url, tmp_path / "a.bin", MD5, lambda *piece: told.append(piece))
    assert (tmp_path / "a.bin").read_bytes() == BLOB
    assert told[-1] == ("a.bin", len(BLOB), len(BLOB))
    assert [done for _, done, _ in told] == sorted(done for _, done, _ in told)
    assert [path.name for path in tmp_path.iterdir()] == ["a.bin"]


def test_a_broken_connection_is_taken_up_where_it_broke(server: Server, tmp_path: Path) -> None:
    server.break_after, server.breaks = 300_000, 2
    download(server.url, tmp_path / "a.bin", MD5)
    assert (tmp_path / "a.bin").read_bytes() == BLOB
    assert server.asked == [None, "bytes=300000-", "bytes=600000-"]


def test_a_later_call_goes_on_with_what_an_earlier_one_left(server: Server, tmp_path: Path) -> None:
    server.break_after, server.breaks = 100_000, 4
    with pytest.raises(QuorateError, match=r"broke off 4 times .*400000 bytes are kept"):
        download(server.url, tmp_path / "a.bin", MD5)
    assert not (tmp_path / "a.bin").exists()
    server.asked.clear()
    download(server.url, tmp_path / "a.bin", MD5)
    assert server.asked == ["bytes=400000-"]
    assert (tmp_path / "a.bin").read_bytes() == BLOB


def test_a_server_without_ranges_sends_everything_again(server: Server, tmp_path: Path) -> None:
    server.ranges = False
    (tmp_path / "a.bin.part").write_bytes(BLOB[:5000])
    download(server.url, tmp_path / "a.bin", MD5)
    assert (tmp_path / "a.bin").read_bytes() == BLOB


def test_a_part_that_is_already_whole_is_not_fetched_again(server: Server, tmp_path: Path) -> None:
    (tmp_path / "a.bin.part").write_bytes(BLOB)
    download(server.url, tmp_path / "a.bin", MD5)
    assert (tmp_path / "a.bin").read_bytes() == BLOB


def test_a_part_that_is_too_long_is_started_anew(server: Server, tmp_path: Path) -> None:
    (tmp_path / "a.bin.part").write_bytes(BLOB + b"more")
    download(server.url, tmp_path / "a.bin", MD5)
    assert (tmp_path / "a.bin").read_bytes() == BLOB


def test_a_wrong_checksum_leaves_nothing_behind(server: Server, tmp_path: Path) -> None:
    with pytest.raises(QuorateError, match=f"md5 must be {'0' * 32}, what came has {MD5}"):
        download(server.url, tmp_path / "a.bin", "0" * 32)
    assert not list(tmp_path.iterdir())


def test_a_part_of_another_file_is_found_out_by_the_checksum(server: Server, tmp_path: Path) -> None:
    (tmp_path / "a.bin.part").write_bytes(b"x" * 5000)
    with pytest.raises(QuorateError, match="md5 must be"):
        download(server.url, tmp_path / "a.bin", MD5)
    download(server.url, tmp_path / "a.bin", MD5)
    assert (tmp_path / "a.bin").read_bytes() == BLOB


def test_a_file_that_is_not_there_is_told_at_once(server: Server, tmp_path: Path) -> None:
    server.status = 404
    with pytest.raises(QuorateError, match="the server answers 404 Not Found"):
        download(server.url, tmp_path / "a.bin", MD5)
    assert len(server.asked) == 1


def test_an_ill_server_is_asked_again(server: Server, tmp_path: Path) -> None:
    server.status = 503
    with pytest.raises(QuorateError, match=r"broke off 4 times \(503 Service Unavailable"):
        download(server.url, tmp_path / "a.bin", MD5)
    assert len(server.asked) == 4


def test_no_network_is_said_in_a_sentence(tmp_path: Path) -> None:
    with Server(("127.0.0.1", 0), Handler) as closed:
        url = closed.url
    with pytest.raises(QuorateError, match=r"could not reach 127\.0\.0\.1 \(Connection refused\)\. Is there a network"):
        download(url, tmp_path / "a.bin", MD5)


def archive(members: dict[str, bytes | None]) -> bytes:
    """A tar archive of files; None makes a link to /etc/passwd."""
    memory = io.BytesIO()
    with tarfile.open(fileobj=memory, mode="w:gz") as tar:
        for name, blob in members.items():
            member = tarfile.TarInfo(name)
            if blob is None:
                member.type, member.linkname = tarfile.SYMTYPE, "/etc/passwd"
                tar.addfile(member)
            else:
                member.size = len(blob)
                tar.addfile(member, io.BytesIO(blob))
    return memory.getvalue()


def remote(server: Server, members: dict[str, bytes | None]) -> Remote:
    server.blob = archive(members)
    md5 = hashlib.md5(server.blob, usedforsecurity=False).hexdigest()
    return Remote("toy", ((server.url.replace("a.bin", "toy.tar.gz"), md5),), ("one.bin", "two.txt"))


def test_an_archive_is_unpacked_and_removed(server: Server, tmp_path: Path) -> None:
    toy = remote(server, {"toy/one.bin": b"1", "toy/readme.html": b"no", "toy/two.txt": b"2"})
    folder = fetch(toy, tmp_path)
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == {"one.bin": b"1", "two.txt": b"2"}
    fetch(toy, tmp_path)
    assert len(server.asked) == 1


def test_an_archive_cannot_write_elsewhere(server: Server, tmp_path: Path) -> None:
    fetch(remote(server, {"../../one.bin": b"1", "/two.txt": b"2", "../evil": b"3"}), tmp_path / "root")
    written = {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file()}
    assert written == {"root/toy/one.bin", "root/toy/two.txt"}


def test_links_in_an_archive_are_not_followed(server: Server, tmp_path: Path) -> None:
    with pytest.raises(QuorateError, match=r"lacks one\.bin"):
        fetch(remote(server, {"one.bin": None, "two.txt": b"2"}), tmp_path)
    assert not (tmp_path / "toy" / "one.bin").exists()


def test_an_archive_brought_by_hand_is_checked_and_unpacked(server: Server, tmp_path: Path) -> None:
    toy = remote(server, {"one.bin": b"1", "two.txt": b"2"})
    (tmp_path / "toy").mkdir()
    (tmp_path / "toy" / "toy.tar.gz").write_bytes(server.blob)
    fetch(toy, tmp_path)
    assert not server.asked
    (tmp_path / "toy" / "one.bin").unlink()
    (tmp_path / "toy" / "toy.tar.gz").write_bytes(b"another")
    with pytest.raises(QuorateError, match="md5 of the official file"):
        fetch(toy, tmp_path)


def test_files_that_are_kept_as_they_are_and_already_there_are_left_alone(server: Server, tmp_path: Path) -> None:
    plain = Remote("toy", ((server.url, MD5), (server.url.replace("a.bin", "b.gz"), MD5)))
    (tmp_path / "toy").mkdir()
    (tmp_path / "toy" / "b").write_bytes(b"unpacked by somebody")
    fetch(plain, tmp_path)
    assert len(server.asked) == 1
    assert (tmp_path / "toy" / "a.bin").read_bytes() == BLOB
