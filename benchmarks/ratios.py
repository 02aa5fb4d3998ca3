"""Measuring as ratios: the reference and the subject take turns, so that a drifting machine drifts for both."""

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Way:
    """One way to do the work. call(): does `count` pieces of it once."""

    name: str
    call: Callable[[], object]
    count: int


def compare(title: str, reference: Way, subject: Way, *, at_least: float, rounds: int = 7) -> bool:
    """Print how many times faster `subject` does one piece than `reference`; the median of the rounds counts."""
    ratios, reference_seconds, subject_seconds = [], [], []
    reference.call(), subject.call()
    for _ in range(rounds):
        reference_seconds.append(_seconds(reference))
        subject_seconds.append(_seconds(subject))
        ratios.append(reference_seconds[-1] / subject_seconds[-1])
    ratio = statistics.median(ratios)
    mark = "ok " if ratio >= at_least else "LOW"
    print(f"{mark} {title}: {ratio:.1f} times {reference.name} "
          f"(wanted {at_least:.2g}; rounds {min(ratios):.1f} to {max(ratios):.1f}; "
          f"{_pace(statistics.median(subject_seconds))} against {_pace(statistics.median(reference_seconds))})",
          flush=True)
    return ratio >= at_least


def _pace(seconds: float) -> str:
    return f"{seconds:.1f} s" if seconds >= 0.1 else f"{1 / seconds:,.0f}/s"


def _seconds(way: Way) -> float:
    """Of one piece."""
    started = time.perf_counter()
    way.call()
    return (time.perf_counter() - started) / way.count
