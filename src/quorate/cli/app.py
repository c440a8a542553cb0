"""The table of commands. Each is named by import path, so that ``quorate --help`` loads none of them."""

from collections.abc import Sequence

from cyclopts import App, CycloptsError, Parameter
from pydantic import ValidationError

from quorate import __version__

__all__ = ["build", "one_line"]

COMMANDS = {
    "run": ("quorate.cli.run:app", "A whole run: search, train, tune, export, measure, evaluate, report."),
    "recipes": ("quorate.cli.recipes:recipes", "Whole runs by name, and their settings."),
    "replay": ("quorate.cli.replay:replay", "Replay a policy over recorded votes: accuracy, every cost, calibration."),
    "tune": ("quorate.cli.tune:tune", "Choose the cheapest policy that keeps what you wish, and write it to a file."),
    "compare": ("quorate.cli.compare:compare", "Compare every policy on the same recorded votes."),
    "evaluate": ("quorate.cli.evaluate:evaluate", "Evaluate a run: accuracy, every cost, calibration, milliseconds."),
    "report": ("quorate.cli.report:report", "The report of a run as a page, or the tables of several."),
    "export": ("quorate.cli.export:export", "Write a run as a bundle that runs without torch."),
    "predict": ("quorate.cli.predict:predict", "Classify pictures with a bundle: label, confidence, exit, cost."),
    "bench": ("quorate.cli.bench:bench", "Measure what a committee saves in time, and what every branch costs."),
    "info": ("quorate.cli.info:info", "What a run, a bundle, a policy or a file of votes holds."),
    "data": ("quorate.cli.data:app", "Fetch data sets, and look at what one holds."),
    "search": ("quorate.cli.search:app", "Search for a committee of genotypes, and go on where it was stopped."),
    "train": ("quorate.cli.train:app", "Train learners, and go on where a run was stopped."),
    "draw": ("quorate.cli.draw:draw", "Draw a genotype: both cells, with nodes, edges and operations."),
}


def one_line(error: CycloptsError) -> str:
    """A mistake in the flags as one line; of several that pydantic found the first."""
    cause = error.__cause__
    if isinstance(cause, ValidationError):
        first = cause.errors()[0]
        if first["type"] == "value_error":  # our own words, which say what was given
            return f"quorate: {first['ctx']['error']}"
        return f"quorate: --{'.'.join(map(str, first['loc']))}: {first['msg']}, got {first['input']!r}"
    return "quorate: " + " ".join(str(error).split())


def build(tokens: Sequence[str]) -> App:
    """The application; the command that ``tokens`` name tells its help itself, the others only their summary."""
    app = App(
        name="quorate",
        help="Ensembles of early-exit networks that stop as soon as enough of them agree.",
        help_epilogue="`quorate COMMAND --help` shows examples. `--debug` shows the traceback of an error.",
        help_format="markdown",
        version=__version__,
        default_parameter=Parameter(negative=""),
        suppress_keyboard_interrupt=False,
        error_formatter=one_line,
    )
    for name, (path, summary) in COMMANDS.items():
        app.command(path, name=name, help=None if name in tokens[:1] else summary)
    return app
