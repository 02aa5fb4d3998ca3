"""Faults of the soak test hit a run at a stage."""

import os
import random
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from types import SimpleNamespace

import pytest

from benchmarks.soak import faults
from benchmarks.soak.faults import FAULTS
from benchmarks.soak.stages import hold_run, wait_while_held


def test_a_run_waits_at_a_stage_until_the_fault_is_ready(tmp_path):
    has_continued = threading.Event()

    def run():
        while not (tmp_path / "hold-writing").exists():
            pass
        wait_while_held(tmp_path, "writing", 17, lambda: None)
        has_continued.set()

    with ThreadPoolExecutor(1) as pool:
        worker = pool.submit(run)
        with hold_run(tmp_path, "writing", 10) as pid:
            assert pid == 17
            assert not has_continued.wait(0.1)
        worker.result()
    assert has_continued.is_set()
    assert list(tmp_path.iterdir()) == []


def test_no_run_waits_without_a_fault(tmp_path):
    wait_while_held(tmp_path, "writing", 17, pytest.fail)
    with hold_run(tmp_path, "computing", 0) as pid:
        wait_while_held(tmp_path, "writing", 17, pytest.fail)
    assert pid is None


def test_a_held_run_can_be_cancelled(tmp_path):
    def check():
        raise InterruptedError

    (tmp_path / "hold-writing").touch()
    with pytest.raises(InterruptedError):
        wait_while_held(tmp_path, "writing", 17, check)


def test_the_disk_is_full_when_the_held_run_continues(tmp_path, monkeypatch):
    events = []

    @contextmanager
    def hold_run(folder, stage, seconds):
        yield os.getpid()
        events.append(f"{stage} continues")

    @contextmanager
    def full_disk(folder):
        events.append("disk is full")
        yield
        events.append("disk has space")

    monkeypatch.setattr(faults, "hold_run", hold_run)
    monkeypatch.setattr(faults, "_full_disk", full_disk)
    monkeypatch.setattr(faults.time, "sleep", lambda seconds: None)
    fault = next(fault for fault in FAULTS if fault.name == "fill the disk while a report is written")
    assert fault.damage(SimpleNamespace(stages=tmp_path, folder=tmp_path), random.Random(1))
    assert events == ["disk is full", "writing continues", "disk has space"]


def test_two_faults_at_one_stage_happen_one_after_the_other(tmp_path):
    with ThreadPoolExecutor(1) as pool:
        with hold_run(tmp_path, "computing", 0):
            other = pool.submit(lambda: hold_run(tmp_path, "computing", 0).__enter__())
            with pytest.raises(TimeoutError):
                other.result(0.05)
        assert other.result(5) is None
