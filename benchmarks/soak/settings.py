"""The settings of the console, with a clock that the soak test can shift by writing seconds to the file SOAK_CLOCK.

Only the wall clock of Django and of `time.time` is shifted. (libfaketime makes `time.sleep` of Python fail if the monotonic clock
stays real.)
"""

import os
import time
from datetime import datetime, timedelta
from pathlib import Path

from django.utils import timezone

from authzconsole.settings import *  # noqa: F403

_clock = Path(os.environ["SOAK_CLOCK"])
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
