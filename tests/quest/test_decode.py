"""From tables to genotypes, by hand and by chance."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from quorate.nets import DARTS_V2, PRIMITIVES, Genotype, random_genotype
from quorate.quest.decode import (
    choice_of,
    decode,
    decode_choice,
    decode_particle,
    distinct,
    log_weight,
    neighbours,
    sampler,
)
from quorate.quest.mixing import EDGES, edges_of_node
from quorate.quest.supernet import TABLE


def by_hand(table):
    """Two strongest edges of each node by their best operation other than none."""
    cells = []
    for t in range(2):
        edges = []
        for node in range(2, 6):
            rows = [j for j, (n, _) in enumerate(EDGES) if n == node]
            best = {j: max(range(1, 8), key=lambda k, j=j: table[t][j][k]) for j in rows}
            kept = sorted(rows, key=lambda j: table[t][j][best[j]], reverse=True)[:2]
            edges += [(PRIMITIVES[best[j]], EDGES[j][1]) for j in sorted(kept)]
        cells.append(edges)
    return Genotype(*cells)


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10**6))
def test_decoding_is_what_one_would_do_by_hand(seed):
    table = torch.rand(TABLE, generator=torch.Generator().manual_seed(seed))
    assert decode(table) == by_hand(table.tolist())


def test_none_is_never_kept_however_strong():
    table = torch.zeros(TABLE)
    table[..., 0] = 9
    table[..., 5] = 1
    assert {name for name, _ in decode(table).normal} == {"sep_conv_5x5"}


def test_edges_of_a_settled_particle_are_ranked_by_the_posterior():
    choice = torch.full(TABLE[:2], 4)
    logits = torch.zeros(TABLE)
    logits[0, edges_of_node(5)[1], 4] = 3
    logits[0, edges_of_node(5)[3], 4] = 2
    assert decode_choice(choice, logits).normal[6:] == (("sep_conv_3x3", 1), ("sep_conv_3x3", 3))


def test_a_particle_keeps_its_operations_whatever_the_posterior_prefers():
    choice = torch.full(TABLE[:2], 6)
    logits = torch.zeros(TABLE)
    logits[..., 4] = 9
    assert {name for name, _ in decode_choice(choice, logits).reduce} == {"dil_conv_3x3"}


def test_weights_below_zero_count_as_zero():
    particle = torch.full(TABLE, -5.0)
    particle[0, 2, 3] = 0.1
    assert decode_particle(particle.flatten(), torch.zeros(TABLE)).normal[2] == ("skip_connect", 0)


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 10**6))
def test_a_genotype_is_the_decoding_of_its_own_table(seed):
    genotype = random_genotype(np.random.default_rng(seed))
    Z = torch.nn.functional.one_hot(torch.tensor(choice_of(genotype)), 8).float()
    assert decode(Z) == genotype


def test_one_input_twice_has_no_place_in_the_supernet():
    twice = Genotype([("skip_connect", 0)] * 8, DARTS_V2.reduce)
    with pytest.raises(ValueError, match="read each input of a node once"):
        choice_of(twice)


def test_neighbours_differ_in_one_edge():
    for one in list(neighbours(DARTS_V2))[::20]:
        changed = [
            set(a) != set(b)
            for mine, theirs in ((one.normal, DARTS_V2.normal), (one.reduce, DARTS_V2.reduce))
            for a, b in ((mine[i : i + 2], theirs[i : i + 2]) for i in range(0, 8, 2))
        ]
        assert sum(changed) == 1


def test_duplicates_are_drawn_again_then_moved_to_the_best_neighbour():
    other = random_genotype(np.random.default_rng(3))
    assert distinct([DARTS_V2, DARTS_V2], torch.zeros(TABLE), lambda: other) == [DARTS_V2, other]
    logits = torch.randn(TABLE, generator=torch.Generator().manual_seed(0))
    first, second, third = distinct([DARTS_V2] * 3, logits, lambda: DARTS_V2, tries=3)
    ranked = sorted(neighbours(DARTS_V2), key=lambda one: -log_weight(one, logits))
    assert (first, second, third) == (DARTS_V2, ranked[0], ranked[1])


def test_written_in_another_order_is_a_duplicate():
    turned = Genotype([DARTS_V2.normal[i ^ 1] for i in range(8)], DARTS_V2.reduce)
    assert len(set(distinct([DARTS_V2, turned], torch.zeros(TABLE)))) == 2


def test_draws_come_from_the_posterior():
    logits = torch.full(TABLE, -9.0)
    logits[..., 5] = 9
    draw = sampler(logits, torch.Generator().manual_seed(0))
    assert {name for _ in range(5) for name, _ in draw().normal} == {"sep_conv_5x5"}


def test_an_edge_that_settled_on_none_comes_last_and_is_no_pool_by_default():
    logits = torch.zeros(TABLE)
    logits[..., 7] = 1
    choice = torch.full(TABLE[:2], 5)
    choice[0, [0, 2]] = 0  # one of the two inputs of the first node, one of three of the second
    normal = decode_choice(choice, logits).normal
    assert normal[:4] == (("dil_conv_5x5", 0), ("sep_conv_5x5", 1), ("sep_conv_5x5", 1), ("sep_conv_5x5", 2))


def test_draws_of_a_flat_posterior_prefer_no_operation():
    draw, counts = sampler(torch.zeros(TABLE), torch.Generator().manual_seed(0)), dict.fromkeys(PRIMITIVES[1:], 0)
    for _ in range(400):
        for name, source in draw().normal[:2]:
            assert source in (0, 1)
            counts[name] += 1
    expected = 800 / 7
    assert all(abs(count - expected) < 4 * (800 * 6 / 49) ** 0.5 for count in counts.values())
