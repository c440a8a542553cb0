import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorate.errors import QuorateError
from quorate.nets import DARTS_V1, DARTS_V2, NAMED_GENOTYPES, PRIMITIVES, Genotype, random_genotype

from .cases import genotypes

V2 = """Genotype(normal=[('sep_conv_3x3', 0), ('sep_conv_3x3', 1), ('sep_conv_3x3', 0), ('sep_conv_3x3', 1),
 ('sep_conv_3x3', 1), ('skip_connect', 0), ('skip_connect', 0), ('dil_conv_3x3', 2)], normal_concat=[2, 3, 4, 5],
 reduce=[('max_pool_3x3', 0), ('max_pool_3x3', 1), ('skip_connect', 2), ('max_pool_3x3', 1), ('max_pool_3x3', 0),
 ('skip_connect', 2), ('skip_connect', 2), ('max_pool_3x3', 1)], reduce_concat=[2, 3, 4, 5])"""


@given(genotypes)
def test_both_notations_keep_the_written_order(genotype):
    for again in (Genotype.from_text(str(genotype)), Genotype.from_json(genotype.to_json())):
        assert (again.normal, again.reduce) == (genotype.normal, genotype.reduce)


@given(genotypes, st.data())
def test_equal_and_hashed_by_the_canonical_form(genotype, data):
    def shuffled(cell):
        pairs = [data.draw(st.permutations(cell[i : i + 2])) for i in range(0, 8, 2)]
        return [edge for pair in pairs for edge in pair]

    other = Genotype(shuffled(genotype.normal), shuffled(genotype.reduce))
    assert other == genotype
    assert hash(other) == hash(genotype)
    assert other.canonical().normal == genotype.canonical().normal
    assert genotype.canonical().canonical().reduce == genotype.canonical().reduce


@given(genotypes, genotypes)
def test_different_architectures_are_not_equal(a, b):
    def plain(genotype):
        return [
            sorted((source, name) for name, source in cell[i : i + 2])
            for cell in (genotype.normal, genotype.reduce)
            for i in range(0, 8, 2)
        ]

    assert (a == b) == (plain(a) == plain(b))


def test_the_classic_notation_is_read():
    assert Genotype.from_text(V2) == DARTS_V2
    assert Genotype.from_text("DARTS_V2 = " + V2) == DARTS_V2
    assert Genotype.from_text(V2.replace("[2, 3, 4, 5]", "range(2, 6)")) == DARTS_V2
    assert Genotype.from_text(V2.replace("[2, 3, 4, 5]", "list(range(2, 6))")) == DARTS_V2
    assert Genotype.from_text(V2.replace("normal_concat=[2, 3, 4, 5],", "")) == DARTS_V2


def test_edges_in_pairs_are_read():
    paired = [DARTS_V2.normal[i : i + 2] for i in range(0, 8, 2)]
    assert Genotype(paired, DARTS_V2.reduce).normal == DARTS_V2.normal


def test_first_node_of_darts_v1_is_written_backwards():
    assert DARTS_V1.normal[:2] == (("sep_conv_3x3", 1), ("sep_conv_3x3", 0))
    assert DARTS_V1.canonical().normal[:2] == (("sep_conv_3x3", 0), ("sep_conv_3x3", 1))
    assert DARTS_V1.canonical() == DARTS_V1


def test_not_equal_to_something_else():
    assert DARTS_V1 != "DARTS_V1"
    assert len(set(NAMED_GENOTYPES.values())) == len(NAMED_GENOTYPES)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("Genotype(normal=__import__('os').system('false'), reduce=[])", "normal must be written with literals"),
        (
            V2.replace("('sep_conv_3x3', 0)", "('sep_conv_7x7', 0)", 1),
            "must be one of max_pool_3x3, .*got 'sep_conv_7x7'",
        ),
        (V2.replace("('sep_conv_3x3', 0)", "('none', 0)", 1), "must be an operation that is kept, got 'none'"),
        (
            V2.replace("('sep_conv_3x3', 0)", "('sep_conv_3x3', 2)", 1),
            "leads to node 2 and must read one of 0 to 1, got 2",
        ),
        (V2.replace("('sep_conv_3x3', 0)", "('sep_conv_3x3', -1)", 1), "got -1"),
        (V2.replace("('sep_conv_3x3', 0)", "('sep_conv_3x3', True)", 1), "got True"),
        (V2.replace("('sep_conv_3x3', 0)", "('sep_conv_3x3', 0.0)", 1), "got 0.0"),
        (V2.replace("('sep_conv_3x3', 0)", "'sep_conv_3x3'", 1), "must be a pair"),
        (V2.replace("('sep_conv_3x3', 0), ", "", 1), "8 edges, two per node, got 7"),
        (V2.replace("normal_concat=[2, 3, 4, 5]", "normal_concat=[2, 3, 4]"), "must name the four nodes"),
        (V2.replace("normal_concat=[2, 3, 4, 5]", "normal_concat=range(10**9)"), "must be written with literals"),
        (V2.replace("normal_concat", "connects"), "must have the fields normal and reduce"),
        ("Genotype(1, 2)", "must read Genotype"),
        ("", "must read Genotype"),
        ("Genotype(normal=[", "must read Genotype"),
        ("Genotype(**{})", "must read Genotype"),
        ("x = 1; y = 2", "must read Genotype"),
        ("(" * 500, "must read Genotype"),
        ("Genotype(normal=\x00)", "must read Genotype"),
        ("Genotype(normal=5, reduce=[])", "normal cell must be a sequence"),
        ("Genotype(normal='sep_conv', reduce=[])", "normal cell must be a sequence"),
    ],
)
def test_bad_text_says_what_is_wrong(text, message):
    with pytest.raises(ValueError, match=message):
        Genotype.from_text(text)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda r: "{", "must be JSON"),
        (lambda r: "[1]", "must be an object with"),
        (lambda r: json.dumps({**r, "schema": 2}), "schema must be 1, got 2"),
        (lambda r: json.dumps({"schema": 1, "normal": r["normal"]}), "must be an object with"),
    ],
)
def test_bad_json_says_what_is_wrong(change, message):
    with pytest.raises(QuorateError, match=message):
        Genotype.from_json(change(json.loads(DARTS_V2.to_json())))


def test_json_of_another_architecture_is_a_callers_mistake():
    record = json.loads(DARTS_V2.to_json())
    record["normal"][0][1] = 7
    with pytest.raises(ValueError, match="must read one of 0 to 1, got 7"):
        Genotype.from_json(json.dumps(record))


def test_a_seed_is_not_a_generator():
    with pytest.raises(TypeError, match="numpy.random.default_rng"):
        random_genotype(0)


def test_random_genotypes_are_uniform():
    """2,000 draws: 16 edges of seven operations; each share within five standard errors of 1/7."""
    rng = np.random.default_rng(0)
    drawn = [random_genotype(rng) for _ in range(2000)]
    names = [name for g in drawn for name, _ in g.normal + g.reduce]
    shares = np.array([names.count(p) for p in PRIMITIVES[1:]]) / len(names)
    assert np.abs(shares - 1 / 7).max() < 5 * (6 / 49 / len(names)) ** 0.5
    last = [tuple(source for _, source in g.normal[6:]) for g in drawn]
    assert len(set(last)) == 10
    assert all(a < b for a, b in last)
    assert min(last.count(pair) for pair in set(last)) > 2000 / 10 - 5 * (2000 * 0.09) ** 0.5


def test_hostile_text_is_refused_in_words():
    deep = "+".join(["a"] * 480)
    for text in (f"Genotype(normal={deep}, reduce=1)", "Genotype(normal=a" + ".b" * 4000 + ", reduce=1)"):
        with pytest.raises(ValueError, match="must be written with literals|must read Genotype"):
            Genotype.from_text(text)
    with pytest.raises(ValueError, match="must read Genotype"):
        Genotype.from_text(str(DARTS_V1).replace("Genotype(", "os.system("))
    with pytest.raises(ValueError, match="in that order"):
        Genotype.from_text(str(DARTS_V1).replace("normal_concat=[2, 3, 4, 5]", "normal_concat=[5, 4, 3, 2]"))
    with pytest.raises(TypeError, match="must be text, got NoneType"):
        Genotype.from_text(None)


@pytest.mark.parametrize(
    ("text", "error", "message"),
    [
        ("[" * 100_000, QuorateError, "must be JSON"),
        (b"\xff\xfe\xfa", QuorateError, "must be JSON"),
        (None, TypeError, "must be text, got NoneType"),
        ('{"schema": true, "normal": [], "reduce": []}', QuorateError, "must be 1, got True; no version wrote that"),
        ('{"schema": 1.0, "normal": [], "reduce": []}', QuorateError, "must be 1, got 1.0; no version wrote that"),
        ('{"schema": 0, "normal": [], "reduce": []}', QuorateError, "must be 1, got 0; no version wrote that"),
        ('{"schema": 2, "normal": [], "reduce": []}', QuorateError, "must be 1, got 2; read it with the version"),
    ],
)
def test_hostile_json_is_refused_in_words(text, error, message):
    with pytest.raises(error, match=message):
        Genotype.from_json(text)
