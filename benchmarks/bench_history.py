"""Measure questions about the past on PostgreSQL, with a journal of HISTORY_LINES lines (default 1,000,000).

The lines add 100,000 entities, 5,000 users, 150 groups, memberships, grants and revocations. Prints how long
the first derivation of the history takes, and the time of decisions, searches and pages of lists at several
revisions.
"""

import os
import random
import statistics
import sys
import time
from collections.abc import Callable, Iterator

from benchmarks.console import bench_console

LINES = int(os.environ.get("HISTORY_LINES", "1000000"))
NAMESPACES, ENTITIES, USERS, GROUPS, MEMBERSHIPS = 200, 100_000, 5_000, 150, 15_000
MAX_SECONDS, ROUNDS, PAGE_ROWS = 2.0, 10, 50
WATCHER = "watchers"


def main() -> int:
    with bench_console():
        return measure()


def measure() -> int:
    from grants.authority.transactions import administrator_transaction
    from grants.history.periods import catch_up
    from grants.journal import Author, append_to_journal, current_revision

    author = Author("benchmark")
    with administrator_transaction(author) as head:
        append_to_journal(head, changes(random.Random(3)), author=author)
    start = time.perf_counter()
    catch_up()
    seconds, newest = time.perf_counter() - start, current_revision()
    print(
        f"ok  the first derivation of {newest:,} lines: {seconds:.0f} s ({1_000_000 * seconds / newest:.0f} us per line)",
        flush=True,
    )
    results = [
        report(title, revision, question)
        for title, question in questions().items()
        for revision in (newest // 5, newest // 2, newest)
    ]
    return 0 if all(results) else 1


def changes(rng: random.Random) -> Iterator:
    """Yield the changes of the journal: principals and entities first, then grants and revocations at random."""
    from entities.vocabulary import Privilege
    from grants.journal import JournalEntry

    datasets = [f"dataset:ns{rng.randint(1, NAMESPACES)}.d{number}" for number in range(ENTITIES)]
    yield JournalEntry("register", entity="instance:cdap")
    yield from (
        JournalEntry("register", entity=f"namespace:ns{number}") for number in range(1, NAMESPACES + 1)
    )
    yield from (JournalEntry("group-add", principal=f"group:g{number}") for number in range(GROUPS))
    yield JournalEntry("group-add", principal=f"group:{WATCHER}")
    yield from (JournalEntry("user-add", principal=f"user:u{number}") for number in range(USERS))
    yield JournalEntry("user-add", principal=f"user:{WATCHER}")
    yield JournalEntry("member-add", principal=f"user:{WATCHER}", detail=f"group:{WATCHER}")
    pairs = {(rng.randint(0, USERS - 1), rng.randint(0, GROUPS - 1)) for _ in range(MEMBERSHIPS)}
    yield from (
        JournalEntry("member-add", principal=f"user:u{user}", detail=f"group:g{group}")
        for user, group in sorted(pairs)
    )
    yield from (JournalEntry("register", entity=dataset) for dataset in datasets)
    yield from (
        JournalEntry("grant", f"group:{WATCHER}", dataset, "READ")
        for number, dataset in enumerate(datasets)
        if number % 20
    )
    count = GROUPS + USERS + NAMESPACES + len(pairs) + 2 * ENTITIES
    held: set[tuple[str, str, str]] = set()
    while count < LINES:
        principal = (
            f"group:g{rng.randint(0, GROUPS - 1)}"
            if rng.random() < 0.4
            else f"user:u{rng.randint(0, USERS - 1)}"
        )
        key = principal, rng.choice(datasets), rng.choice(list(Privilege)).value
        yield JournalEntry("revoke" if key in held else "grant", *key)
        held ^= {key}
        if rng.random() < 0.1:
            yield JournalEntry("revoke", *held.pop())
            count += 1
        count += 1


def questions() -> dict[str, Callable]:
    from django.db.models import Count

    from entities.address import Address
    from entities.models import Entity
    from grants.active_generation import active_generation
    from grants.evaluation.authzen_search import search_entities, search_principals
    from grants.evaluation.engine import answer_questions, check
    from grants.evaluation.visibility import visibility_of
    from grants.models import User
    from grants.policies.question import Question

    rng = random.Random(4)
    addresses = [Address("namespace", f"ns{number}") for number in range(1, NAMESPACES + 1)]

    def question(operation: str, target: Address, user: str = "") -> Question:
        return Question("user", user or f"u{rng.randint(0, USERS - 1)}", operation, target, "final")

    def first_page(user_name: str):
        user = User.objects.get(username=user_name)
        visibility = visibility_of(user, active_generation())
        rows = Entity.objects.filter(visibility.first_rows).order_by("kind", "key")
        return list(rows[:PAGE_ROWS])

    def content():
        namespace = Entity.objects.get(kind="namespace", key=f"ns{rng.randint(1, NAMESPACES)}")
        rows = Entity.objects.filter(namespace=namespace).order_by("kind", "key")
        return list(rows.order_by().values("kind", "state").annotate(total=Count("*"))), list(
            rows[:PAGE_ROWS]
        )

    return {
        "a decision": lambda: check(question("list", rng.choice(addresses))),
        "1,000 decisions": lambda: list(
            answer_questions([question("get", rng.choice(addresses)) for _ in range(1_000)])
        ),
        "who can list a namespace": lambda: search_principals(
            question("list", rng.choice(addresses)), after="", max_rows=PAGE_ROWS
        ),
        "what a user can read": lambda: search_entities(
            question("read", Address("dataset", "")), after="", max_rows=PAGE_ROWS
        ),
        "what a user can read who reads nearly everything": lambda: search_entities(
            question("read", Address("dataset", ""), WATCHER), after="", max_rows=PAGE_ROWS
        ),
        "the first page of a user who sees nearly everything": lambda: first_page(WATCHER),
        "the first page of a user with few grants": lambda: first_page(f"u{rng.randint(0, USERS - 1)}"),
        "the content of a namespace": content,
    }


def report(title: str, revision: int, question: Callable) -> bool:
    from grants.history import as_of

    seconds = []
    for _ in range(ROUNDS):
        start = time.perf_counter()
        with as_of(revision):
            question()
        seconds.append(time.perf_counter() - start)
    is_good = max(seconds) <= MAX_SECONDS
    print(
        f"{'ok ' if is_good else 'LOW'} {title} at revision {revision:,}: {1_000 * statistics.median(seconds):.0f} ms, at most "
        f"{1_000 * max(seconds):.0f} ms (allowed {1_000 * MAX_SECONDS:.0f} ms)",
        flush=True,
    )
    return is_good


if __name__ == "__main__":
    sys.exit(main())
