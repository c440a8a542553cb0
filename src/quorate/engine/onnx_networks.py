"""Graphs of a bundle behind the interface of networks, run by ONNX Runtime; neither torch nor learners are needed.

States are plain arrays: carrying the runtime's own values from branch to branch saves nothing that shows, and costs
40 us a branch in their wrappers (``docs/log.md``).

Shapes: ``E`` exits, ``K`` learners, ``n`` samples, ``C`` classes.
This file does not know sources or policies.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from quorate.engine.graphs import Kinds, check_chain, check_whole
from quorate.engine.inputs import Prepared, Tensors
from quorate.engine.networks import Array, State, Stop, softmax
from quorate.engine.placement import threads_each
from quorate.errors import QuorateError
from quorate.store.bundle import Bundle
from quorate.store.faults import short

__all__ = ["OnnxNetworks", "in_their_order"]


class OnnxNetworks:
    """The branches of a bundle, one session each, all opened and checked before any is run.

    Args:
        bundle: as :func:`quorate.store.bundle.read_bundle` checked it.
        threads: of each session, or of those of each learner; None: as many as this process may use.

    Raises:
        QuorateError: one line, where a graph cannot be loaded or does not lead to the next.
        ModuleNotFoundError: ONNX Runtime is not installed.
    """

    def __init__(self, bundle: Bundle, threads: int | Sequence[int] | None = None) -> None:
        """See the class."""
        each = threads_each(threads, len(bundle.branches[0]))
        self.classes, self.chained, self._names = len(bundle.classes), bundle.chained, bundle.names
        self.present = np.array([[name is not None for name in row] for row in bundle.branches])
        self.threads = max(each)
        self._graphs = [
            [None if f is None else _graph(bundle, f, count) for f, count in zip(row, each, strict=True)]
            for row in bundle.branches
        ]
        for k in range(self.present.shape[1]):
            graphs = [row[k] for row in self._graphs]
            check_chain(bundle, k, [None if graph is None else _kinds(graph[0]) for graph in graphs])

    backend, device = "onnxruntime", "cpu"

    def first(self, learner: int, inputs: Prepared, rows: Array) -> State:
        """The samples' inputs."""
        return in_their_order(inputs.of(learner, rows), self._names[learner], learner)

    def run(self, learner: int, exit: int, state: State, options: Any = None) -> tuple[State, Array]:
        """One branch."""
        graph = self._graphs[exit][learner]
        if graph is None:
            raise ValueError(f"learner {learner} has no branch at exit {exit}")
        session, reads, gives = graph
        *carried, logits = session.run(gives, dict(zip(reads, state, strict=True)), options)
        return tuple(carried), softmax(logits)

    def run_until(self, learner: int, exit: int, state: State, stop: Stop) -> tuple[State, Array]:
        """One branch, ended after the operator that is at work when the stop comes."""
        import onnxruntime

        options = onnxruntime.RunOptions()
        with stop.ending(lambda: setattr(options, "terminate", True)):
            return self.run(learner, exit, state, options)

    def take(self, state: State, rows: Array) -> State:
        """Some rows of every array."""
        return tuple(np.take(array, rows, axis=0) for array in state)

    def join(self, states: list[State]) -> State:
        """The rows of all, one after the other."""
        return tuple(np.concatenate(parts) for parts in zip(*states, strict=True))


def in_their_order(given: Tensors, names: Sequence[str] | None, learner: int) -> tuple[Array, ...]:
    """The tensors that a learner reads, in the order in which its graph reads them."""
    if isinstance(given, dict):
        if names is None or set(names) != set(given):
            wanted = "tensors by position" if names is None else ", ".join(names)
            raise ValueError(f"learner {learner} reads {wanted}, got tensors named {', '.join(given)}")
        return tuple(given[name] for name in names)
    return given if isinstance(given, tuple) else (given,)


def _graph(bundle: Bundle, name: str, threads: int) -> tuple[Any, list[str], list[str]]:
    """A session, and the names of what it reads and gives."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    options.log_severity_level = 3
    data = bundle.data(name)
    check_whole(bundle.path / name, data)
    try:
        session = onnxruntime.InferenceSession(data, options, providers=["CPUExecutionProvider"])
    except Exception as error:  # the runtime's errors have no common base but this
        reason = short(" ".join(str(error).split()), 160)
        raise QuorateError(
            f"{bundle.path / name}: is no graph that this ONNX Runtime {onnxruntime.__version__} can run ({reason}): "
            "export it again, or update onnxruntime"
        ) from error
    return session, [x.name for x in session.get_inputs()], [x.name for x in session.get_outputs()]


def _kinds(session: Any) -> tuple[Kinds, Kinds]:
    """What a graph reads and gives."""
    reads, gives = (
        [(x.type, list(x.shape[1:])) for x in some] for some in (session.get_inputs(), session.get_outputs())
    )
    return reads, gives
