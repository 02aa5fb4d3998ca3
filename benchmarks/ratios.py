"""Measure ratios: the reference and the subject take turns, so that changes in machine speed affect both."""

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Task:
    """An implementation of the work to measure. A call does `count` units of work."""

    name: str
    call: Callable[[], object]
    count: int


def compare(title: str, reference: Task, subject: Task, *, min_ratio: float, rounds: int = 7) -> bool:
    """Print how many times faster `subject` does one unit of work than `reference`, as the median of the
    rounds.

    Return whether the ratio is at least `min_ratio`.
    """
    ratios, reference_seconds, subject_seconds = [], [], []
    reference.call(), subject.call()
    for _ in range(rounds):
        reference_seconds.append(_seconds(reference))
        subject_seconds.append(_seconds(subject))
        ratios.append(reference_seconds[-1] / subject_seconds[-1])
    ratio = statistics.median(ratios)
    mark = "ok " if ratio >= min_ratio else "LOW"
    print(
        f"{mark} {title}: {ratio:.1f} times {reference.name} "
        f"(required {min_ratio:.2g}; rounds {min(ratios):.1f} to {max(ratios):.1f}; "
        f"{_pace(statistics.median(subject_seconds))} against {_pace(statistics.median(reference_seconds))})",
        flush=True,
    )
    return ratio >= min_ratio


def _pace(seconds: float) -> str:
    return f"{seconds:.1f} s" if seconds >= 0.1 else f"{1 / seconds:,.0f}/s"


def _seconds(task: Task) -> float:
    """Return the seconds for one unit of work."""
    started = time.perf_counter()
    task.call()
    return (time.perf_counter() - started) / task.count
