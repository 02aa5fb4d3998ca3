"""Measure what 1,000 guardrails of all forms add to the CPU time of a single grant on PostgreSQL.

The tenant has 100,000 entities, 5,000 users, 200 groups and 200,000 grants. The same grants are made, previewed
and rolled back without and with guardrails. Half of those that forbid privileges name whole namespaces, and many are
violated. CPU time is that of Python and of the server process of the connection, the least of three calls. The limit
applies to 95 of 100 grants that are made.
"""

import random
import statistics
import sys
import time
from collections.abc import Callable

from benchmarks.console import bench_console, database_process, process_seconds
from benchmarks.size import Size

SIZE = Size(entities=100_000, namespaces=200, users=5_000, groups=200, grants=200_000)
FORBID, FORBID_BOTH, REQUIRE, EXPECT = 400, 300, 50, 250
GRANTS, CALLS = 60, 3
MAX_MILLISECONDS = 20


def main() -> int:
    with bench_console():
        from benchmarks.tenants import write_tenant

        write_tenant(SIZE)
        return 0 if measure() else 1


def measure() -> bool:
    from entities.models import Entity
    from entities.vocabulary import ANY
    from grants.change_set import ChangeSet, Grant
    from grants.changes import apply, preview
    from grants.errors import GuardrailHolds
    from grants.journal import Author

    rng, author = random.Random(2), Author("bench")
    entities = Entity.objects.filter(pk__in=rng.sample(range(SIZE.namespaces + 2, SIZE.entities), GRANTS))
    changes = {
        f"a grant to a {name}": [
            ChangeSet.of(Grant(f"{name}:{name}{rng.randint(1, count)}", entity.address, rng.choice(ANY)))
            for entity in entities
        ]
        for name, count in (("user", SIZE.users), ("group", SIZE.groups))
    }

    def make(change_set: ChangeSet) -> None:
        try:
            apply(change_set, author=author, is_rehearsal=True)
        except GuardrailHolds:
            pass

    tasks: dict[str, tuple[Callable[[ChangeSet], object], list[ChangeSet]]] = {}
    for title, change_sets in changes.items():
        tasks |= {title: (make, change_sets), f"the preview of {title}": (preview, change_sets)}
    without = {title: _milliseconds(*task) for title, task in tasks.items()}
    write_guardrails(random.Random(3))
    is_within_limits = True
    for title, task in tasks.items():
        with_guardrails = _milliseconds(*task)
        rows = [after - before for before, after in zip(without[title], with_guardrails, strict=True)]
        median, slow = statistics.median(rows), statistics.quantiles(rows, n=20, method="inclusive")[-1]
        is_limited = not title.startswith("the preview")
        verdict = f": {'ok' if slow <= MAX_MILLISECONDS else 'TOO SLOW'}" if is_limited else ""
        print(
            f"1,000 guardrails add {median:.1f} ms in the median to {statistics.median(without[title]):.1f} ms "
            f"of {title}, {slow:.1f} ms in 95 of 100{verdict}",
            flush=True,
        )
        is_within_limits = is_within_limits and (slow <= MAX_MILLISECONDS or not is_limited)
    return is_within_limits


def write_guardrails(rng: random.Random) -> None:
    """Write the guardrails, without journal lines."""
    from django.contrib.auth.models import Group
    from django.db import connection

    from entities.models import Entity
    from entities.vocabulary import ANY, KINDS
    from grants.guardrails.rules import rule_from_members
    from grants.guardrails.storage import store_rule
    from grants.models import User

    users, groups = User.objects.in_bulk(field_name="username"), Group.objects.in_bulk(field_name="name")
    principals = {f"user:{name}": row for name, row in users.items()}
    principals |= {f"group:{name}": row for name, row in groups.items()}
    kinds = [kind for kind in KINDS if kind != "instance"]

    def place() -> str:
        pk = rng.randint(2, SIZE.namespaces if rng.random() < 0.5 else SIZE.entities)
        return str(Entity.objects.get(pk=pk).address)

    def members(number: int) -> dict:
        privileges = [str(privilege) for privilege in rng.sample(ANY, 2)]
        if number < FORBID:
            of = {"members_of": f"group:{rng.choice([*groups])}"} if number % 2 else {}
            return {"forbid": {**of, "privileges": privileges[: 1 + number % 2], "within": place()}}
        if number < FORBID + FORBID_BOTH:
            return {"forbid_both": [{"privilege": name, "within": place()} for name in privileges]}
        if number < FORBID + FORBID_BOTH + REQUIRE:
            on = f"kind:{rng.choice(kinds)}"
            return {"require": {"privilege": privileges[0], "on": on, "at_least": rng.randint(1, 5)}}
        kind, _, key = place().partition(":")
        return {
            "expect": {
                "subject": {"type": "user", "id": rng.choice([*users])},
                "action": {"name": privileges[0]},
                "resource": {"type": kind, "id": key},
            },
            "decision": rng.random() < 0.5,
        }

    for number in range(FORBID + FORBID_BOTH + REQUIRE + EXPECT):
        rule = rule_from_members(members(number))
        store_rule(f"guardrail-{number}", rule, author="bench", principals=principals)
    with connection.cursor() as cursor:
        cursor.execute("VACUUM ANALYZE")


def _milliseconds(call: Callable, change_sets: list) -> list[float]:
    """Return the CPU time of each call."""
    pid = database_process()
    # the first call fills caches
    call(change_sets[0])
    return [
        min(_cpu_milliseconds(lambda change_set=change_set: call(change_set), pid) for _ in range(CALLS))
        for change_set in change_sets
    ]


def _cpu_milliseconds(call: Callable[[], object], pid: int) -> float:
    """Return the CPU time of a call, in this process and in another one."""

    def now() -> float:
        return time.process_time() + process_seconds(pid)

    start = now()
    call()
    return (now() - start) * 1_000


if __name__ == "__main__":
    sys.exit(main())
