"""Measure the first sync of a CDAP with 200,000 entities in a thousand namespaces, a sync without changes, and one that
deletes a tenth of the datasets, on PostgreSQL.

The stand-in for CDAP runs in another process, and its CPU time is printed separately. Start this benchmark alone
with `python -m benchmarks.bench_cdap`.
"""

import multiprocessing
import resource
import sys
import time

from benchmarks.console import bench_console, database_process, process_seconds

NAMESPACES, APPLICATIONS, PROGRAMS, DATASETS = 1_000, 30, 2, 109
MAX_SECONDS = 120


def main() -> int:
    ours, theirs = multiprocessing.Pipe()
    # before this process loads Django
    server = multiprocessing.get_context("fork").Process(target=serve, args=(theirs,), daemon=True)
    server.start()
    address = ours.recv()
    with bench_console():
        from django.core.management import call_command

        call_command("connection", "add", "cdap", "prod", "--url", address)
        results = [measure(title, ours) for title in ("first sync", "sync without changes", "tenth deleted")]
        server.kill()
        return 0 if all(results) else 1


def serve(pipe) -> None:
    """Serve a stand-in. Answer `tick` with the CPU seconds of this process, and delete datasets for `delete`."""
    from tests.support.cdap_server import Cdap, Namespace
    from tests.support.stand_in import running

    applications = [f"app-{number}" for number in range(APPLICATIONS)]
    cdap = Cdap()
    for number in range(NAMESPACES):
        cdap.namespaces[f"n{number}"] = Namespace(
            applications={name: ["-SNAPSHOT"] for name in applications},
            programs=[
                (list_name, name, "main")
                for name in applications
                for list_name in ("spark", "workflows")[:PROGRAMS]
            ],
            datasets=[f"d{dataset}" for dataset in range(DATASETS)],
        )
    with running(cdap):
        pipe.send(cdap.url)
        while True:
            if pipe.recv() == "delete":
                for namespace in cdap.namespaces.values():
                    namespace.datasets = namespace.datasets[: len(namespace.datasets) * 9 // 10]
            cdap.requests.clear()
            pipe.send(time.process_time())


def measure(title: str, pipe) -> bool:
    from authzconsole.connections import services
    from grants.journal import Author

    pipe.send("delete" if title == "tenth deleted" else "tick")
    server = pipe.recv()
    connection, pid = services.connection_by_name("prod"), database_process()
    started, cpu, database = time.perf_counter(), time.process_time(), process_seconds(pid)
    result = services.computed_sync(connection)
    read = time.perf_counter() - started, time.process_time() - cpu
    services.sync(connection, result, author=Author("connection", "benchmark"))
    seconds = time.perf_counter() - started
    used, database = time.process_time() - cpu, process_seconds(pid) - database
    pipe.send("tick")
    # without the time of the server, and independent of the other work of the machine
    is_fast = used + database <= MAX_SECONDS
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    print(
        f"{'ok ' if is_fast else 'LOW'} {title}: CPU {used:.1f} s (reading {read[1]:.1f}) and of PostgreSQL {database:.1f} (at most "
        f"{MAX_SECONDS} together), of the server {pipe.recv() - server:.1f}; {seconds:.1f} s in all, {read[0]:.1f} to "
        f"read and compare; {len(result.change_set):,} changes, {memory} MB",
        flush=True,
    )
    return is_fast


if __name__ == "__main__":
    sys.exit(main())
