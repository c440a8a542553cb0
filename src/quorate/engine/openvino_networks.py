"""Graphs of a bundle behind the interface of networks, run by OpenVINO; neither torch nor learners are needed.

The runtime computes in float32 whatever the processor could do, so that answers are those that were tuned. Single
samples have graphs of their own, of fixed shape: these are faster, and can be ended in the middle. A graph for any
batch does not survive that (the next batch of another size crashes the process, see docs/log.md), so it runs to its
end.

Shapes: ``E`` exits, ``K`` learners, ``n`` samples, ``C`` classes.
This file does not know sources or policies.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from quorate.engine.graphs import Kinds, check_chain, check_whole
from quorate.engine.inputs import Prepared
from quorate.engine.networks import Array, State, Stop, Stopped, softmax
from quorate.engine.onnx_networks import in_their_order
from quorate.engine.placement import threads_each
from quorate.errors import QuorateError
from quorate.store.bundle import Bundle
from quorate.store.faults import short

__all__ = ["OpenVinoNetworks"]


class OpenVinoNetworks:
    """The branches of a bundle, one compiled model each, all opened and checked before any is run.

    Args:
        bundle: as :func:`quorate.store.bundle.read_bundle` checked it.
        threads: of each model, or of those of each learner; None: as many as this process may use.

    Raises:
        QuorateError: one line, where a graph cannot be loaded or does not lead to the next.
        ModuleNotFoundError: OpenVINO is not installed.
    """

    backend, device = "openvino", "cpu"

    def __init__(self, bundle: Bundle, threads: int | Sequence[int] | None = None) -> None:
        """See the class."""
        import openvino

        each = threads_each(threads, len(bundle.branches[0]))
        self.classes, self.chained, self._names = len(bundle.classes), bundle.chained, bundle.names
        self.present = np.array([[name is not None for name in row] for row in bundle.branches])
        self.threads, core = max(each), openvino.Core()
        self._models = [
            [None if f is None else _Model(core, bundle, f, count) for f, count in zip(row, each, strict=True)]
            for row in bundle.branches
        ]
        for k in range(self.present.shape[1]):
            models = [row[k] for row in self._models]
            check_chain(bundle, k, [None if model is None else model.kinds for model in models])

    def first(self, learner: int, inputs: Prepared, rows: Array) -> State:
        """The samples' inputs."""
        given = in_their_order(inputs.of(learner, rows), self._names[learner], learner)
        return tuple(map(np.ascontiguousarray, given))

    def run(self, learner: int, exit: int, state: State) -> tuple[State, Array]:
        """One branch."""
        return self._given(self._model(learner, exit).run(state, None))

    def run_until(self, learner: int, exit: int, state: State, stop: Stop) -> tuple[State, Array]:
        """One branch; that of a single sample ended after the operator that is at work when the stop comes."""
        if stop.requested:
            raise Stopped
        return self._given(self._model(learner, exit).run(state, stop if len(state[0]) == 1 else None))

    def take(self, state: State, rows: Array) -> State:
        """Some rows of every array."""
        return tuple(array[rows] for array in state)

    def join(self, states: list[State]) -> State:
        """The rows of all, one after the other."""
        return tuple(np.concatenate(parts) for parts in zip(*states, strict=True))

    def _model(self, learner: int, exit: int) -> "_Model":
        model = self._models[exit][learner]
        if model is None:
            raise ValueError(f"learner {learner} has no branch at exit {exit}")
        return model

    @staticmethod
    def _given(outputs: list[Array]) -> tuple[State, Array]:
        *carried, logits = outputs
        return tuple(carried), softmax(logits)


class _Model:
    """One graph, compiled for one sample and for any number of them."""

    def __init__(self, core: Any, bundle: Bundle, name: str, threads: int) -> None:
        settings = {
            "INFERENCE_PRECISION_HINT": "f32", "NUM_STREAMS": 1, "INFERENCE_NUM_THREADS": threads,
            "ENABLE_CPU_PINNING": False,  # models share cores, and each would pin its threads to the first
        }  # fmt: skip
        data = bundle.data(name)
        check_whole(bundle.path / name, data)
        try:
            model = core.read_model(data)
            self.kinds = _kinds(model.inputs), _kinds(model.outputs)
            many = core.compile_model(model, "CPU", settings)
            model.reshape({port: [1, *list(port.partial_shape)[1:]] for port in model.inputs})
            self._compiled = {False: many, True: core.compile_model(model, "CPU", settings)}
        except Exception as error:  # whatever the runtime raises, the file is at fault
            reason = short(" ".join(str(error).split()), 160)
            raise QuorateError(
                f"{bundle.path / name}: is no graph that this OpenVINO can run ({reason}): "
                "export it again, or update openvino"
            ) from error
        self._requests: dict[bool, list[Any]] = {False: [], True: []}

    def run(self, state: State, stop: Stop | None) -> list[Array]:
        """What the graph gives; the arrays are the caller's. Runs at the same time have requests of their own."""
        alone = len(state[0]) == 1
        kept = self._requests[alone]
        try:
            request = kept.pop()
        except IndexError:  # asked, not looked first: another thread may take the last one in between
            request = self._compiled[alone].create_infer_request()
        reads = dict(enumerate(state))
        try:
            if stop is None:
                request.infer(reads, share_inputs=True)
            else:
                with stop.ending(request.cancel):  # only what was started asynchronously can be cancelled
                    request.start_async(reads, share_inputs=True)
                    request.wait()
            return [np.array(tensor.data) for tensor in request.output_tensors]
        finally:
            kept.append(request)


def _kinds(ports: Any) -> Kinds:
    return [(port.element_type.get_type_name(), [_length(d) for d in list(port.partial_shape)[1:]]) for port in ports]


def _length(dimension: Any) -> int | None:
    return int(dimension.get_length()) if dimension.is_static else None
