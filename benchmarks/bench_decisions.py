"""Decisions against django-guardian's own check, on PostgreSQL: 500,000 grants, 100,000 entities, 5,000 users, 150 groups."""

import os
import random
import sys

from authzconsole.ops.postgres import postgresql

SIZE = {"entities": 100_000, "users": 5_000, "groups": 150, "grants": 500_000}
CHECKS = 400


def main() -> int:
    with postgresql() as url:
        os.environ |= {"DATABASE_URL": url, "DJANGO_SETTINGS_MODULE": "authzconsole.settings"}
        import django

        django.setup()
        from django.core.management import call_command

        call_command("migrate", verbosity=0)
        return measure()


def measure() -> int:
    from benchmarks.tenants import Size, tenant_write

    tenant_write(Size(**SIZE))
    dice = random.Random(1)
    pairs = read_pairs(dice)
    guardian = guardian_way(pairs)
    kept = [single(pairs, guardian), batch(dice, guardian), namespaces(dice, guardian)]
    return 0 if all(kept) else 1


def read_pairs(dice: random.Random) -> list:
    """(user, dataset) pairs of which half hold READ directly."""
    from entities.models import Entity
    from entities.vocabulary import Privilege
    from grants.models import User, UserGrant, permission_ids

    read = UserGrant.objects.filter(permission_id=permission_ids()[Privilege.READ], content_object__kind="dataset")
    held = [(grant.user, grant.content_object) for grant in read.select_related("user", "content_object")[: CHECKS // 2]]
    users, datasets = list(User.objects.all()[:2_000]), list(Entity.objects.filter(kind="dataset")[:20_000])
    pairs = held + [(dice.choice(users), dice.choice(datasets)) for _ in range(CHECKS - len(held))]
    dice.shuffle(pairs)
    return pairs


def guardian_way(pairs: list):
    from guardian.core import ObjectPermissionChecker

    from benchmarks.ratios import Way

    def has_perm():
        return [ObjectPermissionChecker(user).has_perm("read", dataset) for user, dataset in pairs]

    return Way("guardian has_perm", has_perm, len(pairs))


def one_by_one(questions: list) -> list[bool]:
    from grants.facts import gather
    from grants.policies.decide import is_permitted

    return [is_permitted(question, gather([question])[0]) for question in questions]


def single(pairs: list, guardian) -> bool:
    from benchmarks.ratios import Way, compare
    from grants.policies.question import Question

    questions = [Question("user", user.username, "read", dataset.address, "final") for user, dataset in pairs]
    answers = one_by_one(questions)
    assert answers == guardian.call(), "the engine and guardian disagree about who holds READ"
    assert 0.4 < sum(answers) / len(answers) < 0.6
    return compare("one decision (final, dataset read)", guardian, Way("engine", lambda: one_by_one(questions), len(questions)),
                   at_least=10)


def batch(dice: random.Random, guardian) -> bool:
    from benchmarks.ratios import Way, compare
    from grants.engine import answers

    questions = mixed_questions(dice, 1_000)
    assert [answer["decision"] for answer in answers(questions)] == one_by_one(questions)
    return compare("a batch of 1,000 mixed decisions, per check", guardian,
                   Way("engine", lambda: list(answers(questions)), len(questions)), at_least=60)


def mixed_questions(dice: random.Random, count: int) -> list:
    """Any operation of any generation on an entity that the user holds something on, and as often on another."""
    from entities.models import Entity
    from entities.vocabulary import KINDS
    from grants.models import User, UserGrant
    from grants.policies.catalogue import GENERATIONS
    from grants.policies.question import Question

    held = UserGrant.objects.select_related("user", "content_object").order_by("?")[:count]
    pairs = [(grant.user, grant.content_object) for grant in held]
    others = list(Entity.objects.order_by("?")[:count])
    users = list(User.objects.order_by("?")[:count])
    pairs = pairs[: count // 2] + list(zip(users, others, strict=True))
    questions = [Question("user", user.username, dice.choice(KINDS[entity.kind].operations), entity.address,
                          dice.choice(list(GENERATIONS))) for user, entity in pairs if KINDS[entity.kind].operations]
    return questions[:count]


def namespaces(dice: random.Random, guardian) -> bool:
    from benchmarks.ratios import Way, compare
    from entities.models import Entity
    from grants.policies.question import Question

    places = [entity.address for entity in Entity.objects.filter(kind="namespace")]
    kept = True
    for operation in ("list", "get"):
        questions = [Question("user", f"user{dice.randint(1, SIZE['users'])}", operation, dice.choice(places), "final")
                     for _ in range(CHECKS)]
        answers = one_by_one(questions)
        assert 0.1 < sum(answers) / len(answers) < 0.95
        kept &= compare(f"`{operation}` of a namespace (final)", guardian,
                        Way("engine", lambda asked=questions: one_by_one(asked), len(questions)), at_least=10)
    return kept


if __name__ == "__main__":
    sys.exit(main())
