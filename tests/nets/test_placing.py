"""Places for exits, found by what a network spends."""

import itertools

import pytest
import torch
from torch import nn

from quorate.nets import attach_exits, count_macs, even_exits, timm_input, timm_learner, timm_model
from quorate.nets.describing import build_network, describe_network


@pytest.mark.parametrize("exits", [2, 3, 4])
def test_equal_blocks_are_shared_equally(exits):
    model = nn.Sequential(*(nn.Sequential(nn.Linear(16, 16), nn.ReLU()) for _ in range(12)), nn.Linear(16, 3))
    x = torch.randn(2, 16)
    names = even_exits(model, exits, classes=3, sample=x)
    assert names == [str(12 * e // exits - 1) for e in range(1, exits)]
    learner = attach_exits(model, names, classes=3, sample=x)
    assert learner.num_exits == exits
    assert torch.equal(learner(x)[-1], model(x))


class Twice(nn.Module):
    """Its middle is run twice, so that no exit can stand after it."""

    def __init__(self):
        super().__init__()
        self.first, self.middle, self.last = nn.Linear(8, 8), nn.Linear(8, 8), nn.Linear(8, 3)

    def forward(self, x):
        return self.last(self.middle(self.middle(self.first(x))))


def test_what_runs_twice_is_no_place():
    assert even_exits(Twice(), 2, classes=3, sample=torch.randn(2, 8)) == ["first"]


def test_where_nothing_can_be_cut_it_says_what_was_tried():
    with pytest.raises(ValueError, match=r"no place for 4 exits was found in a Twice .* name the submodules"):
        even_exits(Twice(), 4, classes=3, sample=torch.randn(2, 8))


def test_modes_and_hooks_are_left_as_they_were():
    model = nn.Sequential(nn.Linear(4, 4), nn.Dropout(), nn.Linear(4, 4), nn.Linear(4, 2)).train()
    model[1].eval()
    even_exits(model, 2, classes=2, sample=torch.randn(2, 4))
    assert [module.training for module in model] == [True, False, True, True]
    assert not any(module._forward_hooks for module in model.modules())


@pytest.mark.parametrize(("name", "side"), [("resnet18", 64), ("convnext_atto", 32)])
def test_a_model_of_timm_is_cut_in_thirds_and_built_again(name, side):
    learner = timm_learner(name, classes=5, side=side)
    counts = count_macs(learner, (3, side, side))
    assert len(counts) == 3
    assert all(0.2 < count / sum(counts) < 0.5 for count in counts)
    again = build_network(describe_network(learner))
    shapes = [{name: tensor.shape for name, tensor in one.state_dict().items()} for one in (learner, again)]
    assert shapes[0] == shapes[1]


def test_vision_transformers_are_told_their_side():
    learner = timm_learner("vit_tiny_patch16_224", classes=5, side=64, exits=["blocks.3", "blocks.7"])
    assert [out.shape for out in learner(torch.zeros(1, 3, 64, 64))] == [(1, 5)] * 3
    assert timm_input("vit_tiny_patch16_224").side == 224


def test_a_model_that_timm_has_not_names_its_neighbours():
    with pytest.raises(ValueError, match=r"timm has no model 'resnet19'; did you mean resnet1"):
        timm_model("resnet19", classes=2)


def test_the_places_are_in_the_order_in_which_they_run():
    names = [name for name, _ in timm_learner("resnet18", classes=2, side=32).branches[0].named_modules()]
    assert names
    exits = timm_learner("resnet18", classes=2, side=32).origin["exits"]
    order = [name for name, _ in timm_model("resnet18", classes=2).named_modules()]
    assert all(order.index(a) < order.index(b) for a, b in itertools.pairwise(exits))
