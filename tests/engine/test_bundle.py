import hashlib
import json
import os
import shutil
import subprocess
import sys
import threading
import venv
from pathlib import Path

import numpy as np
import pytest
import torch

import quorate
from quorate.engine import Committee, InputSpec, export
from quorate.errors import QuorateError
from quorate.nets import DARTS_V2, DartsLearner, attach_exits, cascade
from quorate.squad import Confidence, Rule, Static, Wish
from quorate.store import write_policy
from quorate.store.bundle import read_bundle
from tests.engine.learners import tiny_committee
from tests.engine.test_committee import assert_agrees
from tests.readme import ROOT

SPEC = InputSpec(8, 8, 3, (0.5, 0.4, 0.3), (0.2, 0.3, 0.4))


@pytest.fixture(scope="module")
def committee():
    learners, macs = tiny_committee(0, [2, 1, 2])
    return Committee(learners, Rule("mean", 0.6), macs, classes=["cat", "dog", "owl"])


@pytest.fixture(scope="module")
def shipped(committee, tmp_path_factory):
    path = tmp_path_factory.mktemp("shipped") / "bundle"
    committee.export(path, sample=torch.randn(2, 5))
    return path


@pytest.fixture
def bundle(shipped, tmp_path):
    return Path(shutil.copytree(shipped, tmp_path / "bundle"))


@pytest.mark.parametrize("n", [1, 2, 37])
def test_a_bundle_answers_as_torch_does(committee, shipped, n):
    loaded = quorate.load(shipped, threads=1)
    assert (loaded.classes, loaded.policy) == (committee.classes, committee.policy)
    images = torch.randn(n, 5, generator=torch.Generator().manual_seed(n))
    votes = committee.record(images, np.zeros(n))
    for policy in (Rule("mean", 0.6), Rule(threshold=0.3), Static(), Confidence(2, 0.5)):
        assert_agrees(loaded.with_policy(policy)(images.numpy()), votes, policy)


def test_a_learner_of_the_darts_space_and_its_pictures(tmp_path):
    torch.manual_seed(0)
    learner = DartsLearner(DARTS_V2, channels=2, cells=3, classes=4, exits=[1, 2]).eval()
    committee = Committee([learner], Rule("mean", 0.5), inputs=SPEC)
    committee.export(tmp_path / "bundle")
    loaded = quorate.load(tmp_path / "bundle", threads=1)
    pictures = np.random.default_rng(0).integers(0, 256, size=(6, 8, 8, 3), dtype=np.uint8)
    np.testing.assert_allclose(loaded(pictures).probs, committee(pictures).probs, atol=1e-5)
    np.testing.assert_array_equal(loaded.macs, committee.macs)
    for file in (tmp_path / "bundle").glob("*.onnx"):
        assert b".py" not in file.read_bytes()  # where it was made is nobody's business


def test_cascades_and_inputs_by_name(tmp_path):
    class Sum(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = torch.nn.Linear(4, 3)

        def forward(self, a, b):
            return self.linear(a + b)

    torch.manual_seed(0)
    learner = cascade([Sum(), Sum()], classes=3, inputs=["a", "b"])
    committee = Committee([learner], Confidence(0, 0.4), [[1], [2]])
    committee.export(tmp_path / "bundle", sample={"a": torch.zeros(1, 4), "b": torch.zeros(1, 4)})
    loaded = quorate.load(tmp_path / "bundle", threads=1)
    given = {"b": torch.randn(9, 4), "a": torch.randn(9, 4)}
    answer, wanted = loaded(given), committee(given)
    np.testing.assert_array_equal(answer.exit, wanted.exit)
    np.testing.assert_array_equal(answer.branches, wanted.branches)
    with pytest.raises(ValueError, match="learner 0 reads a, b, got tensors named a, c"):
        loaded({"a": torch.zeros(1, 4), "c": torch.zeros(1, 4)})


WITHOUT_TORCH = """
import sys

class Refuse:
    allowed = {"quorate", "numpy", "array_api_compat", "onnxruntime", *sys.stdlib_module_names}
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("torch", "scipy", "pydantic", "safetensors", "onnx", "onnxscript", "PIL", "rich"):
            raise ImportError(f"{name} is not needed")

sys.meta_path.insert(0, Refuse())
import numpy as np
import quorate
committee = quorate.load(sys.argv[1], threads=1)
answer = committee(np.linspace(-1, 1, 20, dtype=np.float32).reshape(4, 5))
print(answer.label.tolist(), int((answer.branches * committee.macs).sum() == answer.lazy_macs.sum()))
assert not any(name == "quorate.nets" or name.startswith("quorate.nets.") for name in sys.modules)
"""


def test_a_bundle_needs_neither_torch_nor_networks(committee, shipped):
    run = subprocess.run(
        [sys.executable, "-c", WITHOUT_TORCH, str(shipped)], capture_output=True, text=True, check=False, timeout=60
    )
    assert run.returncode == 0, run.stderr
    wanted = committee(np.linspace(-1, 1, 20, dtype=np.float32).reshape(4, 5))
    assert run.stdout.split("]")[0] + "]" == str(wanted.label.tolist())
    assert run.stdout.strip().endswith("1")


IN_ITS_OWN = """
import sys
import numpy as np
import quorate
print(quorate.load(sys.argv[1], threads=1)(np.linspace(-1, 1, 20, dtype=np.float32).reshape(4, 5)).label.tolist())
"""


@pytest.mark.heavy
def test_a_bundle_runs_in_an_environment_of_base_and_runtime_alone(committee, shipped, tmp_path):
    venv.create(tmp_path / "venv", with_pip=True)
    python = str(tmp_path / "venv" / ("Scripts" if sys.platform == "win32" else "bin") / "python")
    packages = ["numpy>=2.1", "array-api-compat>=1.9", "onnxruntime>=1.20"]
    pip = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--retries", "1", *packages]
    made = subprocess.run(pip, capture_output=True, text=True, check=False, timeout=500)
    if made.returncode:
        pytest.skip(f"no package index answers: {made.stderr.strip().splitlines()[-1:]}")
    run = subprocess.run(
        [python, "-c", IN_ITS_OWN, str(shipped)],
        capture_output=True, text=True, check=False, timeout=120, env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
    )  # fmt: skip
    assert run.returncode == 0, run.stderr
    wanted = committee(np.linspace(-1, 1, 20, dtype=np.float32).reshape(4, 5))
    assert run.stdout.strip() == str(wanted.label.tolist())


def reseal(bundle, change):
    """A manifest that vouches for what it says, whatever that is: what a forger would write."""
    manifest = json.loads((bundle / "manifest.json").read_text())
    del manifest["sha256"]
    change(manifest)
    head = {name: manifest.pop(name) for name in ("schema", "version")}
    text = json.dumps(manifest, sort_keys=True, separators=(",", ":"))
    document = {**head, "sha256": hashlib.sha256(text.encode()).hexdigest(), **manifest}
    (bundle / "manifest.json").write_text(json.dumps(document))


def put(bundle, name, data):
    """Replace a file, and vouch for it."""
    (bundle / name).write_bytes(data)
    reseal(bundle, lambda m: m["files"].__setitem__(name, hashlib.sha256(data).hexdigest()))


def truncated(bundle):
    file = bundle / "branch_1_0.onnx"
    file.write_bytes(file.read_bytes()[:-10])


def flipped(bundle):
    file = bundle / "branch_1_0.onnx"
    data = bytearray(file.read_bytes())
    data[-20] ^= 1
    file.write_bytes(data)


def edited(bundle):
    file = bundle / "manifest.json"
    file.write_text(file.read_text().replace('"cat"', '"dog"'))


HOSTILE = {
    "truncated graph": (truncated, "branch_1_0.onnx: does not match its checksum"),
    "flipped bit": (flipped, "branch_1_0.onnx: does not match its checksum"),
    "missing graph": (lambda b: (b / "branch_0_0.onnx").unlink(), "branch_0_0.onnx: cannot be read"),
    "missing policy": (lambda b: (b / "policy.json").unlink(), "policy.json: cannot be read"),
    "edited manifest": (edited, "manifest.json: does not match its checksum"),
    "empty manifest": (lambda b: (b / "manifest.json").write_text(""), "is not JSON"),
    "foreign manifest": (
        lambda b: (b / "manifest.json").write_text('{"name": "app"}'),
        "is JSON, but not of the schema quorate.bundle",
    ),
    "newer": (lambda b: reseal(b, lambda m: m.update(version=9)), "reads up to 1: update quorate"),
    "file elsewhere": (
        lambda b: reseal(b, lambda m: (m["branches"][1].__setitem__(0, "../x"), m["files"].update({"../x": "0"}))),
        "its branches are other files|is not one of its own folder",
    ),
    "file elsewhere, consistent": (
        lambda b: reseal(
            b,
            lambda m: (
                m["branches"][1].__setitem__(0, "../x"),
                m["files"].pop("branch_1_0.onnx"),
                m["files"].update({"../x": "0"}),
            ),
        ),
        "is not one of its own folder",
    ),
    "missing branch": (
        lambda b: reseal(b, lambda m: (m["branches"][1].__setitem__(0, None), m["files"].pop("branch_1_0.onnx"))),
        "lacks a branch",
    ),
    "costs of others": (lambda b: reseal(b, lambda m: m.update(macs=[[1, 2]])), "macs must be"),
    "one class": (lambda b: reseal(b, lambda m: m.update(classes=["cat"])), "at least two classes"),
    "no lists": (lambda b: reseal(b, lambda m: m.update(branches=3)), "does not describe a bundle"),
    "other classes": (
        lambda b: reseal(b, lambda m: m.update(classes=["a", "b"])),
        "must give logits of 2 classes, gives",
    ),
    "costs without a branch": (
        lambda b: reseal(b, lambda m: m["macs"][0].__setitem__(1, 7)),
        "macs must be 0 where a learner has no branch",
    ),
    "policy of others": (
        lambda b: (
            write_policy(Confidence(7), b / "policy.json"),
            put(b, "policy.json", (b / "policy.json").read_bytes()),
        ),
        "learner must lie in 0 to 2, got 7",
    ),
    "no graph": (lambda b: put(b, "branch_1_0.onnx", b"not a graph"), "branch_1_0.onnx: is no graph that this ONNX"),
    "another branch's graph": (
        lambda b: put(b, "branch_1_0.onnx", (b / "branch_0_0.onnx").read_bytes()),
        "branch_1_0.onnx: reads .*, the branch before it gives",
    ),
}


@pytest.mark.parametrize("case", HOSTILE)
def test_what_is_no_whole_bundle_is_refused_in_one_line(bundle, case):
    change, message = HOSTILE[case]
    change(bundle)
    with pytest.raises(QuorateError, match=message) as caught:
        quorate.load(bundle, threads=1)
    assert "\n" not in str(caught.value)


def test_an_unknown_op_set_is_refused(bundle):
    import onnx

    model = onnx.load(bundle / "branch_0_1.onnx") if (bundle / "branch_0_1.onnx").exists() else None
    model = model or onnx.load(bundle / "branch_1_1.onnx")
    model.opset_import[0].version = 999
    put(bundle, "branch_1_1.onnx", model.SerializeToString())
    with pytest.raises(QuorateError, match="is no graph that this ONNX Runtime .* can run .*: export it again"):
        quorate.load(bundle, threads=1)


def test_a_graph_that_is_not_torch_is_no_bundle(committee, tmp_path, monkeypatch):
    monkeypatch.setattr(export, "PARITY", -1.0)
    with pytest.raises(ValueError, match="away from torch's on a batch of 1, more than -1: nothing was written"):
        committee.export(tmp_path / "bundle", sample=torch.randn(2, 5))
    assert list(tmp_path.iterdir()) == []


class Own:
    def tell(self, state, rows, branch, probs):
        return state


def test_what_cannot_be_exported_is_refused(committee, shipped, tmp_path):
    with pytest.raises(ValueError, match="pass sample="):
        committee.export(tmp_path / "a")
    with pytest.raises(ValueError, match="must be a new or an empty folder"):
        committee.export(shipped, sample=torch.randn(2, 5))
    with pytest.raises(TypeError, match="only the policies of quorate"):
        committee.with_policy(Own()).export(tmp_path / "b", sample=torch.randn(2, 5))
    with pytest.raises(ValueError, match="is one already: copy its folder"):
        quorate.load(shipped, threads=1).export(tmp_path / "c")
    with pytest.raises(ValueError, match="format must be 'onnx'"):
        committee.export(tmp_path / "d", format="pickle")
    assert list(tmp_path.iterdir()) == []


def test_without_the_runtime_the_error_names_the_package(shipped, monkeypatch):
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(ModuleNotFoundError, match=r"pip install 'quorate\[onnxruntime\]'"):
        quorate.load(shipped)


def test_what_cannot_be_loaded_is_refused(shipped, tmp_path):
    with pytest.raises(QuorateError, match="is neither a bundle"):
        quorate.load(tmp_path)
    with pytest.raises(ValueError, match="source must be one of lazy, eager"):
        quorate.load(shipped, source="greedy")
    with pytest.raises(ValueError, match="threads must be at least 1"):
        quorate.load(shipped, threads=0)
    with pytest.raises(ValueError, match="backend must be .onnxruntime. or .openvino. or None for a bundle"):
        quorate.load(shipped, backend="torch")
    with pytest.raises(ValueError, match="only a committee of torch learners can move"):
        quorate.load(shipped, threads=1).to("cpu")


def test_many_threads_may_call_one_bundle(shipped):
    loaded = quorate.load(shipped, threads=1)
    batches = [np.random.default_rng(i).normal(size=(10 + i, 5)).astype(np.float32) for i in range(6)]
    alone, found = [loaded(batch) for batch in batches], [None] * 6

    def call(i):
        for _ in range(5):
            found[i] = loaded(batches[i])

    threads = [threading.Thread(target=call, args=(i,)) for i in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for one, other in zip(alone, found, strict=True):
        np.testing.assert_array_equal(one.label, other.label)
        np.testing.assert_array_equal(one.branches, other.branches)


def test_from_a_model_to_a_bundle(tmp_path):
    torch.manual_seed(0)
    x, y = torch.rand(200, 1, 8, 8), torch.arange(200) % 2
    x[y == 1, :, :4] *= 0.3
    spec = InputSpec(8, 8, 1, (0.5,), (0.3,))
    learners = []
    for _ in range(3):
        model = torch.nn.Sequential(
            torch.nn.Conv2d(1, 4, 3), torch.nn.BatchNorm2d(4), torch.nn.ReLU(), torch.nn.Conv2d(4, 4, 3),
            torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(64, 2),
        )  # fmt: skip
        learner = attach_exits(model, exits=["2"], classes=2, sample=x[:2])
        optimiser = torch.optim.Adam(learner.parameters(), 0.01)
        for _ in range(20):
            optimiser.zero_grad()
            sum(torch.nn.functional.cross_entropy(z, y) for z in learner((x - 0.5) / 0.3)).backward()
            optimiser.step()
        learners.append(learner)
    committee = Committee(learners, Rule(), classes=["bright", "dark"], inputs=spec)
    committee = committee.tune(x, y, Wish(max_drop=1), policies=["squad", "pool"])
    told = []
    committee.export(tmp_path / "bundle", progress=lambda *step: told.append(step))
    assert told == [("exporting branches", done, 6) for done in range(1, 7)]
    answer = quorate.load(tmp_path / "bundle", threads=1)(x.numpy())
    assert (answer.label == y.numpy()).mean() > 0.9
    assert answer.lazy_macs.mean() < committee.macs.sum()


def places(value, path=()):
    """Every place in a document."""
    yield path
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, one in inside:
        yield from places(one, (*path, key))


def put_at(document, path, value):
    for key in path[:-1]:
        document = document[key]
    document[path[-1]] = value


def test_whatever_a_forger_writes_is_refused_in_one_line_or_harmless(bundle):
    whole = json.loads((bundle / "manifest.json").read_text())
    document, said = {name: value for name, value in whole.items() if name != "sha256"}, []
    for path in list(places(document)):
        for value in (None, -1, 10**30, "x", "../x", [], [[]], {}, [1], True, 0.5, float("nan")) if path else ():
            if path[0] == "about":
                continue
            (bundle / "manifest.json").write_text(json.dumps(whole))
            reseal(bundle, lambda m, p=path, v=value: put_at(m, p, v))
            try:
                read_bundle(bundle)
            except QuorateError as error:
                said.append(str(error))
    assert len(said) > 200
    assert not any("\n" in line for line in said)
