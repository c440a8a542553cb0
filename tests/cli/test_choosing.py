"""``quorate tune`` and ``quorate compare``."""

import json

import numpy as np
import pytest

from quorate.cli import main
from quorate.squad import replay
from quorate.store import read_policy, read_votes
from tests.cli.test_replay import DIGITS, python


@pytest.fixture(scope="module")
def policy_file(tmp_path_factory):
    path = tmp_path_factory.mktemp("tuned") / "policy.json"
    assert main(["tune", DIGITS, "--max-drop", "1", "--out", str(path)]) == 0
    return path


def test_a_tuned_policy_is_replayed_from_its_file(policy_file, capsys):
    assert main(["replay", DIGITS, "--policy", str(policy_file), "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    policy, about = read_policy(policy_file)
    votes = read_votes(DIGITS).of("test")
    assert document["costs"]["lazy"] == pytest.approx(replay(votes.probs, votes.macs, policy).lazy_macs.mean())
    assert about["split"] == "calibration"
    assert about["wish"]["max_drop"] == 1


def test_tune_says_what_it_promises(capsys):
    assert main(["tune", DIGITS, "--budget", "3k", "--cost", "lazy", "--policies", "squad", "--policies", "soft"]) == 0
    said = capsys.readouterr().out
    assert "split calibration: 600 samples" in said
    assert "95 % interval" in said
    assert "SQUAD, mean" in said
    assert main(["tune", DIGITS, "--budget", "1", "--policies", "squad", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["kept"] is False


def test_a_policy_file_needs_numpy_alone(policy_file, tmp_path):
    votes = read_votes(DIGITS).of("test")
    np.savez(tmp_path / "plain.npz", probs=votes.probs, macs=votes.macs)
    done = python(
        "import sys, numpy as np\n"
        "for name in ('torch', 'scipy', 'pydantic', 'cyclopts', 'rich', 'safetensors'): sys.modules[name] = None\n"
        "from quorate.squad import replay\n"
        "from quorate.store import read_policy\n"
        f"policy, about = read_policy({str(policy_file)!r})\n"
        f"votes = np.load({str(tmp_path / 'plain.npz')!r})\n"
        "print(replay(votes['probs'], votes['macs'], policy).lazy_macs.mean())"
    )
    assert done.returncode == 0, done.stderr
    assert float(done.stdout) == pytest.approx(
        replay(votes.probs, votes.macs, read_policy(policy_file)[0]).lazy_macs.mean()
    )


def test_compare_prints_draws_and_writes(capsys, tmp_path):
    csv, figure = tmp_path / "readings.csv", tmp_path / "curves.svg"
    families = ["--policies", "squad", "--policies", "pool"]
    assert main(["compare", DIGITS, *families, "--csv", str(csv), "--figure", str(figure)]) == 0
    said = capsys.readouterr().out
    assert "each threshold chosen on the 600 calibration samples" in said
    assert "oracle on" in said
    assert "cannot tell the two accuracies apart" in said
    assert csv.read_text().startswith("group,variant,device,allowed,how,cost,drop\n")
    assert "</svg>" in figure.read_text()


def test_compare_of_one_split_is_cross_fitted(capsys, tmp_path):
    votes = read_votes(DIGITS).of("test")
    np.savez(tmp_path / "one.npz", probs=votes.probs, macs=votes.macs, labels=votes.labels)
    assert main(["compare", str(tmp_path / "one.npz"), "--policies", "squad", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["calibration"] is None
    assert main(["compare", str(tmp_path / "one.npz"), "--policies", "squad", "--curve"]) == 0
    assert "the judging samples themselves (optimistic)" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["tune", DIGITS, "--budget", "lots"], "budget must be a number such as 200M or 1.5G, got 'lots'"),
        (["tune", DIGITS, "--out", "no/where.json"], "cannot be written"),
        (["tune", DIGITS, "--cost", "milliseconds"], "hold no milliseconds"),
        (["tune", DIGITS, "--policies", "magic"], "policies must be among static"),
        (["compare", DIGITS, "--csv", "table.txt"], "must end in .json or .csv"),
        (["compare", DIGITS, "--figure", "table.txt", "--policies", "squad"], "must end in .png, .svg or .pdf"),
        (["replay", DIGITS, "--policy", "nowhere.json"], "nowhere.json: cannot be read"),
        (["replay", DIGITS, "--policy", "pool"], "a pool is fitted: `quorate tune VOTES --out policy.json`"),
        (
            ["replay", DIGITS, "--policy", "static", "--threshold", "0.5"],
            "the policy static takes nothing, not --threshold",
        ),
        (["replay", DIGITS, "--sweep", "--threshold", "0.5"], "--sweep tries both criteria"),
    ],
)
def test_mistakes_are_one_line_and_status_2(capsys, arguments, message):
    assert main(arguments) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1


def test_a_flag_that_cannot_be_is_one_line(capsys):
    with pytest.raises(SystemExit) as stopped:
        main(["replay", DIGITS, "--walk", "sideways", "--policy", "soft"])
    assert stopped.value.code == 2
    said = " ".join(capsys.readouterr().err.split())
    assert said == "quorate: --walk: Input should be 'depth', 'breadth' or 'arrival', got 'sideways'"
