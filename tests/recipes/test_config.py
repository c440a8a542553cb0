"""What a whole run is told: recipes, files and flags, one above the other, and what makes no sense."""

import json

import pytest
from pydantic import ValidationError

from quorate.cli import main
from quorate.cli.settings import settings_in, toml_of
from quorate.recipes.config import RunConfig
from quorate.recipes.runs import RECIPES, bring_your_own
from quorate.store.phases import Phases
from quorate.store.run import write_config
from quorate.train import Training


@pytest.mark.parametrize("name", RECIPES)
def test_every_recipe_is_a_configuration_that_says_its_name(name):
    config = RECIPES[name].make()
    assert config.recipe == name
    assert RunConfig.model_validate_json(config.model_dump_json()) == config
    assert RunConfig.model_validate(config.model_dump(mode="json")) == config


def test_the_paper_is_followed_where_it_speaks():
    config = RECIPES["cifar10_paper"].make()
    training = config.training
    assert (config.channels, config.cells, config.learner_count) == (36, 20, 3)
    assert (training.rate, training.final_rate, training.momentum, training.weight_decay) == (0.025, 0.001, 0.9, 3e-4)
    assert (training.epochs, training.batch, training.drop_path, training.clip, training.cutout) == (
        600,
        96,
        0.2,
        5,
        16,
    )
    for other in ("cifar100_paper", "imagenet16_paper"):
        assert not RECIPES[other].make().searches
        assert RECIPES[other].make().training == training


def test_one_seed_and_one_calibration_split_are_everywhere():
    config = RunConfig(seed=5, training=Training(calibration=0.25)).seeded()
    assert config.training.seed == config.search.seed == 5
    assert config.search.calibration == 0.25


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"model": ["timm:resnet18"], "learners": 2}, "learners must be as many as there are models, got 2 and 1"),
        ({"model": ["timm:resnet18"], "weights": ["a", "b"]}, "weights must be one for each of 1 models"),
        ({"model": ["a.py:build"], "jobs": 2}, "jobs must be 1 with networks from a file of your own"),
        ({"weights": ["a"]}, "weights must be one for each of 0 models"),
        ({"model": ["timm:resnet18"], "single": True}, "leave genotypes, --match-macs and --single out"),
        ({"genotype": ["DARTS_V1"], "match_macs": "runs/a"}, "give one of genotype, genotypes and match_macs"),
        ({"genotype": ["DARTS_V1", "DARTS_V2"], "learners": 3}, "one for each of 3, got 2"),
        ({"training": {"seed": 3}}, "the run has one seed, 0, got 3 for its training"),
        ({"wish": {"budget": "much"}}, "budget must be a number such as 200M"),
        ({"wish": {"budget": "-5M"}}, "budget must be positive"),
        ({"wish": {"policies": []}}, "policies must name at least one family"),
        ({"wish": {"cost": "milliseconds", "batch": 8}}, "milliseconds of batches of 8"),
        ({"epochs": 3}, "Extra inputs are not permitted"),
    ],
)
def test_what_makes_no_sense_is_refused(fields, said):
    with pytest.raises(ValidationError, match=said):
        RunConfig.model_validate(fields)


def test_a_folder_has_one_name():
    assert RunConfig(data="folder:photos/") == RunConfig(data="folder:photos")


def test_how_many_learners():
    assert RunConfig().learner_count == 3
    assert RunConfig(genotype=("DARTS_V1", "DARTS_V2")).learner_count == 2
    assert RunConfig(genotype=("DARTS_V1",)).learner_count == 3
    assert RunConfig(model=("timm:a", "timm:b")).learner_count == 2
    assert RunConfig(learners=5).learner_count == 5


def test_a_wish_in_words():
    config = RunConfig.model_validate({"wish": {"budget": "1.5M", "cost": "free-running"}})
    assert config.wish.as_wish().budget == 1.5e6
    assert RunConfig().wish.as_wish().max_drop == 0.5


def test_settings_go_to_toml_and_back(tmp_path):
    settings = RECIPES["cifar10_cpu"].make().model_dump(mode="json", exclude_none=True)
    path = tmp_path / "mine.toml"
    path.write_text(toml_of(settings))
    assert RunConfig.model_validate(settings_in(path)) == RECIPES["cifar10_cpu"].make()


@pytest.fixture
def configured(monkeypatch):
    """The configuration that a command line makes, and nothing run."""
    seen = []

    def instead(config, run, *args, **keywords):
        seen.append((config, run))
        return Phases(run / "phases.json", {"train": ("key", 1.5)})

    monkeypatch.setattr("quorate.recipes.phases.run_phases", instead)

    def configure(*tokens):
        seen.clear()
        assert main(["run", *tokens, "--to", "train"]) == 0
        return seen[-1][0]

    configure.seen = seen
    return configure


def test_flags_win_over_the_file_and_the_file_over_the_recipe(configured, tmp_path):
    file = tmp_path / "mine.toml"
    file.write_text('data = "mnist"\nchannels = 12\n[training]\nepochs = 7\nbatch = 32\n')
    plain = configured("digits")
    assert plain == RECIPES["digits"].make()
    config = configured("digits", "--config", str(file), "--training.epochs", "9", "--single=false")
    assert (config.data, config.channels, config.training.epochs, config.training.batch) == ("mnist", 12, 9, 32)
    assert config.training.rate == plain.training.rate  # untouched: the recipe's, not the paper's
    assert config.search == plain.search


@pytest.mark.parametrize("given", [["--exits", "1,3"], ["--exits", "1", "--exits", "3"], ["--config", "exits.toml"]])
def test_exits_are_a_word_or_numbers_of_cells(configured, tmp_path, monkeypatch, given):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "exits.toml").write_text("exits = [1, 3]\n")
    assert configured("digits", *given).exits == (1, 3)
    assert configured("digits", "--exits", "end").exits == "end"


def test_without_a_recipe_the_images_are_the_users(configured):
    config = configured("--data", "folder:photos/cats", "--learners", "5")
    assert config == bring_your_own(models=False).model_copy(update={"data": "folder:photos/cats", "learners": 5})
    assert configured.seen[-1][1].as_posix() == "runs/cats"
    models = configured("--data", "folder:p", "--model", "timm:resnet18", "--model", "a.py:f", "--weights", "none",
                        "--weights", "w.pth")  # fmt: skip
    assert models.model == ("timm:resnet18", "a.py:f")
    assert models.weights == ("none", "w.pth")
    assert models.training.heads_first == 3


def test_seeds_are_runs_of_their_own(configured):
    configured("digits", "--seeds", "3", "--run", "runs/x")
    assert [(config.seed, run.name) for config, run in configured.seen] == [(s, f"x-seed{s}") for s in range(3)]


def test_the_configuration_of_a_run_can_be_repeated_with_other_seeds(configured, tmp_path):
    recorded = RunConfig(seed=3).seeded().model_dump(mode="json")
    write_config(tmp_path / "config.json", {"run": recorded})
    configured("--config", str(tmp_path / "config.json"), "--seeds", "2")
    assert [config.seeded().training.seed for config, _ in configured.seen] == [3, 4]
    assert configured("--config", str(tmp_path / "config.json"), "--seed", "7").seeded().search.seed == 7


def test_a_run_that_stops_early_is_json_too(configured, capsys):
    configured("digits", "--run", "runs/x", "--json")
    assert json.loads(capsys.readouterr().out) == [{"run": "runs/x", "seconds": {"train": 1.5}}]


@pytest.mark.parametrize(
    ("data", "called"),
    [
        ("folder:.", "photos.v2"),
        ("folder:../photos.v2/", "photos.v2"),
        ("arrays:mine.npz", "mine"),
        ("cifar10", "cifar10"),
    ],
)
def test_a_run_is_called_as_its_images(configured, tmp_path, monkeypatch, data, called):
    (tmp_path / "photos.v2").mkdir()
    monkeypatch.chdir(tmp_path / "photos.v2")
    configured("--data", data)
    assert configured.seen[-1][1].as_posix() == f"runs/{called}"


@pytest.mark.parametrize(
    ("tokens", "said"),
    [
        (["nonsense"], "the recipe must be one of digits"),
        ([], "name a recipe"),
        (["digits", "--config", "/nowhere.toml"], "no such file"),
        (["digits", "--training.epochs", "0"], "--settings.training.epochs|training.epochs"),
        (["digits", "--learner", "3"], "Unknown option|learner"),
        (["digits", "--wish.budget", "much"], "^quorate: budget must be a number such as 200M or 1.5G, got 'much'$"),
        (["digits", "--weights", "a"], r"^quorate: weights must be one for each of 0 models .*, got 1$"),
        (["digits", "--seeds", "0"], "seeds must be at least 1"),
        (["digits", "--from", "nowhere"], "from"),
    ],
)
def test_mistakes_are_one_line(tokens, said, capsys):
    import re

    try:
        status = main(["run", *tokens])
    except SystemExit as stopped:  # the parser's way
        status = stopped.code
    assert status == 2
    error = capsys.readouterr().err
    assert re.search(said, " ".join(error.split()))
    assert "Traceback" not in error


def test_recipes_are_listed_and_written(tmp_path, capsys):
    assert main(["recipes"]) == 0
    listed = capsys.readouterr().out
    assert all(name in listed for name in RECIPES)
    assert main(["recipes", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["digits"]["data"] == "digits"
    assert main(["recipes", "digits", "--out", str(tmp_path / "d.toml")]) == 0
    assert RunConfig.model_validate(settings_in(tmp_path / "d.toml")) == RECIPES["digits"].make()
    assert main(["recipes", "nonsense"]) == 2
