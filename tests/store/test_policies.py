import json

import numpy as np
import pytest
from tests.squad.test_pool import calibration

from quorate.errors import QuorateError
from quorate.squad import Agreement, Cascade, Confidence, Pool, Rule, Scaled, Soft, Static, policy_to_document, replay
from quorate.store import read_policy, write_policy

POLICIES = [
    Rule("t-test", 0.7, 0.1, "all", (3.0, 2.0)), Static(), Confidence(1, 0.3), Cascade(0.2), Soft("breadth", 0.4),
    Agreement(0.5), Scaled(Rule("mean"), [[1.5, 0.3, 1.0], [1.0, 1.0, 2.0]]),
]  # fmt: skip


@pytest.mark.parametrize("policy", POLICIES, ids=str)
def test_a_policy_comes_back_as_it_was(tmp_path, policy):
    write_policy(policy, tmp_path / "p.json", {"why": "because"})
    again, about = read_policy(tmp_path / "p.json")
    assert again == policy
    assert about == {"why": "because"}


def test_a_pool_decides_as_before(tmp_path):
    probs, labels = calibration(300)
    pool = Pool.fit(probs, labels).with_(threshold=0.05)
    write_policy(pool, tmp_path / "p.json")
    again, _ = read_policy(tmp_path / "p.json")
    for a, b in zip(replay(probs, np.ones((2, 3)), pool), replay(probs, np.ones((2, 3)), again), strict=True):
        np.testing.assert_array_equal(a, b)


def test_a_policy_of_ones_own_cannot_be_written(tmp_path):
    class Mine(Rule):
        pass

    with pytest.raises(TypeError, match="only the policies of quorate can be written, got Mine"):
        write_policy(Mine(), tmp_path / "p.json")
    assert not list(tmp_path.iterdir())


def broken(text):
    document = json.loads(text)
    body = {"policy": document["policy"], "about": document["about"]}
    other = {**document, "policy": {**document["policy"], "threshold": 0.5}}
    foreign = {**document, "policy": {"name": "magic"}}
    from quorate.store.policies import _checksum

    unknown = {**document, "policy": {"name": "magic"}, "sha256": _checksum({**body, "policy": {"name": "magic"}})}
    return {
        "cut": (text[:-30], "is not JSON"),
        "empty": ("", "is not JSON"),
        "deep": ("[" * 100_000, "is not JSON"),
        "list": ("[]", "not a policy of quorate"),
        "newer": (json.dumps({**document, "version": 2}), "schema version 2, this quorate reads up to 1: update"),
        "odd version": (json.dumps({**document, "version": "1"}), "impossible schema version '1'"),
        "changed": (json.dumps(other), "does not match its checksum"),
        "foreign": (json.dumps(foreign), "does not match its checksum"),
        "unknown": (json.dumps(unknown), "policy must be one of squad, .* got 'magic'"),
        "no policy": (json.dumps({**document, "policy": None}), "lacks its policy"),
    }


@pytest.mark.parametrize("how", list(broken('{"policy": {}, "about": {}, "sha256": 0}')))
def test_broken_files_are_one_line(tmp_path, how):
    path = tmp_path / "p.json"
    write_policy(Confidence(), path)
    text, message = broken(path.read_text())[how]
    path.write_text(text)
    with pytest.raises(QuorateError, match=message) as caught:
        read_policy(path)
    assert "\n" not in str(caught.value)
    assert str(caught.value).startswith(str(path))


def test_numbers_that_make_no_sense_are_refused(tmp_path):
    from quorate.store.policies import _checksum

    path = tmp_path / "p.json"
    pool = policy_to_document(Pool.fit(*calibration(60)))
    for change in [
        {"weights": [[1]]},
        {"depths": pool["depths"][::-1]},
        {"floor": 7},
        {"path": [5, 5]},
        {"gates": "no"},
    ]:
        body = {"policy": {**pool, **change}, "about": {}}
        path.write_text(json.dumps({"schema": "quorate.policy", "version": 1, "sha256": _checksum(body), **body}))
        with pytest.raises(QuorateError):
            read_policy(path)
