"""Policies and comparisons that the tests of the engine share."""

import numpy as np
from hypothesis import strategies as st

from quorate.squad import Agreement, Cascade, Confidence, Lattice, Rule, Scaled, Soft, Static, costs, drive
from quorate.squad.path import depth_first
from quorate.squad.replaying import outcome_of
from tests.squad.test_pool import random_pool


@st.composite
def policies(draw, case):
    """Any policy of the library, fit for the committee of a case."""
    num_learners = case.macs.shape[1]
    threshold = draw(st.sampled_from([0.0, 0.4, 0.6, 0.9]))
    kinds = ["mean", "static", "confidence", "cascade", "soft", "agreement", "scaled"]
    kinds += ["t-test"] if num_learners > 1 else []
    kinds += ["pool"] if num_learners <= 4 else []
    kind = draw(st.sampled_from(kinds))
    if kind in ("mean", "t-test"):
        return Rule(kind, threshold, panel=draw(st.sampled_from(["pivot", "all"])))
    if kind == "pool":
        rng = np.random.default_rng(draw(st.integers(0, 999)))
        path = depth_first(case.macs, rng.permutation(num_learners).tolist())
        return random_pool(case, rng).with_(threshold=0.4, path=[divmod(b, num_learners) for b in path])
    if kind == "scaled":
        return Scaled(Rule("mean", threshold), np.linspace(0.5, 2, case.macs.size).reshape(case.macs.shape))
    return {
        "static": Static(),
        "confidence": Confidence(draw(st.integers(0, num_learners - 1)), threshold),
        "cascade": Cascade(threshold),
        "soft": Soft(draw(st.sampled_from(["depth", "breadth"])), threshold),
        "agreement": Agreement(),
    }[kind]


def order_of(macs):
    return np.argsort(macs, axis=1, kind="stable")[:, :, None]


def decide(policy, source, n, macs, classes, dtype, chained=True):
    """What a source makes of a policy: outcome and branches run."""
    lattice = Lattice(macs, order_of(macs), classes, np.empty((0, classes), dtype), chained)
    verdict, ran = drive(policy, source, n, lattice)
    staged = verdict.pivot is not None
    return outcome_of(verdict, costs(verdict.waited, verdict.cast, verdict.asks, macs, staged, chained)), ran


def assert_same(got, wanted, rows=slice(None)):
    """Field by field, exactly."""
    for name in wanted._fields:
        mine, theirs = np.asarray(getattr(got, name)), np.asarray(getattr(wanted, name))
        at = (rows,) if name == "probs" else (..., rows)
        np.testing.assert_array_equal(mine[at].astype(theirs.dtype), theirs[at], err_msg=name)
