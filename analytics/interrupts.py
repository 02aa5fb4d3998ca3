"""DuckDB databases that another thread can interrupt.

The watch of a run uses this to end queries of the executing thread.
"""

import threading
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress

import duckdb

# The open databases by the thread that opened them. The lock keeps a database open while it is interrupted.
_open_databases: dict[int, set[duckdb.DuckDBPyConnection]] = defaultdict(set)
_lock = threading.Lock()


@contextmanager
def interruptible_database(config: Mapping[str, str]) -> Iterator[duckdb.DuckDBPyConnection]:
    """Open a DuckDB database in memory. `interrupt_queries` can end its queries."""
    thread = threading.get_ident()
    with duckdb.connect(config=dict(config)) as database:
        with _lock:
            _open_databases[thread].add(database)
        try:
            yield database
        finally:
            with _lock:
                _open_databases[thread].discard(database)
                if not _open_databases[thread]:
                    del _open_databases[thread]


def interrupt_queries(thread: int) -> None:
    """End the running DuckDB queries of a thread with `duckdb.InterruptException`.

    Later queries are not affected.
    """
    with _lock:
        for database in _open_databases.get(thread, ()):
            with suppress(duckdb.Error):
                database.interrupt()
