"""Apply a plan as a whole, discard it, or create the inverse plan that undoes it."""

from collections.abc import Iterator

from django.db import transaction
from django.utils import timezone

from grants.changes.authority import administrator_transaction
from grants.changes.outcomes import ChangeItem
from grants.changes.services import write_changes
from grants.errors import ChangeRefused, PlanError, StalePlan
from grants.journal import Author, Change, append_to_journal, current_revision
from grants.models import JournalHead, Plan, PlanItem, PlanState, PlanVerb
from grants.plans.create import PlanChange, PlanDraft, PlanOrigin, create_plan
from grants.plans.effect import PrincipalEffects, changing_items
from grants.plans.staleness import invalidating_line, line_summary

ITEMS_PER_BATCH = 2_000
OPPOSITE_VERBS = {PlanVerb.GRANT: PlanVerb.REVOKE, PlanVerb.REVOKE: PlanVerb.GRANT}


def apply_plan(*, author: Author, plan_id: int) -> Plan:
    """Make all changes of a plan in one transaction, in batches of ITEMS_PER_BATCH, with the author's reason.

    Raise StalePlan if the plan is stale, PlanError if it is not proposed or the reason is missing.
    """
    if not author.reason.strip():
        raise PlanError("the reason is missing: the journal stores it with every change")
    with administrator_transaction(author) as head:
        plan = _proposed_plan(plan_id)
        if (line := invalidating_line(plan)) is not None:
            raise StalePlan(str(plan), plan.base_revision, head.revision, line_summary(line))
        counts = _write_items(head, author, plan)
        if counts["grants"] or counts["revokes"]:
            append_to_journal(head, [Change("plan-apply", detail=f"{plan}: {plan.title}")], author=author)
        plan.effect = plan.effect | counts | {"principals": len(PrincipalEffects(plan))}
        plan.revision = head.revision
        _close_plan(plan, PlanState.APPLIED, author)
    return plan


def discard_plan(*, author: Author, plan_id: int) -> Plan:
    """Discard a proposed plan. Raise PlanError if it is not proposed."""
    with administrator_transaction(author) as head:
        plan = _proposed_plan(plan_id)
        _close_plan(plan, PlanState.DISCARDED, author)
        append_to_journal(head, [Change("plan-discard", detail=f"{plan}: {plan.title}")], author=author)
    return plan


def create_inverse_plan(*, author: Author, plan_id: int) -> Plan:
    """Create a plan that undoes the changes of an applied plan.

    Raise PlanError if the plan was not applied, or if there is nothing to undo.
    """
    plan = plan_by_id(plan_id)
    if plan.state != PlanState.APPLIED:
        raise PlanError(f"{plan} is {plan.state}: only an applied plan can be undone")
    with transaction.atomic():
        inverse = create_plan(author=author, draft=PlanDraft(
            title=f"Undo {plan}: {plan.title}", origin=PlanOrigin.INVERSE, changes=_opposite_changes(plan),
            base_revision=current_revision(), inverse_of=plan,
            empty_message=f"{plan} changed nothing: there is nothing to undo"))
        if not (inverse.effect["grants"] or inverse.effect["revokes"]):
            raise PlanError(f"the changes of {plan} were already undone{_by_inverse(plan)}: there is nothing to undo")
    return inverse


def plan_by_id(plan_id: int) -> Plan:
    """Return the plan with this number. Raise PlanError if there is none."""
    plan = Plan.objects.filter(pk=plan_id).first()
    if plan is None:
        raise PlanError(f"there is no plan {plan_id}")
    return plan


def _by_inverse(plan: Plan) -> str:
    """Return a string such as ` by plan 7` if an inverse plan was applied; otherwise an empty string."""
    applied = plan.inverses.filter(state=PlanState.APPLIED).order_by("-pk").first()
    return f" by {applied}" if applied else ""


def _proposed_plan(plan_id: int) -> Plan:
    """Return the plan. Raise PlanError if it is not proposed.

    The caller must hold the lock of the journal; otherwise two callers could apply or discard the same plan.
    """
    plan = plan_by_id(plan_id)
    if not plan.is_proposed:
        raise PlanError(f"{plan} was already {plan.state} by {plan.decided_by}")
    return plan


def _close_plan(plan: Plan, state: PlanState, author: Author) -> None:
    """Save the plan as applied or discarded."""
    plan.state, plan.decided_by, plan.decided_at, plan.reason = state, author.name, timezone.now(), author.reason
    plan.save(update_fields=["state", "decided_by", "decided_at", "reason", "revision", "effect"])


def _write_items(head: JournalHead, author: Author, plan: Plan) -> dict[str, int]:
    """Make the changes of all items. Return the counts of the changes, as in `Plan.effect`. Raise PlanError if one is invalid."""
    counts = dict.fromkeys(("grants", "revokes", "already", "planned"), 0)
    for batch in _batches(plan):
        rows_by_verb = {verb: [row for row in batch if row.verb == verb] for verb in PlanVerb}
        items_by_verb = {verb.value: [_change_item(row) for row in rows] for verb, rows in rows_by_verb.items()}
        try:
            outcome = write_changes(head, author, **items_by_verb, detail=str(plan))
        except ChangeRefused as refusal:
            (index, verb, message), *_ = refusal.errors
            position = rows_by_verb[verb][index].position
            raise PlanError(f"item {position:,} of {plan} cannot be applied: {message}") from None
        changed = {*outcome.granted, *outcome.revoked}
        _toggle_noop([row for row in batch if row.is_noop is (_change_item(row) in changed)])
        counts["grants"] += len(outcome.granted)
        counts["revokes"] += len(outcome.revoked)
        counts["already"] += len(batch) - len(changed)
        counts["planned"] += len(outcome.planned)
    return counts


def _batches(plan: Plan) -> Iterator[list[PlanItem]]:
    """Yield the items in batches. Each batch is one query, because SQLite cannot continue to read a table after a write to it."""
    last_position = 0
    while batch := list(plan.items.filter(position__gt=last_position).order_by("position")[:ITEMS_PER_BATCH]):
        yield batch
        last_position = batch[-1].position


def _toggle_noop(rows: list[PlanItem]) -> None:
    """Toggle `is_noop` of these items, because their actual effect differs from the expected effect."""
    for is_noop in (True, False):
        pks = [row.pk for row in rows if row.is_noop is not is_noop]
        if pks:
            PlanItem.objects.filter(pk__in=pks).update(is_noop=is_noop)


def _change_item(row: PlanItem) -> ChangeItem:
    return ChangeItem(row.principal, row.address, row.privilege)


def _opposite_changes(plan: Plan) -> Iterator[PlanChange]:
    for row in changing_items(plan).order_by("position").iterator(chunk_size=ITEMS_PER_BATCH):
        yield OPPOSITE_VERBS[PlanVerb(row.verb)].value, row.principal, row.address, row.privilege
