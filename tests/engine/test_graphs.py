import shutil
from pathlib import Path

import numpy as np
import onnx
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

import quorate
from quorate.engine import Committee, InputSpec
from quorate.engine.graphs import keeps_data_elsewhere
from quorate.errors import QuorateError
from quorate.nets import cascade
from quorate.squad import Static
from tests.engine.test_bundle import put, reseal

BACKENDS = ["onnxruntime", "openvino"]


def elsewhere(tensor, location="weights.bin"):
    size = len(tensor.raw_data)
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    for key, value in (("location", location), ("offset", "0"), ("length", str(size))):
        tensor.external_data.add(key=key, value=value)
    return tensor


def weights(moved):
    tensor = numpy_helper.from_array(np.ones((3, 2), np.float32), "w")
    return elsewhere(tensor) if moved else tensor


def graph(nodes=(), **rest):
    return helper.make_graph(list(nodes), "g", [], [], **rest)


def in_a_node(tensor):
    return helper.make_node("Constant", [], ["y"], value=tensor)


PLACES = {
    "initializer": lambda t: helper.make_model(graph(initializer=[t])),
    "constant": lambda t: helper.make_model(graph([in_a_node(t)])),
    "branch of an if": lambda t: helper.make_model(
        graph([helper.make_node("If", ["c"], ["y"], then_branch=graph([in_a_node(t)]), else_branch=graph())])
    ),
    "sparse": lambda t: helper.make_model(
        graph(sparse_initializer=[helper.make_sparse_tensor(t, numpy_helper.from_array(np.zeros(3, np.int64)), [9])])
    ),
    "function": lambda t: helper.make_model(
        graph(), functions=[helper.make_function("d", "f", [], ["y"], [in_a_node(t)], [helper.make_opsetid("", 18)])]
    ),
}


@pytest.mark.parametrize("place", PLACES)
def test_numbers_kept_elsewhere_are_found_wherever_the_tensor_lies(place):
    assert keeps_data_elsewhere(PLACES[place](weights(moved=True)).SerializeToString())
    assert not keeps_data_elsewhere(PLACES[place](weights(moved=False)).SerializeToString())


@settings(max_examples=300, deadline=None)
@given(st.one_of(st.binary(max_size=60), st.integers(0, 200).map(
    lambda n: PLACES["branch of an if"](weights(moved=True)).SerializeToString()[:n])))  # fmt: skip
def test_bytes_of_any_kind_are_looked_at(data):
    assert keeps_data_elsewhere(data) in (False, True)


@pytest.fixture(scope="module")
def bundle(tmp_path_factory):
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(64, 3))
    path = tmp_path_factory.mktemp("graphs") / "bundle"
    Committee([cascade([model])], Static(), [[192]], inputs=InputSpec(8, 8, 1, (0.5,), (0.5,))).export(path)
    return path


@pytest.fixture
def copied(bundle, tmp_path):
    return Path(shutil.copytree(bundle, tmp_path / "bundle"))


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_file_that_no_manifest_vouches_for_is_not_read(copied, tmp_path, monkeypatch, backend):
    model = onnx.load(copied / "branch_0_0.onnx")
    tensor = max(model.graph.initializer, key=lambda one: len(one.raw_data))
    (tmp_path / "weights.bin").write_bytes(tensor.raw_data)
    elsewhere(tensor)
    put(copied, "branch_0_0.onnx", model.SerializeToString())
    monkeypatch.chdir(tmp_path)
    with pytest.raises(QuorateError, match=r"branch_0_0.onnx: keeps numbers in another file, for which its bundle"):
        quorate.load(copied, backend=backend, threads=1)


@pytest.mark.parametrize("backend", BACKENDS)
def test_images_of_another_size_than_the_graph_reads_are_noticed_before_anything_runs(copied, backend):
    reseal(copied, lambda m: [one.update(height=16, width=4) for one in m["inputs"]])
    with pytest.raises(QuorateError, match=r"the manifest says images of \[1, 16, 4\]: export it again"):
        quorate.load(copied, backend=backend, threads=1)
    reseal(copied, lambda m: m.update(inputs=[None], names=[["a", "b"]]))
    with pytest.raises(QuorateError, match="reads 1 tensors, the manifest names 2: export it again"):
        quorate.load(copied, backend=backend, threads=1)
