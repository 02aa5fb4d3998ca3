"""Measure the time and memory of `verify_journal`, which replays the whole journal and compares it with the
tables and with the history, on PostgreSQL.

The journal has JOURNAL_LINES lines (default 200,000; the requirement is 2,000,000 lines in two minutes). They
are hashed and signed by the code of the console: one line for each row of a tenant, and grants that were
given and revoked.
"""

import json
import os
import random
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from itertools import chain, islice
from pathlib import Path

from authzconsole.ops import ROOT
from benchmarks.console import bench_console
from benchmarks.size import Size

LINES = int(os.environ.get("JOURNAL_LINES", "200000"))
SIZE = Size(
    entities=LINES // 10,
    namespaces=max(2, LINES // 10_000),
    users=LINES // 200 + 10,
    groups=LINES // 4_000 + 10,
    grants=LINES * 3 // 5,
)
VERIFY = "verify"
# by the state of an entity, the action after which it has this state
STATE_ACTIONS = {"live": "register", "planned": "plan", "deleted": "delete"}
LINES_PER_TRANSACTION = 50_000
MAX_SECONDS_PER_LINE, MAX_STARTUP_SECONDS, MAX_MEGABYTES = 120 / 2_000_000, 5, 400


def main() -> int:
    with bench_console():
        from django.db import connection

        from benchmarks.tenants import write_tenant

        write_tenant(SIZE)
        started = time.perf_counter()
        write_journal(LINES)
        with connection.cursor() as cursor:
            cursor.execute("VACUUM ANALYZE grants_journalline")
        print(f"   {LINES:,} lines were written in {time.perf_counter() - started:.0f} s", flush=True)
        from grants.history import catch_up

        started = time.perf_counter()
        catch_up()
        print(f"   the history was derived in {time.perf_counter() - started:.0f} s", flush=True)
        return 0 if measure() else 1


def write_journal(lines: int) -> None:
    """Append lines for the tenant in the database, then lines for grants and their revocations, until there
    are `lines` lines."""
    from django.db import transaction

    from grants.journal import Author, append_to_journal, lock_journal

    changes = tenant_changes(lines)
    while batch := list(islice(changes, LINES_PER_TRANSACTION)):
        with transaction.atomic():
            append_to_journal(
                lock_journal(), batch, author=Author("benchmark", reason="a change of the benchmark")
            )


def tenant_changes(lines: int) -> Iterator:
    from grants.journal import JournalEntry
    from grants.verification.facts import SEPARATOR, facts_of_tables

    # the order of the tables does not matter to the replay, only that grants come last
    facts, grants = [], []
    for key, value in facts_of_tables():
        type_, *names = key.split(SEPARATOR)
        match type_:
            case "entity":
                facts.append(JournalEntry(STATE_ACTIONS[value], entity=names[0]))
            case "group":
                facts.append(JournalEntry("group-add", principal=names[0]))
            case "active":
                facts.append(
                    JournalEntry(
                        "user-add", principal=names[0], detail="inactive" if value == "inactive" else ""
                    )
                )
            case "member":
                facts.append(JournalEntry("member-add", principal=names[0], detail=names[1]))
            case "grant":
                grants.append(names)
    pairs = (lines - len(facts) - len(grants)) // 2
    revoked = (
        name
        for names in random.Random(7).choices(grants, k=pairs)
        for name in (("grant", *names), ("revoke", *names))
    )
    given = (("grant", *names) for names in grants)
    return chain(facts, (JournalEntry(*names) for names in chain(revoked, given)))


def measure() -> bool:
    """Print the time and memory of the command in a separate process, and return whether both are within the
    limits.
    """
    result = subprocess.run(
        [sys.executable, "-m", "benchmarks.bench_journal", VERIFY], cwd=ROOT, capture_output=True, text=True
    )
    assert result.returncode == 0, (result.stdout + result.stderr)[-1_000:]
    seconds, cpu_seconds, megabytes = json.loads(result.stdout.splitlines()[-1])
    max_seconds = MAX_STARTUP_SECONDS + LINES * MAX_SECONDS_PER_LINE
    is_within_limits = seconds <= max_seconds and megabytes <= MAX_MEGABYTES
    print(
        f"{'ok ' if is_within_limits else 'LOW'} verify_journal of {LINES:,} lines: {seconds:.1f} s "
        f"(limit {max_seconds:.0f} s), {cpu_seconds:.1f} s of CPU time in Python; "
        f"{megabytes:.0f} MB (limit {MAX_MEGABYTES} MB)",
        flush=True,
    )
    return is_within_limits


def verify() -> int:
    """Verify the journal in this process, and print (seconds, seconds of CPU time, peak memory in MB) as
    JSON.
    """
    import django

    django.setup()
    from django.core.management import call_command

    started = time.perf_counter()
    call_command("verify_journal")
    peak = re.search(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())
    assert peak is not None
    print(json.dumps([time.perf_counter() - started, time.process_time(), int(peak[1]) / 1_000]))
    return 0


if __name__ == "__main__":
    sys.exit(verify() if VERIFY in sys.argv else main())
