"""Jobs here and in processes of their own."""

import os
import signal
import subprocess
import sys
import time

import pytest
import torch

from quorate.errors import QuorateError
from quorate.train.jobs import run_jobs
from quorate.train.loop import DivergedError


def square(item, tell):
    tell(("begun", item))
    return item * item, torch.get_num_threads(), os.getpid()


def fail(item, tell):
    if item == 1:
        raise DivergedError("learner 1: the loss became nan")
    time.sleep(60)


class OddError(Exception):
    def __init__(self, one, two):
        super().__init__(one)


def fail_oddly(item, tell):
    raise OddError("odd", 2)


def die(item, tell):
    os.kill(os.getpid(), signal.SIGKILL)


def linger(path, tell):
    with open(path, "w") as file:
        file.write(str(os.getpid()))
    time.sleep(60)


def test_in_this_process_one_after_another():
    told = []
    results = run_jobs(square, [3, 4], threads=1, listen=told.append)
    assert results == [(9, 1, os.getpid()), (16, 1, os.getpid())]
    assert told == [("begun", 3), ("begun", 4)]


def test_in_processes_of_their_own_with_threads_divided():
    told = []
    results = run_jobs(square, [3, 4, 5], jobs=2, threads=2, listen=told.append)
    assert [(value, threads) for value, threads, _ in results] == [(9, 1), (16, 1), (25, 1)]
    assert len({pid for *_, pid in results} | {os.getpid()}) == 4
    assert sorted(told) == [("begun", 3), ("begun", 4), ("begun", 5)]


def test_the_first_to_fail_is_raised_and_the_others_are_stopped():
    began = time.monotonic()
    with pytest.raises(DivergedError, match="learner 1: the loss became nan"):
        run_jobs(fail, [0, 1], jobs=2, threads=2)
    assert time.monotonic() - began < 30


def test_errors_that_cannot_travel_arrive_as_their_text():
    with pytest.raises(RuntimeError, match="OddError: odd"):
        run_jobs(fail_oddly, [0, 1], jobs=2, threads=2)


def test_a_killed_process_is_said():
    with pytest.raises(QuorateError, match=r"process of job \d ended without a result \(exit code -9\)"):
        run_jobs(die, [0, 1], jobs=2, threads=2)


@pytest.mark.parametrize(("jobs", "threads"), [(0, 1), (1, 0)])
def test_there_must_be_a_job_and_a_thread(jobs, threads):
    with pytest.raises(ValueError, match="jobs and threads must be at least 1"):
        run_jobs(square, [1], jobs=jobs, threads=threads)


def test_jobs_end_with_their_parent(tmp_path):
    script = (
        "from tests.train.test_jobs import linger; from quorate.train.jobs import run_jobs\n"
        f"if __name__ == '__main__': run_jobs(linger, [{str(tmp_path / 'a')!r}, {str(tmp_path / 'b')!r}], jobs=2)"
    )
    (tmp_path / "main.py").write_text(script)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([os.getcwd(), *sys.path])}
    parent = subprocess.Popen([sys.executable, tmp_path / "main.py"], env=environment)
    wait_until(lambda: all((tmp_path / name).exists() and (tmp_path / name).read_text() for name in "ab"))
    parent.kill()
    parent.wait()
    wait_until(lambda: not any(alive(int((tmp_path / name).read_text())) for name in "ab"))


def wait_until(true, seconds=18):
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end
        time.sleep(0.05)


def alive(pid):
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False
