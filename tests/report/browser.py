"""A headless Chromium that a test drives over two pipes: the DevTools protocol, with the standard library alone."""

import json
import os
import select
import shutil
import subprocess
import time

FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-extensions",
    "--disable-background-networking", "--disable-component-update", "--disable-sync", "--remote-debugging-pipe",
)  # fmt: skip


def chromium():
    """Where it is, None where it is not installed."""
    return next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)


class Browser:
    """One page; events are kept in the order in which they come."""

    def __init__(self, profile, seconds=30):
        down, self._write = os.pipe()
        self._read, up = os.pipe()
        self._deadline = time.monotonic() + seconds
        command = [
            "bash",
            "-c",
            f'exec "$@" 3<&{down} 4>&{up}',
            "bash",
            chromium(),
            *FLAGS,
            f"--user-data-dir={profile}",
        ]
        self._process = subprocess.Popen(command, pass_fds=(down, up), stdout=subprocess.DEVNULL,
                                         stderr=subprocess.DEVNULL)  # fmt: skip
        os.close(down)
        os.close(up)
        self._buffer, self._number, self._session, self.events = b"", 0, None, []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        os.close(self._write)
        try:
            self._process.wait(5)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        os.close(self._read)

    def _message(self):
        while b"\0" not in self._buffer:
            ready, _, _ = select.select([self._read], [], [], max(0, self._deadline - time.monotonic()))
            data = os.read(self._read, 1 << 16) if ready else b""
            assert data, "Chromium did not answer"
            self._buffer += data
        line, _, self._buffer = self._buffer.partition(b"\0")
        return json.loads(line)

    def call(self, method, **params):
        self._number += 1
        message = {"id": self._number, "method": method, "params": params}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._write, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._message()
            if answer.get("id") == self._number:
                assert "error" not in answer, answer
                return answer["result"]
            self.events.append(answer)

    def open(self, url):
        self.call("Page.navigate", url=url)
        while not any(event.get("method") == "Page.loadEventFired" for event in self.events):
            self.events.append(self._message())

    def run(self, script):
        """What an expression gives, as JSON."""
        answer = self.call("Runtime.evaluate", expression=script, returnByValue=True)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def of(self, method):
        return [event["params"] for event in self.events if event.get("method") == method]
