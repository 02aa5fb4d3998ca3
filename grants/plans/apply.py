"""What becomes of a plan: it is applied as a whole, discarded, or undone by a plan of its own."""

from collections.abc import Iterator

from django.db import transaction
from django.utils import timezone

from grants.changes.authority import administrator_transaction
from grants.changes.outcomes import ChangeItem
from grants.changes.services import write_changes
from grants.errors import ChangeRefused, PlanError, StalePlan
from grants.journal import Author, Change, append_to_journal, current_revision
from grants.models import JournalHead, Plan, PlanItem, PlanState, PlanVerb
from grants.plans.create import PlanChange, PlanDraft, create_plan
from grants.plans.effect import PrincipalEffects, changing_items
from grants.plans.staleness import line_summary, stale_line

ITEMS_AT_ONCE = 2_000
OPPOSITE = {PlanVerb.GRANT: PlanVerb.REVOKE, PlanVerb.REVOKE: PlanVerb.GRANT}


def apply_plan(*, author: Author, plan_id: int) -> Plan:
    """Make all of its changes in one transaction, with the author's reason, in chunks of ITEMS_AT_ONCE.

    Raises StalePlan where something that it depends on changed since it was made, PlanError where it is not a proposal or
    no reason is given.
    """
    if not author.reason.strip():
        raise PlanError("the reason is missing: say why, it stands in the journal with every change")
    with administrator_transaction(author) as head:
        plan = _proposed(plan_id)
        if (line := stale_line(plan)) is not None:
            raise StalePlan(str(plan), plan.base_revision, head.revision, line_summary(line))
        effect = _changed(head, author, plan)
        if effect["grants"] or effect["revokes"]:
            append_to_journal(head, [Change("plan-apply", detail=f"{plan}: {plan.title}")], author=author)
        plan.effect = plan.effect | effect | {"principals": len(PrincipalEffects(plan))}
        plan.revision = head.revision
        _decided(plan, PlanState.APPLIED, author)
    return plan


def discard_plan(*, author: Author, plan_id: int) -> Plan:
    """Raises PlanError where it is not a proposal."""
    with administrator_transaction(author):
        plan = _proposed(plan_id)
        _decided(plan, PlanState.DISCARDED, author)
    return plan


def create_inverse_plan(*, author: Author, plan_id: int) -> Plan:
    """A plan that takes back what an applied one really changed. Raises PlanError."""
    plan = plan_by_id(plan_id)
    if plan.state != PlanState.APPLIED:
        raise PlanError(f"{plan} is {plan.state}: only what was applied can be undone")
    with transaction.atomic():
        inverse = create_plan(author=author, draft=PlanDraft(
            title=f"Undo {plan}: {plan.title}", origin="inverse", changes=_opposites(plan), base_revision=current_revision(),
            inverse_of=plan, nothing=f"{plan} changed nothing: there is nothing to undo"))
        if not (inverse.effect["grants"] or inverse.effect["revokes"]):
            raise PlanError(f"what {plan} changed was taken back already{_by_whom(plan)}: there is nothing to undo")
    return inverse


def _by_whom(plan: Plan) -> str:
    applied = plan.inverses.filter(state=PlanState.APPLIED).order_by("-pk").first()
    return f" by {applied}" if applied else ""


def plan_by_id(plan_id: int) -> Plan:
    plan = Plan.objects.filter(pk=plan_id).first()
    if plan is None:
        raise PlanError(f"there is no plan {plan_id}")
    return plan


def _proposed(plan_id: int) -> Plan:
    """Under the lock of the journal, so that a plan is decided once."""
    plan = plan_by_id(plan_id)
    if not plan.is_proposed:
        raise PlanError(f"{plan} was {plan.state} already, by {plan.decided_by}")
    return plan


def _decided(plan: Plan, state: PlanState, author: Author) -> None:
    plan.state, plan.decided_by, plan.decided_at, plan.reason = state, author.name, timezone.now(), author.reason
    plan.save(update_fields=["state", "decided_by", "decided_at", "reason", "revision", "effect"])


def _changed(head: JournalHead, author: Author, plan: Plan) -> dict[str, int]:
    """Make the changes. Returns what was done, as in `Plan.effect`."""
    done = dict.fromkeys(("grants", "revokes", "already", "planned"), 0)
    for batch in _batches(plan):
        given = {verb: [row for row in batch if row.verb == verb] for verb in PlanVerb}
        items = {verb.value: [_item(row) for row in rows_of_verb] for verb, rows_of_verb in given.items()}
        try:
            outcome = write_changes(head, author, **items, detail=str(plan))
        except ChangeRefused as refused:
            (index, verb, message), *_ = refused.errors
            raise PlanError(f"item {given[verb][index].position:,} of {plan} cannot be done: {message}") from None
        changed = {*outcome.granted, *outcome.revoked}
        _mark([row for row in batch if row.is_noop is (_item(row) in changed)])
        for name, count in (("grants", len(outcome.granted)), ("revokes", len(outcome.revoked)),
                            ("already", len(batch) - len(changed)), ("planned", len(outcome.planned))):
            done[name] += count
    return done


def _batches(plan: Plan) -> Iterator[list[PlanItem]]:
    """Each is read by itself: SQLite does not read on in a table that was written meanwhile."""
    last = 0
    while batch := list(plan.items.filter(position__gt=last).order_by("position")[:ITEMS_AT_ONCE]):
        yield batch
        last = batch[-1].position


def _mark(rows: list[PlanItem]) -> None:
    """Turn the flag of those around for which it came otherwise."""
    for is_noop in (True, False):
        pks = [row.pk for row in rows if row.is_noop is not is_noop]
        if pks:
            PlanItem.objects.filter(pk__in=pks).update(is_noop=is_noop)


def _item(row: PlanItem) -> ChangeItem:
    return ChangeItem(row.principal, row.address, row.privilege)


def _opposites(plan: Plan) -> Iterator[PlanChange]:
    for row in changing_items(plan).order_by("position").iterator(chunk_size=ITEMS_AT_ONCE):
        yield OPPOSITE[PlanVerb(row.verb)].value, row.principal, row.address, row.privilege
