import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from quorate.engine import Lazy
from quorate.engine.recorded import RecordedNetworks
from quorate.squad import Lattice
from tests.by_definition import engine_lazy
from tests.engine.cases import decide, order_of, policies
from tests.squad.cases import committees


@settings(max_examples=80, deadline=None)
@given(committees(max_learners=4, max_exits=3, orders=False), st.booleans(), st.data())
def test_a_batch_runs_what_its_samples_would_run_alone(case, chained, data):
    policy = data.draw(policies(case))
    num_exits, num_learners, n, classes = case.probs.shape
    probs = case.probs if case.present is None else np.where(case.present[..., None], case.probs, np.nan)
    source = Lazy(RecordedNetworks(probs, chained=chained), None, n)
    got, ran = decide(policy, source, n, case.macs, classes, case.probs.dtype, chained)
    lattice = Lattice(case.macs, order_of(case.macs), classes, np.empty((0, classes)), chained)
    useful, wasted = np.zeros(case.macs.shape, int), np.zeros(case.macs.shape, int)
    for i in range(n):
        said = [
            [None if np.isnan(probs[e, k, i]).any() else probs[e, k, i].tolist() for k in range(num_learners)]
            for e in range(num_exits)
        ]
        verdict, mine, lost = engine_lazy.run(policy, lattice, said, np)
        assert (verdict.label[0], verdict.exit[0]) == (got.label[i], got.exit[i])
        for e, k in mine:
            useful[e, k] += 1
        for e, k in lost:
            wasted[e, k] += 1
    np.testing.assert_array_equal(ran, useful)
    np.testing.assert_array_equal(source.progress.processed - ran, wasted)
