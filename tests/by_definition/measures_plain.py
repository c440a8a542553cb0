"""The measures read aloud: one sample, one pair, one bin at a time. Slow, obvious, and written from the formulas."""

from fractions import Fraction
from itertools import pairwise, permutations


def ece(confidence, correct, bins):
    total = Fraction(0)
    for m in range(1, bins + 1):
        members = [
            (Fraction(c), r)
            for c, r in zip(confidence, correct, strict=True)
            if (m - 1) / bins < c <= m / bins or (m == 1 and c == 0)
        ]
        if members:
            acc = Fraction(sum(r for _, r in members), len(members))
            conf = sum(c for c, _ in members) / len(members)
            total += Fraction(len(members), len(confidence)) * abs(acc - conf)
    return float(total)


def auroc(confidence, correct):
    pairs = [
        (c, d)
        for c, right in zip(confidence, correct, strict=True)
        for d, other in zip(confidence, correct, strict=True)
        if right and not other
    ]
    return sum(1.0 if c > d else 0.5 if c == d else 0.0 for c, d in pairs) / len(pairs) if pairs else float("nan")


def aurc(confidence, correct):
    """The mean over every order of the samples in which confidence never rises (few samples only)."""
    samples = list(zip(confidence, correct, strict=True))
    areas = []
    for order in permutations(samples):
        if all(a[0] >= b[0] for a, b in pairwise(order)):
            risks = [Fraction(sum(not r for _, r in order[:i]), i) for i in range(1, len(order) + 1)]
            areas.append(sum(risks) / len(risks))
    return float(sum(areas) / len(areas))


def ppd(votes, present):
    """``[E]``: ``votes[e][k][n]``, ``present[e][k][n]``."""
    result = []
    for exit_votes, exit_present in zip(votes, present, strict=True):
        shares = []
        for i in range(len(exit_votes)):
            for j in range(i + 1, len(exit_votes)):
                common = [n for n in range(len(exit_votes[i])) if exit_present[i][n] and exit_present[j][n]]
                if common:
                    shares.append(sum(exit_votes[i][n] != exit_votes[j][n] for n in common) / len(common))
        result.append(sum(shares) / len(shares) if shares else float("nan"))
    return result


def stages_by_rank(pivot, exit, passed, num_learners):
    """``[E][K + 1]`` counts of stages: by rank, and last the forced ones."""
    table = [[0] * (num_learners + 1) for _ in pivot]
    for n, last in enumerate(exit):
        for e in range(last + 1):
            forced = e == last and not passed[n]
            table[e][num_learners if forced else pivot[e][n]] += 1
    return table
