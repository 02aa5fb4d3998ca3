"""The settings of the console, with a clock that the soak test can shift by writing seconds to the file
SOAK_CLOCK, and with runs that it can hold at a stage (`stages.py`).

Only the wall clock of Django and of `time.time` is shifted. (libfaketime makes `time.sleep` of Python fail if
the monotonic clock stays real.)
"""

import os
import time
from datetime import datetime, timedelta
from pathlib import Path

from celery.signals import worker_process_init
from django.utils import timezone

from authzconsole.settings import *  # noqa: F403
from benchmarks.soak.stages import wait_while_held

_clock, _stages = Path(os.environ["SOAK_CLOCK"]), Path(os.environ["SOAK_STAGES"])
_real_time, _real_now = time.time, timezone.now
_cached = (-1.0, 0)


def _shift() -> int:
    """Return the shift in seconds; the file is read at most ten times a second."""
    global _cached
    read_at = time.monotonic()
    if read_at - _cached[0] > 0.1:
        _cached = (read_at, int(_clock.read_text()))
    return _cached[1]


def _shifted_time() -> float:
    return _real_time() + _shift()


def _shifted_now() -> datetime:
    return _real_now() + timedelta(seconds=_shift())


time.time, timezone.now = _shifted_time, _shifted_now


@worker_process_init.connect
def _hold_runs(**_: object) -> None:
    from grants.jobs import JobContext

    begin_stage = JobContext.begin_stage

    def begin_and_wait(context, stage):
        begin_stage(context, stage)
        wait_while_held(_stages, str(stage), os.getpid(), context.check)

    JobContext.begin_stage = begin_and_wait
