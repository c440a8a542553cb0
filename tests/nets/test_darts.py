import copy
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from quorate.errors import QuorateError
from quorate.nets import (
    DARTS_V1,
    DARTS_V2,
    GDAS_V1,
    PC_DARTS_CIFAR,
    DartsLearner,
    Genotype,
    drop_path_at,
    exit_cells,
    load_darts_weights,
    make_operation,
    random_genotype,
    reduction_cells,
    using_forms,
)
from tests.by_definition import nets_darts as slow

from .cases import genotypes, random_weights

GOLDEN = Path(__file__).parent / "darts_v2.npz"


def golden():
    with np.load(GOLDEN) as data:
        arrays = dict(data)
    weights = {k.removeprefix("weight/"): torch.from_numpy(v) for k, v in arrays.items() if k.startswith("weight/")}
    return weights, arrays


def imported(genotype, weights, **sizes):
    learner = DartsLearner(genotype, **sizes)
    load_darts_weights(learner, weights)
    return learner.eval()


@pytest.mark.parametrize(
    ("genotype", "classes", "params"),
    [
        (DARTS_V1, 10, 3_169_414),
        (DARTS_V2, 10, 3_349_342),
        (DARTS_V2, 100, 3_401_272),
        (DARTS_V2, 120, 3_412_812),
    ],
)
def test_parameters_of_the_published_networks(genotype, classes, params):
    with torch.device("meta"):
        learner = DartsLearner(genotype, 36, 20, classes, exits="end")
    assert sum(p.numel() for p in learner.parameters()) == params


@pytest.mark.parametrize(("genotype", "millions"), [(GDAS_V1, 3.4), (PC_DARTS_CIFAR, 3.6)])
def test_other_published_networks_have_the_size_their_papers_say(genotype, millions):
    with torch.device("meta"):
        learner = DartsLearner(genotype, 36, 20, 10, exits="end")
    assert round(sum(p.numel() for p in learner.parameters()) / 1e6, 1) == millions


@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
@pytest.mark.parametrize("forms", ["auto", "plain"])
def test_the_original_network_is_reproduced(layout, forms):
    weights, arrays = golden()
    learner = imported(DARTS_V2, weights, channels=4, cells=8, classes=10).to(memory_format=layout)
    x = torch.from_numpy(arrays["input"]).to(memory_format=layout)
    pooled = []
    for branch in learner.branches:
        branch.cells[-1].register_forward_hook(lambda m, a, out: pooled.append(out.mean((2, 3))))
    with torch.no_grad(), using_forms(forms):
        logits = learner(x)[-1]
    assert np.abs(logits.numpy() - arrays["logits"]).max() < 1e-5
    for exit_, features in enumerate(pooled, start=1):
        assert np.abs(features.numpy() - arrays[f"pooled_exit_{exit_}"]).max() < 1e-5


def test_the_slow_reading_is_the_original_too():
    weights, arrays = golden()
    logits = slow.logits(torch.from_numpy(arrays["input"]), weights, DARTS_V2.normal, DARTS_V2.reduce, 8)
    assert np.abs(logits.numpy() - arrays["logits"]).max() < 1e-5


@pytest.mark.parametrize("stem", ["cifar", "imagenet"])
def test_weights_follow_the_written_order(stem):
    """DARTS_V1 writes its first node as 1, 0: its weights fit that order, and not the canonical one."""
    shapes = slow.shapes(DARTS_V1.normal, DARTS_V1.reduce, channels=4, cells=5, classes=7, stem=stem)
    weights = random_weights(shapes)
    sizes = {"channels": 4, "cells": 5, "classes": 7, "stem": stem}
    x = torch.randn(2, 3, 64, 64, generator=torch.Generator().manual_seed(0))
    wanted = slow.logits(x, weights, DARTS_V1.normal, DARTS_V1.reduce, 5, stem)
    with torch.no_grad():
        ours = imported(DARTS_V1, weights, **sizes)(x)[-1]
        canonical = imported(DARTS_V1.canonical(), weights, **sizes)(x)[-1]
    assert torch.allclose(ours, wanted, atol=1e-4)
    assert not torch.allclose(canonical, wanted, atol=1e-2)


@settings(max_examples=12, deadline=None)
@given(genotypes, st.integers(1, 6), st.sampled_from(["cifar", "imagenet"]), st.booleans())
def test_any_network_is_what_the_slow_reading_says(genotype, cells, stem, training):
    shapes = slow.shapes(genotype.normal, genotype.reduce, channels=2, cells=cells, classes=3, stem=stem)
    weights = random_weights(shapes, seed=cells)
    learner = imported(genotype, weights, channels=2, cells=cells, classes=3, stem=stem).train(training)
    x = torch.randn(3, 3, 32, 64)
    with torch.no_grad():
        found = [branch.cells[-1] for branch in learner.branches]
        seen = []
        for block in found:
            block.register_forward_hook(lambda m, a, out: seen.append(out))
        learner(x)
        wanted = slow.features(x, weights, genotype.normal, genotype.reduce, cells, stem, training)
    for at, ours in zip(learner.exits, seen, strict=True):
        assert torch.allclose(ours, wanted[at], rtol=1e-3, atol=1e-3 * float(wanted[at].abs().max()))


def test_module_prefix_and_auxiliary_head_are_left_out():
    weights, arrays = golden()
    weights = {f"module.{name}": value.numpy() for name, value in weights.items()}
    weights["module.auxiliary_head.features.2.weight"] = np.zeros(3)
    weights["module.stem.1.num_batches_tracked"] = np.zeros(())
    learner = imported(DARTS_V2, weights, channels=4, cells=8, classes=10)
    with torch.no_grad():
        assert np.abs(learner(torch.from_numpy(arrays["input"]))[-1].numpy() - arrays["logits"]).max() < 1e-5


@pytest.mark.parametrize(
    ("change", "sizes", "message"),
    [
        (lambda w: w.pop("cells.3._ops.1.op.1.weight"), {}, "has no weight 'cells.3._ops.1.op.1.weight'"),
        (lambda w: w.update({"cells.9.x": torch.zeros(1)}), {}, "a weight that the learner has not, 'cells.9.x'"),
        (lambda w: None, {"classes": 11}, r"'classifier.weight' must have shape \(11, 64\), got \(10, 64\)"),
        (lambda w: None, {"cells": 7}, "is it of the genotype"),
        (lambda w: None, {"channels": 8}, "is it of 8 channels"),
    ],
)
def test_weights_that_do_not_fit_leave_the_learner_as_it_was(change, sizes, message):
    weights, _ = golden()
    change(weights)
    learner = DartsLearner(DARTS_V2, **{"channels": 4, "cells": 8, "classes": 10, **sizes})
    before = copy.deepcopy(learner.state_dict())
    with pytest.raises(QuorateError, match=message):
        load_darts_weights(learner, weights)
    assert all(torch.equal(before[name], value) for name, value in learner.state_dict().items())


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("stem", ["cifar", "imagenet"])
def test_branches_one_by_one_give_exactly_the_whole(training, stem):
    learner = DartsLearner(random_genotype(np.random.default_rng(1)), 4, 8, 10, stem=stem).train(training)
    x = torch.randn(4, 3, 64, 64)
    state, votes = (x,), []
    for i, branch in enumerate(learner.branches):
        *state, vote = branch(*state)
        assert len(state) == (2 if i < 2 else 0)
        votes.append(vote)
    assert all(torch.equal(a, b) for a, b in zip(votes, learner(x), strict=True))
    assert (learner.num_exits, learner.classes, learner.chained) == (3, 10, True)


def test_reductions_and_exits():
    assert reduction_cells(20) == (6, 13)
    assert exit_cells(20) == (6, 13, 19)
    assert exit_cells(8) == (2, 5, 7)
    assert exit_cells(8, "end") == (7,)
    assert exit_cells(3) == (1, 2)
    assert exit_cells(1) == (0,)
    learner = DartsLearner(DARTS_V2, 4, 6, 10, exits=[0, 3, 5])
    assert [len(branch.cells) for branch in learner.branches] == [1, 3, 2]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: exit_cells(8, [7, 2]), r"in order and each cell once, got \[7, 2\]; try \[2, 7\]"),
        (lambda: exit_cells(8, [2, 2, 7]), "each cell once"),
        (lambda: exit_cells(8, [2, 5]), "the last exit must be after the last cell, 7"),
        (lambda: exit_cells(8, [8]), "cells from 0 to 7"),
        (lambda: exit_cells(8, []), "cells from 0 to 7"),
        (lambda: exit_cells(8, "middle"), "'after_reductions', 'end' or a list"),
        (lambda: exit_cells(0), "at least one cell"),
        (lambda: DartsLearner(DARTS_V2, 0), "channels must be at least 1"),
        (lambda: DartsLearner(DARTS_V2, 4.0), "a whole number, got 4.0"),
        (lambda: DartsLearner(DARTS_V2, 15, 4, stem="imagenet"), "even, got 15; use 14 or 16"),
        (lambda: DartsLearner(DARTS_V2, 4, 4, classes=1), "at least 2 classes, got 1"),
        (lambda: DartsLearner(DARTS_V2, 4, 4, stem="mnist"), "'cifar' or 'imagenet', got 'mnist'"),
        (lambda: DartsLearner(DARTS_V2, 4, 4, drop_path=1.0), r"must lie in \[0, 1\), got 1.0"),
        (lambda: make_operation("skip_connect", 5, 2), "even, got 5; use 4 or 6"),
        (lambda: make_operation("sep_conv_7x7", 4, 1), "must be one of none, "),
        (lambda: make_operation("none", 4, 3), "stride must be 1 or 2, got 3"),
        (lambda: make_operation("none", 0, 1), "channels must be at least 1"),
        (lambda: drop_path_at(7, 6, 0.2), r"must lie in \[0, 6\]"),
        (lambda: drop_path_at(1, 6, 1.2), r"must lie in \[0, 1\), got 1.2"),
    ],
)
def test_sizes_that_cannot_be(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_a_genotype_must_be_one_and_images_numbers():
    with pytest.raises(TypeError, match="see Genotype.from_text"):
        DartsLearner("DARTS_V2")
    for images in (torch.zeros(2, 3, 16, 16, dtype=torch.uint8), np.zeros((2, 3, 16, 16))):
        with pytest.raises(TypeError, match="floating-point numbers, normalised, got"):
            DartsLearner(DARTS_V2, 4, 4)(images)


@pytest.mark.parametrize(
    ("stem", "shape", "message"),
    [
        (
            "cifar",
            (2, 3, 30, 30),
            "30 x 30 cannot be halved 2 times with stem='cifar'; the nearest .* 30 .*: 28 and 32",
        ),
        ("cifar", (2, 3, 32, 33), "nearest sides to 33 that work: 32 and 36"),
        ("cifar", (2, 3, 2, 2), "nearest sides to 2 that work: 4"),
        ("imagenet", (2, 3, 32, 48), "nearest sides to 48 that work: 32 and 61"),
        ("imagenet", (2, 3, 16, 16), "nearest sides to 16 that work: 29"),
        ("cifar", (2, 1, 32, 32), r"must have shape \[N, 3, H, W\], got \(2, 1, 32, 32\)"),
        ("cifar", (3, 32, 32), "must have shape"),
    ],
)
def test_images_that_cannot_be_halved(stem, shape, message):
    learner = DartsLearner(DARTS_V2, 4, 4, stem=stem)
    with pytest.raises(ValueError, match=message):
        learner(torch.zeros(shape))


@given(st.integers(1, 130), st.sampled_from(["cifar", "imagenet"]))
@settings(deadline=None, max_examples=40)
def test_sides_that_are_said_to_work_do(side, stem):
    """The check is exact: it lets a side through where every cell can be computed, and only there."""
    learner = _LEARNERS[stem]
    first = learner.branches[0].stem
    x = torch.zeros(1, 3, side, 64)
    try:
        learner(x)
        worked = True
    except ValueError:
        worked = False
    assert worked == first.works(side)
    if not worked:
        unchecked = copy.deepcopy(learner)
        unchecked.branches[0].stem.checked = lambda x: x
        with pytest.raises(RuntimeError):
            unchecked(x)


_SKIPS = Genotype((("skip_connect", 0), ("skip_connect", 1)) * 4, (("skip_connect", 0), ("max_pool_3x3", 1)) * 4)
_LEARNERS = {stem: DartsLearner(_SKIPS, 2, 4, 2, stem=stem).eval() for stem in ("cifar", "imagenet")}


def test_drop_path_drops_samples_of_an_edge_and_keeps_the_mean():
    learner = DartsLearner(DARTS_V2, 4, 4, drop_path=0.25)
    drop = learner.drop_path
    torch.manual_seed(0)
    y = drop(torch.ones(20_000, 1, 2, 2))
    kept = y[:, 0, 0, 0] > 0
    assert torch.equal(y, (kept / 0.75).view(-1, 1, 1, 1).expand_as(y))
    assert abs(kept.float().mean() - 0.75) < 5 * (0.25 * 0.75 / 20_000) ** 0.5
    learner.eval()
    assert torch.equal(drop(torch.ones(3, 1, 2, 2)), torch.ones(3, 1, 2, 2))


def test_drop_path_is_on_every_kept_edge_but_stride_1_skips():
    """With nearly everything dropped, only what skips carry is left."""
    learner = DartsLearner(DARTS_V2, 2, 4, drop_path=0.5)
    seen = []
    learner.drop_path.register_forward_hook(lambda m, a, out: seen.append(out))
    learner(torch.randn(2, 3, 16, 16))
    skips = sum(op == "skip_connect" for op, _ in DARTS_V2.normal)
    inner = sum(op == "skip_connect" and source >= 2 for op, source in DARTS_V2.reduce)
    assert len(seen) == 2 * (8 - skips) + 2 * (8 - inner)


def test_drop_path_grows_linearly():
    assert [drop_path_at(e, 4, 0.2) for e in range(5)] == pytest.approx([0, 0.05, 0.1, 0.15, 0.2])


def test_drop_path_can_change_without_another_graph():
    """The probability is a tensor: what a recorded step reads changes with it."""
    learner = DartsLearner(DARTS_V2, 2, 4, drop_path=0.1)
    held = learner.drop_path.probability
    learner.set_drop_path(0.9)
    assert held.item() == pytest.approx(0.9)
    assert learner.drop_path.active
    learner.set_drop_path(0.0)
    assert not learner.drop_path.active
    assert "drop_path.probability" not in learner.state_dict()


def test_the_operations_of_a_supernet():
    """Batch norm without parameters, pools followed by it; none gives zeros of the right size."""
    for name in ("sep_conv_5x5", "dil_conv_3x3", "skip_connect"):
        operation = make_operation(name, 4, 2, affine=False)
        assert not any(isinstance(m, torch.nn.BatchNorm2d) and m.affine for m in operation.modules())
    pooled = make_operation("max_pool_3x3", 4, 1, affine=False, pool_norm=True)(torch.randn(8, 4, 6, 6))
    assert torch.allclose(pooled.mean((0, 2, 3)), torch.zeros(4), atol=1e-5)
    assert torch.equal(make_operation("none", 4, 2)(torch.full((1, 4, 5, 5), torch.nan)), torch.zeros(1, 4, 3, 3))


def test_a_copy_and_a_reload_are_the_same_network():
    learner = DartsLearner(DARTS_V1, 4, 5, 10).eval()
    x = torch.randn(2, 3, 16, 16)
    other = DartsLearner(DARTS_V1, 4, 5, 10).eval()
    other.load_state_dict(learner.state_dict())
    for same in (other, copy.deepcopy(learner)):
        assert all(torch.equal(a, b) for a, b in zip(learner(x), same(x), strict=True))


@pytest.mark.parametrize("stem", ["cifar", "imagenet"])
def test_grey_images(stem):
    learner = DartsLearner(DARTS_V2, channels=2, cells=3, classes=4, stem=stem, image_channels=1).eval()
    side = 8 if stem == "cifar" else 32
    assert [tuple(x.shape) for x in learner(torch.zeros(2, 1, side, side))] == [(2, 4)] * learner.num_exits
    with pytest.raises(ValueError, match=r"images must have shape \[N, 1, H, W\], got \(2, 3, 8, 8\)"):
        learner(torch.zeros(2, 3, 8, 8))
    with pytest.raises(ValueError, match="image_channels must be at least 1"):
        DartsLearner(DARTS_V2, channels=2, cells=3, classes=4, image_channels=0)
