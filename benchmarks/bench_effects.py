"""Measure how long the effect of a plan takes on PostgreSQL: 1,000 grants to a group of about 1,000 people.

The tenant has 1,000,000 entities, 10,000 users, 500 groups and 2,000,000 grants. The plan is created, then
its effect is computed in every generation, with totals, digest and the first rows. The reference is the
limit. A grant on a namespace with tens of thousands of entities is measured too.
"""

import random
import sys
import time

from benchmarks.console import bench_console
from benchmarks.size import Size

SIZE = Size(entities=1_000_000, namespaces=200, users=10_000, groups=500, grants=2_000_000)
GRANTS, MEMBERS, ROWS = 1_000, 1_000, 50
ENTITIES_IN_NAMESPACE = 54_000
MAX_SECONDS, MAX_NAMESPACE_SECONDS = 5.0, 15.0


def main() -> int:
    with bench_console():
        from benchmarks.tenants import write_tenant

        write_tenant(SIZE)
        return 0 if measure() else 1


def measure() -> bool:
    from django.contrib.auth.models import Group
    from django.db.models import Count

    from entities.models import Entity
    from entities.vocabulary import ANY
    from grants.change_set import ChangeSet, Grant
    from grants.journal import Author
    from grants.plans.permission_effect import plan_effect
    from grants.plans.sources.changes import change_set_plan
    from grants.policies.catalogue import GENERATIONS

    rng, author = random.Random(1), Author("bench")
    groups = Group.objects.annotate(members=Count("user")).values_list("name", "members")
    group, members = min(groups, key=lambda row: abs(row[1] - MEMBERS))
    namespaces = (
        Entity.objects.exclude(namespace=None)
        .order_by()
        .values_list("namespace_id")
        .annotate(total=Count("pk"))
    )
    namespace, total = min(namespaces, key=lambda row: abs(row[1] - ENTITIES_IN_NAMESPACE))
    entities = Entity.objects.filter(pk__in=rng.sample(range(SIZE.namespaces + 2, SIZE.entities), GRANTS))
    plans = [
        (
            f"{GRANTS:,} grants to a group of {members:,}",
            MAX_SECONDS,
            [(f"group:{group}", entity.address, rng.choice(ANY)) for entity in entities],
        ),
        (
            f"grants on a namespace of {total:,} entities to a group of {members:,}",
            MAX_NAMESPACE_SECONDS,
            [(f"group:{group}", Entity.objects.get(pk=namespace).address, privilege) for privilege in ANY],
        ),
    ]
    is_within_limits = True
    for title, max_seconds, grants in plans:
        plan = change_set_plan.create(author, ChangeSet.of(*(Grant(*grant) for grant in grants)))
        for generation in GENERATIONS.values():
            start = time.perf_counter()
            effect = plan_effect(plan, generation)
            summary, _, _ = (
                effect.summary,
                effect.digest,
                [row for row, _ in zip(effect.rows(), range(ROWS), strict=False)],
            )
            seconds = time.perf_counter() - start
            changed = sum(sum(part.values()) for part in summary.values())
            verdict = "ok" if seconds <= max_seconds else "TOO SLOW"
            print(
                f"effect of {title} in {generation.name}: {changed:,} changed decisions in {seconds:.2f} s, "
                f"{seconds / max_seconds:.2f} of the limit of {max_seconds:g} s: {verdict}",
                flush=True,
            )
            is_within_limits = is_within_limits and seconds <= max_seconds
    return is_within_limits


if __name__ == "__main__":
    sys.exit(main())
