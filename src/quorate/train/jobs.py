"""Where jobs run: in this process one after another, or in processes of their own. The only file that knows it.

``run_jobs(work, items)`` is ``[work(item, tell) for item in items]``, elsewhere and at the same time. ``work`` must be
a function of a module, items and results must be picklable: then another engine (a cluster) can take its place.

This file does not know what the jobs do.
"""

import multiprocessing as mp
import os
import pickle
import queue
import signal
import threading
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from multiprocessing.connection import wait
from multiprocessing.process import BaseProcess
from typing import Any, TypeAlias, TypeVar

import torch

from quorate.errors import QuorateError

__all__ = ["Tell", "run_jobs", "with_threads"]

Tell: TypeAlias = Callable[[Any], None]
Item = TypeVar("Item")
Result = TypeVar("Result")


def run_jobs(
    work: Callable[[Item, Tell], Result],
    items: Sequence[Item],
    *,
    jobs: int = 1,
    threads: int | None = None,
    listen: Tell = lambda told: None,
) -> list[Result]:
    """Do ``work`` for every item.

    Args:
        work: called with an item and something to tell progress to.
        items: one for each job.
        jobs: how many run at the same time; with 1 they run in this process.
        threads: of all jobs together; by default one for each core.
        listen: what jobs tell arrives here, in this process.

    Returns:
        The results, in the order of the items.

    Raises:
        Exception: what the first job to fail raised; the others are stopped.
        QuorateError: the process of a job was killed.

    Note:
        Scripts that use ``jobs`` above 1 must keep their main part under ``if __name__ == "__main__"``: each process
        imports the script anew.

    Example:
        >>> run_jobs(lambda item, tell: tell(item) or item + 1, [1, 2], listen=print)
        1
        2
        [2, 3]
    """
    if jobs < 1 or (threads is not None and threads < 1):
        raise ValueError(f"jobs and threads must be at least 1, got {jobs} and {threads}")
    total = threads or os.cpu_count() or 1
    if jobs == 1 or len(items) < 2:
        with with_threads(total):
            return [work(item, listen) for item in items]
    each = max(1, total // min(jobs, len(items)))
    return _Pool(work, items, min(jobs, len(items)), each, listen).run()


@contextmanager
def with_threads(threads: int) -> Iterator[None]:
    """Compute with so many threads for a while.

    Example:
        >>> with with_threads(1):
        ...     torch.get_num_threads()
        1
    """
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        yield
    finally:
        torch.set_num_threads(before)


class _Pool:
    """At most ``jobs`` processes at a time, each with its own interpreter: safe with threads and with CUDA."""

    def __init__(self, work: Any, items: Sequence[Any], jobs: int, threads: int, listen: Tell) -> None:
        self.context = mp.get_context("spawn")
        self.said: Any = self.context.Queue()
        self.work, self.jobs, self.threads, self.listen = work, jobs, threads, listen
        self.waiting = list(enumerate(items))
        self.running: dict[int, BaseProcess] = {}
        self.results: dict[int, Any] = {}

    def run(self) -> list[Any]:
        try:
            while self.waiting or self.running:
                while self.waiting and len(self.running) < self.jobs:
                    self._start(*self.waiting.pop(0))
                self._hear()
        finally:
            for process in self.running.values():
                process.terminate()
            for process in self.running.values():
                process.join()
        return [self.results[i] for i in sorted(self.results)]

    def _start(self, i: int, item: Any) -> None:
        process = self.context.Process(target=_child, args=(self.work, i, item, self.threads, self.said), daemon=True)
        process.start()
        self.running[i] = process

    def _hear(self) -> None:
        try:
            kind, i, what = self.said.get(timeout=0.5)
        except queue.Empty:
            self._look_for_dead()
            return
        if kind == "told":
            self.listen(what)
        elif kind == "done":
            self.results[i] = what
            self.running.pop(i).join()
        else:
            raise pickle.loads(what)  # noqa: S301 - from our own child, over our own pipe

    def _look_for_dead(self) -> None:
        for i, process in self.running.items():
            if process.exitcode is not None and self.said.empty():
                raise QuorateError(
                    f"the process of job {i} ended without a result (exit code {process.exitcode}); "
                    "was memory short? The same command goes on from its last checkpoint"
                )


def _child(work: Any, i: int, item: Any, threads: int, said: Any) -> None:
    """One job in its own process; it ends when its parent does."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent is interrupted, and ends us
    threading.Thread(target=_end_with_parent, daemon=True).start()
    torch.set_num_threads(threads)
    try:
        said.put(("done", i, work(item, lambda told: said.put(("told", i, told)))))
    except Exception as error:  # noqa: BLE001 - it is raised again where somebody can read it
        said.put(("failed", i, _portable(error)))


def _end_with_parent() -> None:
    parent = mp.parent_process()
    assert parent is not None
    wait([parent.sentinel])
    os._exit(1)


def _portable(error: Exception) -> bytes:
    """An exception as bytes; as its text where it cannot be pickled."""
    try:
        data = pickle.dumps(error)
        pickle.loads(data)  # noqa: S301 - our own bytes
    except Exception:  # noqa: BLE001 - whatever a foreign exception does when it is copied
        return pickle.dumps(RuntimeError("".join(traceback.format_exception(error))))
    return data
