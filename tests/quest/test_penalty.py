"""Costs in closed form against costs that are counted, and what the penalty does with them."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.utils.flop_counter import FlopCounterMode

from quorate.nets import (
    PRIMITIVES,
    DartsLearner,
    count_macs,
    genotype_macs,
    make_operation,
    operation_macs,
    random_genotype,
)
from quorate.quest.concrete import hard_choice
from quorate.quest.decode import decode_choice
from quorate.quest.penalty import cost_table, expected_macs, penalty, reference_macs
from quorate.quest.supernet import TABLE


@pytest.mark.parametrize("name", PRIMITIVES)
@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize(("channels", "side"), [(2, 4), (16, 32), (36, 8)])
def test_operations_cost_what_is_counted(name, stride, channels, side):
    operation = make_operation(name, channels, stride, affine=False, pool_norm=True).to("meta").eval()
    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        operation(torch.empty(1, channels, side, side, device="meta"))
    assert operation_macs(name, channels, stride, side) == counter.get_total_flops() // 2


@settings(max_examples=12, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    channels=st.sampled_from([2, 6, 16]),
    cells=st.integers(1, 9),
    side=st.sampled_from([8, 16, 32]),
    classes=st.integers(2, 100),
    exits=st.sampled_from(["after_reductions", "end"]),
    image_channels=st.sampled_from([1, 3]),
)
def test_genotypes_cost_what_is_counted(seed, channels, cells, side, classes, exits, image_channels):
    genotype = random_genotype(np.random.default_rng(seed))
    with torch.device("meta"):
        learner = DartsLearner(genotype, channels, cells, classes, exits=exits, image_channels=image_channels)
    counted = count_macs(learner, (image_channels, side, side))
    more = {"exits": exits, "image_channels": image_channels}
    assert genotype_macs(genotype, channels, cells, side, classes, **more) == counted


def test_exits_may_be_named_by_their_cells():
    genotype = random_genotype(np.random.default_rng(0))
    whole = genotype_macs(genotype, 4, 8, 16, exits="end")
    apart = genotype_macs(genotype, 4, 8, 16, exits=[1, 7])
    assert sum(apart) == sum(whole) + 8 * 4 * 10 // 2  # the head after cell 1: 16 features, 10 classes
    assert len(apart) == 2


def test_the_table_of_a_genotype_is_its_cost_without_stem_inputs_and_heads():
    from quorate.nets import Genotype
    from quorate.quest.decode import choice_of

    genotype = random_genotype(np.random.default_rng(5))
    free = Genotype(
        [("max_pool_3x3", source) for _, source in genotype.normal], [("max_pool_3x3", s) for _, s in genotype.reduce]
    )
    table = cost_table(8, 8, 32)
    Z = torch.nn.functional.one_hot(torch.tensor(choice_of(genotype)), 8).double()
    wanted = sum(genotype_macs(genotype, 8, 8, 32)) - sum(genotype_macs(free, 8, 8, 32))
    assert int(expected_macs(Z, table)) == wanted


def test_expected_macs_are_the_mean_over_architectures():
    logits, table = torch.randn(TABLE, dtype=torch.float64), cost_table(4, 5, 16)
    noise = (
        -torch.empty(20_000, *TABLE, dtype=torch.float64).exponential_(generator=torch.Generator().manual_seed(0)).log()
    )
    Z = torch.nn.functional.one_hot(hard_choice(logits, noise), 8).double()
    each = (Z * table).flatten(1).sum(1)
    assert abs(each.mean() - expected_macs(logits.softmax(-1), table)) < 4 * each.std() / 20_000**0.5


def test_the_relative_form_carries_over_between_sizes_and_the_linear_one_does_not():
    q = torch.randn(TABLE, dtype=torch.float64).softmax(-1)
    small, large = cost_table(16, 8, 16), cost_table(16, 8, 32)
    relative = [float(penalty(q, table, reference_macs(table))) for table in (small, large)]
    assert relative[0] == pytest.approx(relative[1])
    linear = [float(penalty(q, table, 1.0, "linear")) for table in (small, large)]
    assert linear[1] == pytest.approx(4 * linear[0])


def test_the_papers_penalty_hardly_presses():
    """METHOD: 35 in millions for the uniform table of its search, 0.035 with its weight, against a loss of about 7."""
    table = cost_table(16, 8, 32)
    uniform = torch.full(TABLE, 1 / 8, dtype=torch.float64)
    assert 1e-3 * float(penalty(uniform, table, 1.0, "linear")) == pytest.approx(0.035, abs=1e-4)


def test_decoding_a_choice_keeps_its_operations():
    choice = torch.full((2, 14), PRIMITIVES.index("dil_conv_5x5"))
    assert {name for name, _ in decode_choice(choice, torch.zeros(TABLE)).normal} == {"dil_conv_5x5"}
