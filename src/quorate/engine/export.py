"""Export to a bundle: one ONNX graph per branch, for any batch size, proven equal to torch before it gets its name.

Shapes: ``E`` exits, ``K`` learners, ``n`` samples.
This file does not know policies or sources.
"""

import os
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

import quorate
from quorate.engine.committee import Committee
from quorate.engine.inputs import Prepared, prepare
from quorate.engine.onnx_networks import OnnxNetworks
from quorate.engine.timing import Tick
from quorate.engine.torch_networks import TorchNetworks
from quorate.squad.arrays import host
from quorate.store.atomic import write_atomic
from quorate.store.bundle import read_bundle, write_manifest
from quorate.store.folders import new_folder
from quorate.store.policies import write_policy

__all__ = ["PARITY", "export_bundle"]

PARITY = 1e-4
"""How far any probability may be from torch's; rounding in other orders of summation stays far below."""

TRACED, CHECKED = 3, 5  # a traced batch of one would be fixed to one; the check is on other sizes


def export_bundle(
    committee: Committee, path: str | os.PathLike[str], *, sample: Any = None, tick: Tick | None = None
) -> None:
    """Write a bundle: graphs, policy, cost table, class names, inputs, and a manifest with checksums.

    Every graph is run on batches of 1 and 5 in ONNX Runtime, chained, and must give torch's probabilities.

    Args:
        committee: of torch learners.
        path: a folder that does not exist, or is empty. It appears when everything is written and proven, or not.
        sample: inputs to trace with, for learners that do not read images.
        tick: told about the progress.

    Raises:
        ValueError: where there is nothing to trace, and where a graph does not give what torch gives.
        TypeError: for a policy of the user's own, which no document can hold.

    Example:
        >>> import tempfile, torch, quorate
        >>> from quorate.engine import Committee
        >>> from quorate.nets import cascade
        >>> from quorate.squad import Static
        >>> committee = Committee([cascade([torch.nn.Linear(4, 3)])], Static(), macs=[[12]], classes=["a", "b", "c"])
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     export_bundle(committee, f"{folder}/bundle", sample=torch.zeros(1, 4))
        ...     quorate.load(f"{folder}/bundle", threads=1).classes
        ('a', 'b', 'c')
    """
    if committee.learners is None:
        raise ValueError("only a committee of torch learners can be exported; a bundle is one already: copy its folder")
    networks = TorchNetworks(committee.learners)
    given = _sample(committee, sample)
    with new_folder(path, "bundle") as draft:
        write_policy(committee.policy, draft / "policy.json")
        files = _write_graphs(networks, given, draft, tick)
        about = {"quorate": quorate.__version__, "torch": str(torch.__version__), "opset": _opset(draft, files)}
        manifest: dict[str, Any] = {
            "macs": committee.macs,
            "classes": committee.classes,
            "branches": files,
            "inputs": committee.inputs,
            "names": [one.inputs for one in committee.learners],
            "chained": networks.chained,
        }
        write_manifest(draft, **manifest, about=about)
        worst = _compare(networks, OnnxNetworks(read_bundle(draft), threads=1), given)
        write_manifest(draft, **manifest, about={**about, "largest_difference": worst})


def _sample(committee: Committee, sample: Any) -> Prepared:
    """A few inputs of the kind that the learners read."""
    spec = committee.inputs[0]
    if spec is not None:
        rng = np.random.default_rng(0)
        size = (CHECKED, spec.channels, spec.height, spec.width)
        return prepare(rng.integers(0, 256, size=size, dtype=np.uint8), committee.inputs)
    if sample is None:
        raise ValueError("learners that do not read images are traced with an example: pass sample=")
    if isinstance(sample, Mapping):
        return prepare({name: _enough(x) for name, x in sample.items()}, committee.inputs)
    tensors = tuple(map(_enough, sample)) if isinstance(sample, list | tuple) else _enough(sample)
    return prepare(tensors, committee.inputs)


def _enough(tensor: Any) -> Any:
    array = host(tensor)
    if len(array) == 0:
        raise ValueError("sample must hold at least one row")
    return array[np.arange(CHECKED) % len(array)]


def _write_graphs(networks: TorchNetworks, given: Prepared, folder: Path, tick: Tick | None) -> list[list[str | None]]:
    num_exits, num_learners = networks.present.shape
    files: list[list[str | None]] = [[None] * num_learners for _ in range(num_exits)]
    done = 0
    for k in range(num_learners):
        start = networks.first(k, given, np.arange(TRACED))
        state = start
        for e in np.flatnonzero(networks.present[:, k]).tolist():
            name = f"branch_{e}_{k}.onnx"
            try:
                data = graph_of(networks.branch(k, e), state)
            except Exception as error:
                reason = " ".join(str(error).split())[:300]
                raise ValueError(f"branch {e} of learner {k} cannot become an ONNX graph: {reason}") from error
            write_atomic(folder / name, data)
            files[e][k] = name
            done += 1
            if tick is not None:
                tick("exporting branches", done, int(networks.present.sum()))
            state = networks.run(k, e, state)[0] if networks.chained else start
    return files


def graph_of(branch: nn.Module, state: tuple[Tensor, ...]) -> bytes:
    """One branch as an ONNX model for any number of samples, in one file, without a word about where it was made."""
    example = tuple(x.detach().clone().contiguous() for x in state)
    batch = tuple({0: torch.export.Dim.DYNAMIC} for _ in example)
    shapes = (batch,) if _is_variadic(branch) else batch
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the exporter warns of its own deprecations
        exported = torch.export.export(branch, example, dynamic_shapes=shapes, strict=False)
        program = torch.onnx.export(exported, (), dynamo=True, verbose=False)
    assert program is not None
    model = program.model_proto
    for part in (model.graph, *model.functions, *model.graph.node, *model.graph.input, *model.graph.output,
                 *model.graph.value_info):  # fmt: skip
        part.doc_string = ""
        del part.metadata_props[:]
    data: bytes = model.SerializeToString()
    return data


def _is_variadic(branch: nn.Module) -> bool:
    import inspect

    kinds = [p.kind for p in inspect.signature(branch.forward).parameters.values()]
    return inspect.Parameter.VAR_POSITIONAL in kinds


def _opset(folder: Path, files: list[list[str | None]]) -> int:
    import onnx

    name = next(name for row in files for name in row if name is not None)
    versions = [
        one.version for one in onnx.load(folder / name, load_external_data=False).opset_import if not one.domain
    ]
    return int(versions[0])


def _compare(wanted: TorchNetworks, got: OnnxNetworks, given: Prepared) -> float:
    """The largest difference of any probability, over whole chains of branches, for one sample and for several."""
    worst = 0.0
    for k in range(wanted.present.shape[1]):
        for rows in (np.arange(1), np.arange(given.n)):
            theirs, ours = wanted.first(k, given, rows), got.first(k, given, rows)
            for e in np.flatnonzero(wanted.present[:, k]).tolist():
                after, p = wanted.run(k, e, theirs)
                mine, q = got.run(k, e, ours)
                difference = float(np.abs(p - q).max()) if p.shape == q.shape else np.inf
                if not difference <= PARITY:
                    raise ValueError(
                        f"the graph of branch {e} of learner {k} gives probabilities {difference:g} away from torch's "
                        f"on a batch of {len(rows)}, more than {PARITY:g}: nothing was written; try another torch or "
                        "onnxscript version"
                    )
                worst = max(worst, difference)
                theirs, ours = (after, mine) if wanted.chained else (theirs, ours)
    return worst
