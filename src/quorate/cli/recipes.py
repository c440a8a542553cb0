"""``quorate recipes``: whole runs by name."""

import json as json_
from pathlib import Path

from quorate.recipes.runs import RECIPES
from quorate.report.tables import check_place, print_table

__all__ = ["recipes"]


def recipes(name: str | None = None, /, *, out: Path | None = None, json: bool = False) -> None:
    """The recipes of `quorate run`, or all the settings of one of them.

    ```
    quorate recipes
    quorate recipes cifar10_cpu --out mine.toml
    quorate run cifar10_cpu --config mine.toml
    ```

    Args:
        name: of a recipe; by default all are listed.
        out: write the settings of the one named here, as TOML to change and give back with --config.
        json: print JSON.
    """
    if name is None:
        if out is not None:
            raise ValueError("out writes the settings of one recipe: name it, quorate recipes digits --out mine.toml")
        _list(json)
        return
    if name not in RECIPES:
        raise ValueError(f"the recipe must be one of {', '.join(RECIPES)}, got {name!r}")
    from quorate.cli.settings import toml_of

    settings = RECIPES[name].make().model_dump(mode="json", exclude_none=True)
    if json:
        print(json_.dumps(settings, indent=1))
        return
    text = toml_of(settings)
    if out is None:
        print(text)
        return
    check_place(out)
    from quorate.store import write_atomic

    write_atomic(out, text.encode())
    print(f"Written: {out}")


def _list(json: bool) -> None:
    found = {name: recipe.make() for name, recipe in RECIPES.items()}
    about = {
        name: {
            "data": config.data,
            "hardware": RECIPES[name].hardware,
            "time": RECIPES[name].time,
            "learners": config.learner_count,
            "channels": config.channels,
            "cells": config.cells,
            "epochs": config.training.epochs,
        }
        for name, config in found.items()
    }
    if json:
        print(json_.dumps(about, indent=1))
        return
    rows = [[name, *map(str, one.values())] for name, one in about.items()]
    print_table(["recipe", "data", "hardware", "time", "learners", "channels", "cells", "epochs"], rows)
    print("`quorate run RECIPE`; `quorate recipes RECIPE` shows its settings, any of which is a flag.")
