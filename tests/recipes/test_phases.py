"""What is done is skipped, what changed is done again, what would be another run is refused."""

import pytest

from quorate.errors import QuorateError
from quorate.recipes.config import RunConfig, WishConfig
from quorate.recipes.phases import PHASES, phase_keys, run_phases
from quorate.store.phases import Phases
from quorate.store.run import RunFolder, held, read_config
from quorate.train import Training
from tests.train.cases import toy


class Watched:
    """Phases that note what they did, and may stop in the middle."""

    def __init__(self):
        self.did, self.stop, self.loaded = [], None, 0

    def works(self):
        def work(name):
            def do(work):
                self.did.append(name)
                if self.stop == name:
                    raise KeyboardInterrupt

            return do

        return {name: work(name) for name in PHASES}

    def data(self):
        self.loaded += 1
        return toy()

    def run(self, folder, config=RunConfig(), **keywords):  # noqa: B008 - frozen
        self.did = []
        run_phases(config, folder, self.works(), self.data, **keywords)
        return self.did


def test_everything_is_done_once(tmp_path):
    watched = Watched()
    assert watched.run(tmp_path) == list(PHASES)
    assert watched.run(tmp_path) == []
    assert watched.loaded == 1  # nothing to do, nothing to read
    assert set(Phases.read(RunFolder(tmp_path).phases).seconds) == set(PHASES)
    assert read_config(RunFolder(tmp_path).config)["run"]["data"] == "digits"


@pytest.mark.parametrize("where", PHASES)
def test_stopped_anywhere_it_goes_on_there(tmp_path, where):
    watched = Watched()
    watched.stop = where
    with pytest.raises(KeyboardInterrupt):
        watched.run(tmp_path)
    watched.stop = None
    assert watched.run(tmp_path) == list(PHASES[PHASES.index(where) :])


@pytest.mark.parametrize("begin", PHASES)
def test_from_a_phase_on_it_is_done_again(tmp_path, begin):
    watched = Watched()
    watched.run(tmp_path)
    assert watched.run(tmp_path, begin=begin) == list(PHASES[PHASES.index(begin) :])
    assert watched.run(tmp_path) == []


def test_to_a_phase_and_then_the_rest(tmp_path):
    watched = Watched()
    assert watched.run(tmp_path, end="train") == ["search", "train"]
    assert watched.run(tmp_path) == list(PHASES[2:])


def test_another_wish_is_tuned_anew_and_nothing_is_trained(tmp_path):
    watched = Watched()
    watched.run(tmp_path)
    other = RunConfig(wish=WishConfig(max_drop=2))
    assert watched.run(tmp_path, other) == list(PHASES[2:])
    assert read_config(RunFolder(tmp_path).config)["run"]["wish"]["max_drop"] == 2


def test_where_it_runs_does_not_matter(tmp_path):
    watched = Watched()
    watched.run(tmp_path)
    assert watched.run(tmp_path, RunConfig(threads=1, jobs=3, device="cpu", root="/elsewhere")) == []


@pytest.mark.parametrize(
    ("changes", "said", "first"),
    [
        ({"training": Training(epochs=3)}, "training.epochs was 600, is 3", "train"),
        ({"seed": 1}, "seed was 0, is 1", "search"),
        ({"data": "mnist"}, "data was 'digits', is 'mnist'", "search"),
        ({"channels": 4}, "channels was 16, is 4", "train"),
    ],
)
def test_another_run_is_refused_and_done_when_asked(tmp_path, changes, said, first):
    watched = Watched()
    watched.run(tmp_path)
    other = RunConfig(**changes)
    with pytest.raises(QuorateError, match=f"holds another run .*{said}.*--from {first}"):
        watched.run(tmp_path, other)
    assert watched.run(tmp_path, other, begin=first) == list(PHASES[PHASES.index(first) :])


def test_from_train_nothing_old_is_left(tmp_path):
    watched = Watched()
    watched.run(tmp_path)
    place = RunFolder(tmp_path)
    for file in (place.weights(0), place.votes, place.bundle / "manifest.json", place.tuning, place.search / "g.json"):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("old")
    watched.run(tmp_path, begin="train")
    assert not any(path.exists() for path in (place.weights(0), place.votes, place.bundle, place.tuning))
    assert (place.search / "g.json").exists()


@pytest.mark.parametrize(
    ("begin", "left"),
    [
        ("report", {"frontier.svg", "bench.json", "results.json"}),
        ("evaluate", {"frontier.svg", "bench.json"}),
        ("export", {"frontier.svg"}),
        ("tune", set()),
    ],
)
def test_a_phase_done_again_keeps_what_those_before_it_wrote_into_the_report(tmp_path, begin, left):
    watched = Watched()
    watched.run(tmp_path)
    report = RunFolder(tmp_path).report
    report.mkdir()
    for name in ("frontier.svg", "bench.json", "results.json", "index.html"):
        (report / name).write_text("old")
    watched.run(tmp_path, begin=begin)
    assert {path.name for path in report.iterdir()} == left


def test_nothing_is_removed_of_another_run(tmp_path):
    watched = Watched()
    watched.run(tmp_path)
    place = RunFolder(tmp_path)
    place.bundle.mkdir()
    with pytest.raises(QuorateError, match="holds another run"):
        watched.run(tmp_path, RunConfig(seed=1), begin="export")
    assert place.bundle.exists()
    assert watched.run(tmp_path) == []


def test_nothing_is_removed_for_images_that_are_not_there(tmp_path):
    watched = Watched()
    watched.run(tmp_path)
    place = RunFolder(tmp_path)
    place.weights(0).parent.mkdir(parents=True)
    place.weights(0).write_text("hours of work")

    def missing():
        raise QuorateError("no such data")

    with pytest.raises(QuorateError, match="no such data"):
        run_phases(RunConfig(data="nowhere"), tmp_path, watched.works(), missing, begin="search")
    assert place.weights(0).exists()
    assert watched.run(tmp_path) == []


def test_a_run_that_was_made_otherwise_is_refused(tmp_path):
    from quorate.store.run import write_config

    write_config(RunFolder(tmp_path).config, {"training": {}})
    with pytest.raises(QuorateError, match="was not made by `quorate run`"):
        Watched().run(tmp_path)


def test_two_at_once_are_refused(tmp_path):
    from concurrent.futures import ThreadPoolExecutor

    with (
        held(tmp_path),
        ThreadPoolExecutor(1) as elsewhere,
        pytest.raises(QuorateError, match="another process is writing there"),
    ):
        elsewhere.submit(Watched().run, tmp_path).result()


def test_unknown_phases_are_refused(tmp_path):
    with pytest.raises(ValueError, match="a phase must be one of search, train"):
        Watched().run(tmp_path, end="nowhere")
    with pytest.raises(ValueError, match="must not come after the last, got from tune to train"):
        Watched().run(tmp_path, begin="tune", end="train")


def test_the_keys_of_a_phase_are_those_of_what_it_needs():
    plain, cheap, costly = (
        phase_keys(c) for c in (RunConfig(), RunConfig(wish=WishConfig(batch=2)), RunConfig(cells=5))
    )
    assert [name for name in PHASES if plain[name] == cheap[name]] == ["search", "train"]
    assert [name for name in PHASES if plain[name] == costly[name]] == ["search"]


def test_a_policy_tuned_by_hand_is_exported_anew(tmp_path):
    from quorate.store.phases import Phases

    watched = Watched()
    watched.run(tmp_path)
    Phases.read(RunFolder(tmp_path).phases).forget(list(PHASES[3:]))  # as tuning does
    assert watched.run(tmp_path) == list(PHASES[3:])
