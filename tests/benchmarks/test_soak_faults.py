"""Faults of the soak test hit a run at a stage, and kinds that never hit are violations."""

import os
import random
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from types import SimpleNamespace

import pytest

from benchmarks.soak import __main__ as soak_test
from benchmarks.soak import faults
from benchmarks.soak.fault_counts import NEVER_HIT_FACTOR, FaultCounts
from benchmarks.soak.faults import FAULTS, InjectedFault
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


LIGHT, HEAVY = (
    InjectedFault("light", lambda *_: True, 1, is_light=True),
    InjectedFault("heavy", lambda *_: True, 1),
)
WAITING, OTHER = (InjectedFault(name, lambda *_: True, 1, needs_run=True) for name in ("waiting", "other"))


def test_a_fault_that_needs_a_run_is_disturbed_by_light_faults_only():
    counts, dice = FaultCounts([LIGHT, HEAVY, WAITING, OTHER]), random.Random(1)
    assert {counts.choose(dice, (), is_heavy_phase=True) for _ in range(50)} == {LIGHT, HEAVY}
    assert counts.choose(dice, (), is_heavy_phase=False) == WAITING
    assert {counts.choose(dice, ["waiting"], is_heavy_phase=False) for _ in range(50)} == {LIGHT}
    assert counts.is_waiting(["waiting"]) and not counts.is_waiting(["light", "heavy"])
    assert counts.choose(dice, ["waiting", "light"], is_heavy_phase=False) is None
    # the kinds take turns
    counts.hits["waiting"] += 1
    assert counts.choose(dice, (), is_heavy_phase=False) == OTHER
    assert counts.never_hit() == ["light", "heavy", "other"]


def test_kinds_that_never_hit_are_preferred():
    counts, dice = FaultCounts([LIGHT, HEAVY]), random.Random(1)
    counts.hits["light"] += 1
    chosen = [counts.choose(dice, (), is_heavy_phase=True) for _ in range(400)]
    assert chosen.count(HEAVY) == pytest.approx(400 * NEVER_HIT_FACTOR / (NEVER_HIT_FACTOR + 1), rel=0.15)


def test_hits_and_attempts_are_counted(monkeypatch):
    def wait(console, choose):
        return threading.Event().wait(0.02)

    kinds = (
        InjectedFault("works", lambda *_: True, 1, is_light=True),
        InjectedFault("finds nothing", wait, 1, needs_run=True),
    )
    monkeypatch.setattr(soak_test, "faults_for", lambda console: kinds)
    monkeypatch.setattr(soak_test, "FAULT_SECONDS", 0.001)
    monkeypatch.setattr(soak_test, "HEAVY_SECONDS", 0)
    counts = soak_test.cause_faults(SimpleNamespace(log_event=lambda text: None), 0.1, random.Random(1))
    assert counts.hits["works"] == counts.attempts["works"] > 0
    assert counts.attempts["finds nothing"] > 0
    assert counts.never_hit() == ["finds nothing"]


def test_every_fault_of_a_run_waits_for_one():
    stages = {fault.name for fault in FAULTS if fault.needs_run}
    assert {"kill Java", "kill a Python worker of Spark", "fill the disk while a report is written"} <= stages
    assert not any(fault.is_light for fault in FAULTS if fault.needs_run)


def test_two_faults_at_one_stage_happen_one_after_the_other(tmp_path):
    with ThreadPoolExecutor(1) as pool:
        with hold_run(tmp_path, "computing", 0):
            other = pool.submit(lambda: hold_run(tmp_path, "computing", 0).__enter__())
            with pytest.raises(TimeoutError):
                other.result(0.05)
        assert other.result(5) is None
