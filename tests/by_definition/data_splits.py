"""Stratified splits read off the method with plain lists and fractions: slow and obvious."""

from fractions import Fraction

import numpy as np


def seats(sizes: list[int], share: Fraction) -> list[int]:
    """Largest remainders: whole parts first, the seats left over to the largest remainders, never a last sample."""
    whole = [int(size * share) for size in sizes]
    wanted = int(sum(sizes) * share + Fraction(1, 2))
    by_remainder = sorted(range(len(sizes)), key=lambda c: (-(sizes[c] * share - whole[c]), c))
    for c in by_remainder[: wanted - sum(whole)]:
        whole[c] += 1
    return [min(seat, size - 1) for seat, size in zip(whole, sizes, strict=True)]


def held_out(labels: list[int], share: Fraction, seed: tuple[int, ...]) -> list[bool]:
    """In every class, the samples with the smallest keys."""
    keys = [int(key) for key in np.random.PCG64(list(seed)).random_raw(len(labels))]
    classes = sorted(set(labels))
    members = [[i for i, label in enumerate(labels) if label == c] for c in classes]
    apart = [False] * len(labels)
    for rows, seat in zip(members, seats([len(rows) for rows in members], share), strict=True):
        for i in sorted(rows, key=lambda i: keys[i])[:seat]:
            apart[i] = True
    return apart
