"""The exit test: is the panel's agreement significant? Section 4.4 of the paper (Eqs. 7 and 8).

Everything in float64, summed in voting order, whatever the precision of the votes, so that a decision does not depend
on where it is made.

Shapes: ``K`` ranks, ``N`` samples. This file does not know how a panel comes about.
"""

import math
from collections.abc import Sequence
from functools import lru_cache

from quorate.squad.arrays import namespace
from quorate.squad.protocol import Array

__all__ = ["bound_of", "confidence", "critical_values"]

# Student's t at 0.95, one-sided, for 1 to 30 degrees of freedom, so that deciding at the default significance needs
# no scipy. Checked against scipy.special.stdtrit in the tests.
_T95 = (
    6.313751514675037, 2.9199855803537242, 2.3533634348018233, 2.1318467863266495, 2.0150483733330233,
    1.9431802805153042, 1.8945786050900062, 1.8595480375308973, 1.833112932656237, 1.8124611228116756,
    1.7958848187040433, 1.782287555649319, 1.7709333959868725, 1.761310135774891, 1.753050355692572,
    1.7458836762762495, 1.7396067260750725, 1.7340636066175388, 1.7291328115213682, 1.7247182429207866,
    1.720742902811878, 1.7171443743802424, 1.713871527747048, 1.710882079909428, 1.7081407612518986,
    1.7056179197592727, 1.7032884457221265, 1.7011309342659313, 1.6991270265334972, 1.697260886593957,
)  # fmt: skip


def bound_of(panel: Sequence[float], critical: Sequence[float] | None) -> float:
    """The bound of one panel in plain numbers: what :func:`confidence` gives, to the last bit.

    Example:
        >>> round(bound_of([0.99, 0.97], (6.313752,)), 6)
        0.916862
    """
    n, total = len(panel), 0.0
    for c in panel:
        total += c
    mean = total / n
    if critical is None:
        return mean
    squares = 0.0
    for c in panel:
        squares += (c - mean) * (c - mean)
    return mean - critical[n - 2] * math.sqrt(squares / (n - 1)) / math.sqrt(n)


@lru_cache
def critical_values(significance: float, most: int) -> tuple[float, ...]:
    """One-sided critical values ``t(1 - significance, n)`` for ``n = 1 .. most`` degrees of freedom.

    Example:
        >>> [round(t, 6) for t in critical_values(0.05, 4)]
        [6.313752, 2.919986, 2.353363, 2.131847]
    """
    if most < 0:
        raise ValueError(f"degrees of freedom must not be negative, got {most}")
    if significance == 0.05 and most <= len(_T95):
        return _T95[:most]
    try:
        from scipy.special import stdtrit
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            f"a t-test at significance {significance:g} with {most} degrees of freedom needs scipy "
            "(pip install 'quorate[votes]'), or a rule with `critical` values of its own",
            name="scipy",
        ) from error

    return tuple(float(stdtrit(n, 1 - significance)) for n in range(1, most + 1))


def confidence(confidences: Array, panel: Array, critical: Sequence[float] | None = None) -> tuple[Array, Array]:
    """Mean confidence of each panel, and the lower bound that the exit test compares with its threshold.

    ``LCB = mu - t(1 - significance, n - 1) * sd / sqrt(n)`` (Eq. 7), with ``sd`` the unbiased standard deviation of
    the ``n`` confidences. Without ``critical`` the bound is ``mu`` itself.

    Args:
        confidences: ``[K, N]`` float64, in voting order, finite also where nobody voted.
        panel: ``[K, N]`` which of them are on the panel.
        critical: critical values for 1, 2, ... degrees of freedom, at least ``max n - 1`` of them.

    Returns:
        ``(mu, bound)``, ``[N]`` each; an empty panel has 0 and minus infinity, a panel of one no t-bound either.

    Example:
        >>> import numpy as np
        >>> panel = np.array([[True], [True], [False]])
        >>> mean, bound = confidence(np.array([[0.99], [0.97], [0.4]]), panel, critical=(6.313752,))
        >>> round(float(mean[0]), 3), round(float(bound[0]), 6)
        (0.98, 0.916862)
    """
    xp = namespace(confidences)
    on_panel = xp.astype(panel, xp.float64)
    n, total = confidences[0] * 0.0, confidences[0] * 0.0
    for c, on in zip(confidences, on_panel, strict=True):
        n, total = n + on, total + c * on
    some = xp.maximum(n, n * 0 + 1)
    mean = total / some
    if critical is None:
        return mean, xp.where(n == 0, -xp.inf, mean)
    squares = n * 0
    for c, on in zip(confidences, on_panel, strict=True):
        off = (c - mean) * on
        squares = squares + off * off
    alone = n < 2
    sd = xp.sqrt(squares / xp.where(alone, 1.0, n - 1.0))
    table = xp.asarray([0.0, 0.0, *critical], dtype=xp.float64, device=confidences.device)
    t = xp.take(table, xp.astype(n, xp.int64))
    return mean, xp.where(alone, -xp.inf, mean - t * sd / xp.sqrt(some))
