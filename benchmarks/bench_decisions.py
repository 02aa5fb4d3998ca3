"""Compare decisions with guardian's check on PostgreSQL: 500,000 grants, 100,000 entities, 5,000 users, 150
groups.
"""

import random
import sys
from collections.abc import Callable
from datetime import datetime, timedelta
from functools import cache

from django.utils import timezone

from benchmarks.console import bench_console
from benchmarks.size import Size
from entities.address import Address

SIZE = Size(entities=100_000, namespaces=200, users=5_000, groups=150, grants=500_000)
CHECKS = 400
PAGES, PAGE_ROWS = 10, 50


def main() -> int:
    with bench_console():
        return measure()


def measure() -> int:
    from benchmarks.tenants import write_tenant

    write_tenant(SIZE)
    rng = random.Random(1)
    pairs = read_pairs(rng)
    guardian = guardian_task(pairs)
    results = [
        measure_single(pairs, guardian),
        measure_batch(rng, guardian),
        measure_namespaces(rng, guardian),
        measure_periods(pairs),
        measure_recorder(pairs),
        measure_first_pages(),
        measure_over_http(pairs),
    ]
    return 0 if all(results) else 1


def read_pairs(rng: random.Random) -> list:
    """Return (user, dataset) pairs; in half of them, the user holds READ directly."""
    from entities.models import Entity
    from entities.vocabulary import Privilege
    from grants.models import User, UserGrant, permission_ids

    read = UserGrant.objects.filter(
        permission_id=permission_ids()[Privilege.READ], content_object__kind="dataset"
    )
    granted_pairs = [
        (grant.user, grant.content_object)
        for grant in read.select_related("user", "content_object")[: CHECKS // 2]
    ]
    users, datasets = list(User.objects.all()[:2_000]), list(Entity.objects.filter(kind="dataset")[:20_000])
    random_pairs = [(rng.choice(users), rng.choice(datasets)) for _ in range(CHECKS - len(granted_pairs))]
    pairs = granted_pairs + random_pairs
    rng.shuffle(pairs)
    return pairs


def guardian_task(pairs: list):
    from guardian.core import ObjectPermissionChecker

    from benchmarks.ratios import Task

    def has_perm():
        return [ObjectPermissionChecker(user).has_perm("read", dataset) for user, dataset in pairs]

    return Task("guardian has_perm", has_perm, len(pairs))


def one_by_one(questions: list) -> list[bool]:
    from grants.evaluation.facts import gather_facts
    from grants.policies.decide import is_permitted

    return [is_permitted(question, gather_facts([question])[0]) for question in questions]


def measure_single(pairs: list, guardian) -> bool:
    from benchmarks.ratios import Task, compare
    from grants.policies.question import Question

    questions = [Question("user", user.username, "read", dataset.address, "final") for user, dataset in pairs]
    answers = one_by_one(questions)
    assert answers == guardian.call(), "the engine and guardian disagree about who holds READ"
    assert 0.4 < sum(answers) / len(answers) < 0.6
    return compare(
        "one decision (final, dataset read)",
        guardian,
        Task("engine", lambda: one_by_one(questions), len(questions)),
        min_ratio=10,
    )


def measure_batch(rng: random.Random, guardian) -> bool:
    from benchmarks.ratios import Task, compare
    from grants.evaluation.engine import answer_questions

    questions = mixed_questions(rng, 1_000)
    assert [answer["decision"] for answer in answer_questions(questions)] == one_by_one(questions)
    return compare(
        "a batch of 1,000 mixed decisions, per check",
        guardian,
        Task("engine", lambda: list(answer_questions(questions)), len(questions)),
        min_ratio=60,
    )


def mixed_questions(rng: random.Random, count: int) -> list:
    """Return random operations of random generations: half on entities with a grant of the user, half on
    random entities.
    """
    from entities.models import Entity
    from entities.vocabulary import KINDS
    from grants.models import User, UserGrant
    from grants.policies.catalogue import GENERATIONS
    from grants.policies.question import Question

    grants = UserGrant.objects.select_related("user", "content_object").order_by("?")[:count]
    pairs = [(grant.user, grant.content_object) for grant in grants]
    others = list(Entity.objects.order_by("?")[:count])
    users = list(User.objects.order_by("?")[:count])
    pairs = pairs[: count // 2] + list(zip(users, others, strict=True))
    questions = [
        Question(
            "user",
            user.username,
            rng.choice(KINDS[entity.kind].operations),
            entity.address,
            rng.choice(list(GENERATIONS)),
        )
        for user, entity in pairs
        if KINDS[entity.kind].operations
    ]
    return questions[:count]


def measure_namespaces(rng: random.Random, guardian) -> bool:
    from benchmarks.ratios import Task, compare
    from entities.models import Entity
    from grants.policies.question import Question

    namespace_addresses = [entity.address for entity in Entity.objects.filter(kind="namespace")]
    is_within_limits = True
    for operation in ("list", "get"):
        questions = [
            Question(
                "user",
                f"user{rng.randint(1, SIZE.users)}",
                operation,
                rng.choice(namespace_addresses),
                "final",
            )
            for _ in range(CHECKS)
        ]
        answers = one_by_one(questions)
        assert 0.1 < sum(answers) / len(answers) < 0.95
        is_within_limits &= compare(
            f"`{operation}` of a namespace (final)",
            guardian,
            Task("engine", lambda questions=questions: one_by_one(questions), len(questions)),
            min_ratio=10,
        )
    return is_within_limits


def measure_periods(pairs: list) -> bool:
    """Measure what validity periods cost: their conditions in the statement, and 100,000 grants that end at
    the same second.
    """
    from benchmarks.ratios import Task, compare
    from grants.models import UserGrant
    from grants.policies.question import Question
    from grants.validity import at_time

    questions = [Question("user", user.username, "read", dataset.address, "final") for user, dataset in pairs]
    assert without_periods(lambda: one_by_one(questions)) == one_by_one(questions)
    reference = Task(
        "decisions without the conditions",
        lambda: without_periods(lambda: one_by_one(questions)),
        len(questions),
    )
    is_within_limits = compare(
        "decisions with validity periods",
        reference,
        Task("decisions", lambda: one_by_one(questions), len(questions)),
        min_ratio=1 / 1.1,
        rounds=15,
    )
    end = (timezone.now() + timedelta(days=1)).replace(microsecond=0)
    # the pairs are among the first grants
    UserGrant.objects.filter(pk__lt=UserGrant.objects.order_by("pk")[100_000].pk).update(valid_until=end)
    analyze_tables()

    def decide_at(moment: datetime) -> list[bool]:
        with at_time(moment):
            return one_by_one(questions)

    before = Task(
        "decisions before that second", lambda: decide_at(end - timedelta(microseconds=1)), len(questions)
    )
    ended = Task("decisions after it", lambda: decide_at(end), len(questions))
    assert sum(ended.call()) < sum(before.call())
    is_within_limits &= compare(
        "100,000 grants ended at the same second", before, ended, min_ratio=1 / 1.1, rounds=15
    )
    UserGrant.objects.filter(valid_until=end).update(valid_until=None)
    analyze_tables()
    return is_within_limits


def measure_recorder(pairs: list) -> bool:
    """Measure what recording uses costs if every permitted decision is about another user and entity, so that
    each has a row.
    """
    from benchmarks.ratios import Task, compare
    from grants.evaluation.engine import answer_questions
    from grants.policies.question import Question
    from grants.usage.recording import UsageRecorder

    questions = [Question("user", user.username, "read", dataset.address, "final") for user, dataset in pairs]
    recorder = UsageRecorder(writes_in_thread=False)

    def decide() -> list[Question]:
        return [
            question
            for question in questions
            for answer in answer_questions([question])
            if answer["decision"]
        ]

    def decide_and_record() -> None:
        for question in questions:
            for answer in answer_questions([question]):
                if answer["decision"]:
                    recorder.count((question,))
        assert recorder.write() > CHECKS // 3

    return compare(
        "decisions with records of use, each of another entity",
        Task("decisions without", decide, len(questions)),
        Task("decisions", decide_and_record, len(questions)),
        min_ratio=1 / 1.1,
        rounds=15,
    )


def without_periods(call: Callable[[], list]) -> list:
    """Call with statements that do not compare the periods of grants and memberships."""
    from grants.evaluation import facts

    with_periods = facts.statement
    facts.statement = cache(lambda *arguments: without_period_conditions(with_periods(*arguments)))
    try:
        return call()
    finally:
        facts.statement = with_periods


def without_period_conditions(text: str) -> str:
    from grants.validity import in_force_sql

    return text.replace(in_force_sql("g", "a.at"), "TRUE").replace(in_force_sql("m", "a.at"), "TRUE")


def analyze_tables() -> None:
    from django.db import connection

    with connection.cursor() as cursor:
        cursor.execute("VACUUM ANALYZE grants_usergrant")


def measure_first_pages() -> bool:
    from benchmarks.tenants import create_user_who_sees_nearly_everything

    is_within_limits = measure_first_page("a user with few grants", user_with_few_grants())
    watcher = create_user_who_sees_nearly_everything("dataset")
    return measure_first_page("a user who sees nearly everything", watcher) and is_within_limits


def user_with_few_grants():
    """Return a user with the fewest grants among those in no group that hold READ on a dataset."""
    from django.db.models import Count

    from entities.vocabulary import Privilege
    from grants.models import User, permission_ids

    reads = User.objects.filter(
        groups=None,
        grants__permission_id=permission_ids()[Privilege.READ],
        grants__content_object__kind="dataset",
    )
    return reads.annotate(grant_count=Count("grants")).order_by("grant_count", "pk").first()


def measure_first_page(title: str, user) -> bool:
    from guardian.shortcuts import get_objects_for_user

    from benchmarks.ratios import Task, compare
    from entities.models import Entity
    from grants.evaluation.authzen_search import search_entities
    from grants.policies.question import Question

    question = Question("user", user.username, "read", Address("dataset", ""), "final")

    def guardian() -> list[str]:
        datasets = get_objects_for_user(
            user, "entities.read", Entity.objects.filter(kind="dataset"), accept_global_perms=False
        )
        return [entity.key for entity in datasets.order_by("key")[:PAGE_ROWS]]

    def engine() -> list[str]:
        return search_entities(question, after="", max_rows=PAGE_ROWS).ids

    assert engine() == guardian() != []
    reference, subject = (
        Task(name, lambda search=search: [search() for _ in range(PAGES)], PAGES)
        for name, search in (("get_objects_for_user", guardian), ("search", engine))
    )
    return compare(f"first page of resource search, {title}", reference, subject, min_ratio=5)


def measure_over_http(pairs: list) -> bool:
    """Compare the endpoints over HTTP. The endpoint of the reference verifies no token."""
    from benchmarks.http_server.server import get_decisions, request_bytes, running_server
    from benchmarks.ratios import Task, compare

    secret = token_secret()
    bodies = [
        {
            "subject": {"type": "user", "id": user.username},
            "action": {"name": "read"},
            "resource": {"type": dataset.kind, "id": dataset.key},
        }
        for user, dataset in pairs
    ]
    reference = [request_bytes("/reference/guardian", body, {}) for body in bodies]
    requests = [
        request_bytes("/access/v1/evaluation", body, {"Authorization": f"Bearer {secret}"}) for body in bodies
    ]
    with running_server() as port:
        assert get_decisions(port, requests) == get_decisions(port, reference), (
            "the console and guardian disagree over HTTP"
        )
        guardian = Task("guardian has_perm over HTTP", lambda: get_decisions(port, reference), len(bodies))
        evaluation = Task("evaluation", lambda: get_decisions(port, requests), len(bodies))
        return compare("POST evaluation over HTTP, 2 workers", guardian, evaluation, min_ratio=4, rounds=15)


def token_secret() -> str:
    from authzconsole.common.tokens import create_token
    from authzconsole.models import TokenScope
    from grants.journal import Author
    from grants.models import Role, User

    owner = User.objects.create(username="benchmark", role=Role.ADMINISTRATOR, is_principal=False)
    author = Author(owner.username, user_id=owner.pk)
    return create_token(
        author=author, owner=owner.username, name="benchmark", scopes=[TokenScope.DECIDE], days=1
    ).secret


if __name__ == "__main__":
    sys.exit(main())
