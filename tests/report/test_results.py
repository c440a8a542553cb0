import json
import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quorate.errors import QuorateError
from quorate.report.answers import answers, confused, confusion
from quorate.report.operating import only
from quorate.report.published import PUBLISHED
from quorate.report.results import parts_of, read_results, results_of, write_results
from quorate.squad import Confidence, Scaled, Static, Votes, fit_temperatures, replay
from tests.readme import ROOT
from tests.report.cases import document, votes


def test_every_policy_stands_there_for_both_devices(results):
    groups = {device: {r["group"] for r in results["policies"] if r["device"] == device}
              for device in ("lazy", "free-running")}  # fmt: skip
    assert groups["lazy"] == groups["free-running"]
    assert {"SQUAD, mean", "SQUAD, t-test", "agreement", "cascade of whole learners", "one learner, confidence",
            "pool, gate, depth-first", "pool, gate, order of arrival"} <= groups["lazy"]  # fmt: skip
    assert len(results["alone"]) == 3
    assert results["own"]["policy"] == "SQUAD, mean above 0.8"


def test_the_static_ensemble_is_its_replay(results):
    judging, choosing = votes(seed=1), votes(seed=2)
    temperatures = fit_temperatures(choosing.probs, choosing.labels)
    outcome = replay(judging.probs, judging.macs, Scaled(Static(), temperatures.tolist()))
    static = results["static"]
    assert static["accuracy"] == (outcome.label == judging.labels).mean()
    assert static["costs"]["lazy"] == judging.macs.sum()
    assert static["costs"]["f-m"] == judging.macs.sum(0).max()
    assert static["cost_errors"]["lazy"] == 0
    assert static["accuracy_error"] == pytest.approx(np.sqrt(static["accuracy"] * (1 - static["accuracy"]) / 240))


def test_a_chosen_point_lies_on_its_sweep(results):
    checked = 0
    for sweep in results["sweeps"]:
        for row in results["policies"]:
            if row["variant"] == sweep["variant"] and row["device"] in sweep["chosen"]:
                at = sweep["chosen"][row["device"]]
                if sweep["thresholds"][at] == pytest.approx(row["threshold"], rel=1e-5):
                    checked += 1
                    assert sweep["accuracy"][at] == pytest.approx(row["accuracy"], rel=1e-5)
                    assert sweep["costs"]["lazy"][at] == pytest.approx(row["costs"]["lazy"], rel=1e-5)
                    assert [left[at] for left in sweep["left"]] == pytest.approx(row["left"], rel=1e-5)
                    assert sweep["forced"][at] == pytest.approx(sum(row["forced"]), abs=1e-6)
    assert checked >= 8


def test_thresholds_do_not_know_the_samples_that_judge(results):
    judging, choosing = votes(seed=1), votes(seed=2)
    other = judging._replace(labels=np.roll(judging.labels, 1))
    again = results_of(other, choosing, max_drop=1.0)
    assert [(r["variant"], r["threshold"]) for r in again["policies"]] == [
        (r["variant"], r["threshold"]) for r in results["policies"]
    ]
    assert again["static"]["accuracy"] != results["static"]["accuracy"]


def test_a_learner_alone_is_a_committee_of_one(results):
    judging = votes(seed=1)
    for k, row in enumerate(results["alone"]):
        whole = float(judging.macs[:, k].sum())
        assert set(row["static"]["costs"].values()) == {whole}
        right = (judging.probs[-1, k].argmax(-1) == judging.labels).mean()
        assert row["static"]["accuracy"] == right == results["learners"][k]["accuracy"][-1]
        assert row["confidence"]["costs"]["eager"] <= whole
    part = only(judging, 2)
    assert replay(part.probs, part.macs, Confidence(0, 0.5)).lazy_macs.mean() <= part.macs.sum()


def test_measured_time_is_one_more_cost():
    times = {1: np.full((2, 3), 2.0), 32: np.full((2, 3), 0.5)}
    timed = document(milliseconds=times)
    assert {r["device"] for r in timed["policies"]} == {"lazy", "free-running", "milliseconds"}
    assert timed["static"]["costs"]["milliseconds"] == 12.0
    for row in timed["policies"]:
        if row["group"] == "SQUAD, mean" and row["kept"]:
            assert row["costs"]["milliseconds"] < 12.0
    chosen = next(
        r for r in timed["policies"] if r["device"] == "milliseconds" and r["group"] == "cascade of whole learners"
    )
    assert "in an order of its own" in chosen["policy"]
    sweep = next(s for s in timed["sweeps"] if s["group"] == "SQUAD, mean")
    row = next(r for r in timed["policies"] if r["group"] == "SQUAD, mean" and r["device"] == "lazy")
    if sweep["thresholds"][sweep["chosen"]["lazy"]] == pytest.approx(row["threshold"], rel=1e-5):
        assert sweep["costs"]["milliseconds"][sweep["chosen"]["lazy"]] == pytest.approx(row["costs"]["milliseconds"])


@pytest.mark.parametrize(("num_exits", "num_learners"), [(1, 1), (2, 1), (1, 3)])
def test_small_committees(num_exits, num_learners):
    size = {"num_exits": num_exits, "num_learners": num_learners}
    found = results_of(votes(seed=1, **size), votes(seed=2, **size))
    assert len(found["learners"]) == num_learners
    assert json.loads(json.dumps(found, allow_nan=False))["exits"] == num_exits


def test_absent_branches_are_told_apart():
    there = np.ones((2, 3, 240), bool)
    there[0, 2] = False
    found = document(present=there)
    assert found["learners"][2]["accuracy"][0] is None
    assert found["learners"][2]["ece"][0] is None
    assert found["learners"][1]["accuracy"][0] is not None


def test_what_is_written_is_read_again(results, tmp_path):
    write_results(tmp_path / "report" / "results.json", results)
    read = read_results(tmp_path / "report" / "results.json")
    assert read == json.loads(json.dumps(results))
    text = (tmp_path / "report" / "results.json").read_text()
    (tmp_path / "newer.json").write_text(text.replace('"version": 1', '"version": 2', 1))
    with pytest.raises(QuorateError, match="has schema version 2"):
        read_results(tmp_path / "newer.json")
    (tmp_path / "changed.json").write_text(text.replace('"samples": 240', '"samples": 241', 1))
    with pytest.raises(QuorateError, match="checksum"):
        read_results(tmp_path / "changed.json")


@pytest.mark.parametrize(
    ("names", "asked", "sizes", "where"),
    [
        (None, {}, (120, 120), "half of the samples, drawn by class"),
        (["calibration", "test"], {}, (120, 120), "calibration"),
        (["calibration", "a", "b"], {}, (160, 80), "calibration"),
        (["a", "b", "test"], {"calibration": "a"}, (80, 80), "a"),
        (["a", "b", "test"], {"split": "b"}, (40, 40), "half of the samples, drawn by class"),
    ],
)
def test_which_samples_judge(names, asked, sizes, where):
    split = None if names is None else np.resize(names, 240)
    judging, choosing, told = parts_of(votes(split=split), **asked)
    assert (len(judging.labels), len(choosing.labels)) == sizes
    assert told["calibration"] == where


def test_nobody_judges_what_was_chosen_on():
    split = np.repeat(["calibration"], 240)
    with pytest.raises(ValueError, match="must be different samples"):
        parts_of(votes(split=split), split="calibration")
    with pytest.raises(ValueError, match="no samples but those of 'calibration'"):
        parts_of(votes(split=split))
    with pytest.raises(ValueError, match="of the same committee"):
        results_of(votes(), votes(num_exits=1))


@settings(deadline=None, max_examples=50)
@given(st.integers(1, 30), st.integers(2, 5), st.integers(0, 2**32 - 1))
def test_answers_are_counted(n, classes, seed):
    rng = np.random.default_rng(seed)
    labels, answered = rng.integers(classes, size=n), rng.integers(-1, classes, size=n)
    table = confusion(labels, answered, classes)
    for i in range(classes):
        for j in range(classes):
            assert table[i][j] == sum(a == i and b == j for a, b in zip(labels, answered, strict=True))
        assert table[i][classes] == sum(a == i and b == -1 for a, b in zip(labels, answered, strict=True))
    wrong = [(c, i, j) for i in range(classes) for j in range(classes) if i != j and (c := table[i][j])]
    assert [c for *_, c in confused(table, 3)] == sorted((c for c, *_ in wrong), reverse=True)[:3]
    told = answers(labels, answered, rng.random(n), classes)
    assert sum(b["samples"] for b in told["reliability"] if b) == n
    assert sum(one["samples"] for one in told["per_class"]) == n


def test_the_published_figures_are_those_of_the_documentation():
    text = (ROOT / "docs" / "paper.md").read_text()
    said = set(re.findall(r"\d+\.\d\d", text[text.index("For comparison. Accuracy") :]))
    for one in PUBLISHED.values():
        for row in one.rows:
            assert {f"{x:.2f}" for x in (row.accuracy, row.f_m, row.f_mt)} <= said, row
        assert {f"{x:.2f}" for x in (*one.ppd, one.ppd_nesbs, *one.exit_ece)} <= said


def test_votes_of_nobody_are_refused():
    with pytest.raises(ValueError, match="at least 10 samples"):
        results_of(votes(), Votes(np.ones((2, 3, 3, 4)) / 4, np.zeros(3, int), votes().macs))
