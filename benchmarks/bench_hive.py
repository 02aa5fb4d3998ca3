"""Measure the first sync of a Hive metastore with 10,000 tables and 100,000 privileges, a sync without changes, and drift,
on PostgreSQL.

Run it on its own (`python -m benchmarks.bench_hive`): filling the metastore takes most of the time.
"""

import random
import sys
import time

from benchmarks.console import bench_console

DATABASES, TABLES, USERS, PRIVILEGES = 50, 10_000, 2_000, 100_000
MAX_SECONDS = 120


def main() -> int:
    with bench_console() as state:
        from django.core.management import call_command

        from tests.support.metastore import running_metastore

        folder = state / "metastore"
        folder.mkdir()
        with running_metastore(folder) as metastore:
            fill(metastore)
            call_command("connection", "add", "hive", "lake", "--url", metastore.url)
            return (
                0 if all(measure(title) for title in ("first sync", "sync without changes", "drift")) else 1
            )


def fill(metastore) -> None:
    """Create the databases, tables and privileges: SELECT on random tables for random users."""
    started, rng = time.perf_counter(), random.Random(1)
    names = [f"t{number}" for number in range(TABLES // DATABASES)]
    for number in range(DATABASES):
        metastore.create(f"d{number}", *names)
    wanted = set()
    while len(wanted) < PRIVILEGES:
        wanted.add((f"user{rng.randrange(USERS)}", f"d{rng.randrange(DATABASES)}.{rng.choice(names)}"))
    metastore.grant_all((f"user:{user}", table, "SELECT") for user, table in sorted(wanted))
    print(f"filled the metastore in {time.perf_counter() - started:.0f} s", flush=True)


def measure(title: str) -> bool:
    from authzconsole.connections import services
    from grants.journal import Author

    connection = services.connection_by_name("lake")
    started = time.perf_counter()
    if title == "drift":
        count = len(list(services.compare_connection(connection).drift))
    else:
        result = services.computed_sync(connection)
        services.sync(connection, result, author=Author("connection", "benchmark"))
        count = len(result.change_set)
    seconds = time.perf_counter() - started
    is_fast = seconds <= MAX_SECONDS
    print(
        f"{'ok ' if is_fast else 'LOW'} {title}: {seconds:.1f} s (at most {MAX_SECONDS}), {count:,} changes"
    )
    return is_fast


if __name__ == "__main__":
    sys.exit(main())
