"""Store the live entities that a plan leaves with fewer than two active ADMIN holders.

Besides revocations of ADMIN, memberships that end and users who are deactivated can strand entities.
"""

from django.db.models import Q, QuerySet

from entities.address import Address
from entities.models import Entity, State
from entities.selectors import entities_at
from entities.vocabulary import MIN_ADMINISTRATORS, Privilege
from grants.administrators import Stranded, too_few_administrators
from grants.bulk_rows import chunks, insert_rows
from grants.effects.changes import changes_at
from grants.effects.strandings import stranded_entities as entities_stranded_by
from grants.history import AsOfError, HistoryNotReady, as_of
from grants.models import MEMBERSHIP_VERBS, Plan, PlanStranding, PlanVerb, permission_ids
from grants.plan_items import change_of_item
from grants.validity import at_time


def store_strandings(plan: Plan) -> None:
    """Store the entities that the plan strands. Runs one query without a change that can strand entities;
    otherwise those of `grants.effects.strandings.stranded_entities`, and a statement for each chunk of entities.
    """
    of_admin = Q(permission_id=permission_ids()[Privilege.ADMIN])
    ends = Q(verb=PlanVerb.REVOKE) & of_admin | Q(verb__in=[PlanVerb.LEAVE, PlanVerb.DEACTIVATE])
    # a later beginning replaces the period of what is stored
    ends |= Q(valid_from__isnull=False)
    if not plan.items.filter(ends, is_noop=False).exists():
        return
    others = Q(
        verb__in=[PlanVerb.ADD, PlanVerb.ADD_USER, *MEMBERSHIP_VERBS, PlanVerb.ACTIVATE, PlanVerb.DEACTIVATE]
    )
    items = plan.items.filter(of_admin | others).order_by("position")
    with at_time() as now:
        stranded = entities_stranded_by(changes_at(map(change_of_item, items), now))
        rows = [(plan.pk, row.admin_count, row.address.kind, row.address.key) for row in stranded]
    for chunk in chunks(rows):
        insert_rows(PlanStranding, ["plan_id", "admins_left", "kind", "key"], chunk)


def delete_restored_strandings(plan: Plan, revision: int) -> None:
    """Delete the stored entities that have no more administrators in the past, before the plan that `plan`
    undoes, than after it.

    revision: of that past. Deletes nothing if the history does not go back so far.
    Runs the queries of `as_of`, one for the stored entities, and five others and a statement for each chunk.
    """
    stored = list(plan.strandings.all())
    if not stored:
        return
    restored = []
    try:
        with as_of(revision):
            for chunk in chunks(stored):
                live = entities_at(
                    {Address(row.kind, row.key) for row in chunk}, Entity.objects.filter(state=State.LIVE)
                )
                few = too_few_administrators([entity.pk for entity in live.values()])
                counts = {
                    address: len(few.get(entity.pk, range(MIN_ADMINISTRATORS)))
                    for address, entity in live.items()
                }
                restored += [
                    row.pk
                    for row in chunk
                    if row.admins_left >= counts.get(Address(row.kind, row.key), MIN_ADMINISTRATORS)
                ]
    except (AsOfError, HistoryNotReady):
        return
    for chunk in chunks(restored):
        plan.strandings.filter(pk__in=chunk).delete()


def stranded_entities(plan: Plan, *, max_rows: int) -> list[Stranded]:
    """Return the first entities that the plan strands.

    Entities without an ADMIN holder come first. Runs one query.
    """
    rows: QuerySet = plan.strandings.order_by("admins_left", "kind", "key")[:max_rows]
    return [Stranded(Address(row.kind, row.key), row.admins_left) for row in rows]
