"""Settings from files beneath the flags: TOML of a user's, the ``config.json`` of a run, the values of a recipe.

This file does not know what is set.
"""

import json
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cyclopts import App, ArgumentCollection
from cyclopts.config import Dict

__all__ = ["beneath", "settings_in", "toml_of"]


def beneath(
    app: App, commands: tuple[str, ...], arguments: ArgumentCollection, table: Mapping[str, Any], source: str
) -> None:
    """Put a table of settings beneath the flags that were given.

    Under the command's own name: a key that is also a command, such as ``data``, would be dropped otherwise.
    """
    Dict({commands[-1]: _without_none(table)}, source=source)(app, commands[-1:], arguments)


def settings_in(path: Path) -> dict[str, Any]:
    """The settings of a TOML file, or of the run that a ``config.json`` belongs to.

    Raises:
        ValueError: no such file, or not one of settings; says what to write.

    Example:
        >>> settings_in(Path("/nowhere.toml"))
        Traceback (most recent call last):
        ValueError: /nowhere.toml: no such file; --config names a TOML file of settings, ...
    """
    if path.is_dir() and (path / "config.json").is_file():
        path = path / "config.json"
    if not path.is_file():
        raise ValueError(f"{path}: no such file; --config names a TOML file of settings, such as `epochs = 30`")
    if path.suffix == ".json":
        from quorate.store.run import read_config

        body = read_config(path)
        if not isinstance(body.get("run"), dict):
            raise ValueError(f"{path}: is of a run that `quorate run` did not make; write a TOML file instead")
        # One seed and one split are of the whole run; its parts take them over, and those given now too.
        return {name: _without_taken(value) for name, value in body["run"].items()}
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(f"{path}: is not TOML ({error}); write `epochs = 30`, one setting a line") from None


def _without_taken(value: Any) -> Any:
    return {k: v for k, v in value.items() if k != "seed"} if isinstance(value, Mapping) else value


def toml_of(settings: Mapping[str, Any]) -> str:
    """Settings as TOML.

    Example:
        >>> print(toml_of({"data": "digits", "training": {"epochs": 3, "mirror": False}}))
        data = "digits"
        <BLANKLINE>
        [training]
        epochs = 3
        mirror = false
    """
    plain = {name: value for name, value in settings.items() if not isinstance(value, Mapping) and value is not None}
    lines = [f"{name} = {json.dumps(value)}" for name, value in plain.items()]
    for name, value in settings.items():
        if isinstance(value, Mapping):
            lines += ["", f"[{name}]", *toml_of(value).splitlines()]
    return "\n".join(lines)


def _without_none(table: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: _without_none(value) if isinstance(value, Mapping) else value
        for name, value in table.items()
        if value is not None
    }
