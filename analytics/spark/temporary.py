"""What Spark keeps for the tables that this process computes, until they are written: broadcasts and persisted frames."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

_releases: list[Callable[[], object]] = []


def release_later(release: Callable[[], object]) -> None:
    """Call this function at the end of the block of `release_temporary`."""
    _releases.append(release)


@contextmanager
def release_temporary() -> Iterator[None]:
    """Release at the end of the block what its tables needed. They cannot be read after that."""
    try:
        yield
    finally:
        while _releases:
            _releases.pop()()
