import pytest
from pydantic import ValidationError

from quorate.train import TrainConfig, Training


def test_the_defaults_are_the_papers():
    config = TrainConfig()
    assert (config.rate, config.final_rate, config.momentum, config.weight_decay) == (0.025, 0.001, 0.9, 3e-4)
    assert (config.clip, config.batch, config.epochs, config.channels, config.cells) == (5, 96, 600, 36, 20)
    assert config.drop_path == 0.2
    assert (config.label_smoothing, config.distillation, config.average) == (0, 0, 0)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"epoch": 3}, "Extra inputs are not permitted"),
        ({"epochs": 0}, "greater than or equal to 1"),
        ({"rate": float("nan")}, "finite"),
        ({"drop_path": 1.0}, "less than 1"),
        ({"accumulate": 7}, "batch must be a multiple of accumulate, got 96 and 7; try 6 pieces"),
        ({"rate": 0.0005}, "final_rate must not be above rate"),
        ({"exit_weights": (0.0, 0.0)}, "exit_weights must not all be 0"),
        ({"precision": "float16"}, "'auto', 'float32' or 'bfloat16'"),
    ],
)
def test_what_makes_no_sense_is_refused(wrong, said):
    with pytest.raises(ValidationError, match=said):
        Training(**wrong)


def test_genotypes_are_one_for_all_or_one_for_each():
    with pytest.raises(ValidationError, match="one for each of 3, got 2"):
        TrainConfig(genotype=("DARTS_V1", "DARTS_V2"), learners=3)
    with pytest.raises(ValidationError, match="leave genotypes and selector out"):
        TrainConfig(genotype=("DARTS_V1",), selector="svgd")


def test_it_does_not_change_after_it_was_made():
    with pytest.raises(ValidationError, match="frozen"):
        Training().epochs = 3  # type: ignore[misc]
