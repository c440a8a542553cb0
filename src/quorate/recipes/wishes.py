"""From what a configuration says of a wish to a wish.

This file does not know policies.
"""

from quorate.recipes.config import WishConfig
from quorate.squad import Wish

__all__ = ["amount", "wish_of"]


def amount(text: str) -> float:
    """A number with K, M or G behind it.

    Example:
        >>> amount("200M"), amount("1.5k"), amount("12")
        (200000000.0, 1500.0, 12.0)
    """
    units = {"k": 1e3, "m": 1e6, "g": 1e9}
    number, unit = (text[:-1], units[text[-1].lower()]) if text[-1:].lower() in units else (text, 1.0)
    try:
        return float(number) * unit
    except ValueError as error:
        raise ValueError(f"budget must be a number such as 200M or 1.5G, got {text!r}") from error


def wish_of(config: WishConfig) -> Wish:
    """The wish that a configuration describes.

    Example:
        >>> wish_of(WishConfig(budget="200M")).budget
        200000000.0
    """
    budget = None if config.budget is None else amount(config.budget)
    return Wish(max_drop=config.max_drop, budget=budget, cost=config.cost, batch=config.batch)
