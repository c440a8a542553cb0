"""The code blocks of a markdown page: commands with their output, and Python.

``python -m tests.readme README.md`` writes the outputs anew.
"""

import contextlib
import io
import os
import re
import shlex
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
CONSOLE = re.compile(r"```console\n(.*?)```", re.DOTALL)
PYTHON = re.compile(r"```python\n(.*?)```", re.DOTALL)


def run(line):
    """What a command prints, as on a terminal of 80 columns, in the root of the repository."""
    from quorate.cli import main

    printed, here, columns = io.StringIO(), os.getcwd(), os.environ.get("COLUMNS")
    os.chdir(ROOT)
    os.environ["COLUMNS"] = "80"
    try:
        with contextlib.redirect_stdout(printed):
            status = main(shlex.split(line.removeprefix("$ quorate ")))
    finally:
        os.chdir(here)
        os.environ.pop("COLUMNS") if columns is None else os.environ.update(COLUMNS=columns)
    assert status == 0, line
    return printed.getvalue().strip("\n")


def block(commands):
    return "".join(f"{line}\n{run(line)}\n" for line in commands)


def refreshed(text):
    """The page with the outputs of its commands as they are now."""

    def again(match):
        commands = [line for line in match[1].splitlines() if line.startswith("$ ")]
        return f"```console\n{block(commands)}```"

    return CONSOLE.sub(again, text)


if __name__ == "__main__":
    for name in sys.argv[1:]:
        Path(name).write_text(refreshed(Path(name).read_text()))
