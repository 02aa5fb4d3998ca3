"""Report the progress of large changes to a job, which shows it and can end them."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

Report = Callable[[int], None]
_report: ContextVar[Report] = ContextVar("report", default=lambda count: None)


@contextmanager
def progress_to(report: Report) -> Iterator[None]:
    """Call `report` with the number of changes of each step that is done while the context is open. It may raise an exception,
    which ends the changes.
    """
    token = _report.set(report)
    try:
        yield
    finally:
        _report.reset(token)


def report_progress(count: int) -> None:
    """Report that so many more changes are made."""
    _report.get()(count)
