"""The table of commands. Each is named by import path, so that ``quorate --help`` loads none of them."""

from cyclopts import App

from quorate import __version__

__all__ = ["app"]

app = App(
    name="quorate",
    help="Ensembles of early-exit networks that stop as soon as enough of them agree.",
    help_epilogue="`quorate COMMAND --help` shows examples. `--debug` shows the traceback of an error.",
    help_format="markdown",
    version=__version__,
    suppress_keyboard_interrupt=False,
)
app.command("quorate.cli.replay:replay", help="Replay a policy over recorded votes: accuracy, every cost, calibration.")
app.command("quorate.cli.draw:draw", help="Draw a genotype: both cells, with nodes, edges and operations.")
