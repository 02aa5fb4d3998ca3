"""Measure grants on patterns as CPU time of Python and of the PostgreSQL backend: decisions with and without 10,000 patterns
beside 500,000 grants, registrations, and a pattern that matches 100,000 entities.
"""

import random
import sys
import time
from collections.abc import Callable

from benchmarks.console import bench_console, database_process, process_seconds
from benchmarks.size import Size

SIZE = Size(entities=400_000, namespaces=400, users=5_000, groups=150, grants=500_000)
PATTERNS, QUESTIONS, REGISTRATIONS = 10_000, 2_000, 20


def main() -> int:
    with bench_console():
        return measure()


def cpu_of(task: Callable[[], object]) -> float:
    """Return the CPU time of a task, in this process and in that of the database."""
    pid = database_process()
    before = time.process_time() + process_seconds(pid)
    task()
    return time.process_time() + process_seconds(pid) - before


def measure() -> int:
    from django.db import connection

    from benchmarks.tenants import write_tenant
    from entities.address import Address, parse_address, parse_grantable
    from entities.models import Entity
    from entities.vocabulary import Privilege
    from grants.change_set import ChangeSet, Grant, Register
    from grants.changes import apply
    from grants.evaluation.engine import check
    from grants.journal import Author
    from grants.models import User
    from grants.policies.question import Question

    write_tenant(SIZE)
    author, dice = Author("the benchmark", reason="benchmark"), random.Random(1)
    users = list(User.objects.values_list("username", flat=True)[:1_000])
    datasets = [
        Address(*row) for row in Entity.objects.filter(kind="dataset").values_list("kind", "key")[:20_000]
    ]
    namespaces = list(Entity.objects.filter(kind="namespace").values_list("key", flat=True))
    questions = [
        Question("user", dice.choice(users), "read", dice.choice(datasets), "final") for _ in range(QUESTIONS)
    ]

    def ask() -> None:
        for question in questions:
            check(question)

    def register(prefix: str) -> None:
        for number in range(REGISTRATIONS):
            address = parse_address(f"dataset:{namespaces[number]}.{prefix}{number}")
            apply(ChangeSet.of(Register(address)), author=author)

    ask()
    without = min(cpu_of(ask) for _ in range(3))
    registered = cpu_of(lambda: register("before"))
    patterns = [
        Grant(
            f"user:{dice.choice(users)}",
            parse_grantable(f"dataset:{dice.choice(namespaces)}.{number:x}*"),
            Privilege.READ,
        )
        for number in range(PATTERNS)
    ]
    begin = time.monotonic()
    for start in range(0, PATTERNS, 1_000):
        apply(ChangeSet.of(*patterns[start : start + 1_000]), author=author)
    print(f"{PATTERNS:,} patterns granted in {time.monotonic() - begin:.1f} s")
    with connection.cursor() as cursor:
        cursor.execute("VACUUM ANALYZE")
    ask()
    with_patterns = min(cpu_of(ask) for _ in range(3))
    registered_with = cpu_of(lambda: register("after"))
    begin = time.monotonic()
    big = cpu_of(
        lambda: apply(
            ChangeSet.of(Grant("group:group1", parse_grantable("dataset:*"), Privilege.READ)), author=author
        )
    )
    matched = Entity.objects.filter(kind="dataset").count()
    ratio = with_patterns / without
    more = (registered_with - registered) / REGISTRATIONS * 1_000
    print(f"decisions: {with_patterns / QUESTIONS * 1_000:.3f} ms, {ratio:.2f} times those without patterns")
    print(f"registration: {registered / REGISTRATIONS * 1_000:.0f} ms, {more:.1f} ms more with patterns")
    print(
        f"a pattern that matches {matched:,} entities: {big:.1f} s of CPU, {time.monotonic() - begin:.1f} s"
    )
    return 0 if ratio <= 1.1 and more <= 20 and big <= 10 else 1


if __name__ == "__main__":
    sys.exit(main())
