"""Apply a plan as a whole, discard it, or create the inverse plan that undoes it."""

from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager

from django.contrib.auth.models import Group
from django.db import transaction
from django.db.models import (
    Case,
    Q,
    When,
)
from django.utils import timezone

from grants.authority.four_eyes import check_application
from grants.authority.transactions import administrator_transaction
from grants.bulk_rows import database_time, update_rows
from grants.change_set import (
    Addition,
    ApplyPlan,
    Change,
    ChangeSet,
    Exclude,
    Grant,
    Leave,
    MembershipChange,
    RemovePrincipal,
    Revoke,
    inverse_of,
    principals_of,
    with_current_names,
)
from grants.changes import Shown, check_shown, write_changes
from grants.errors import ChangeRefused, PlanError, PrincipalError, StalePlan
from grants.grant_attributes import GrantAttributes
from grants.guardrails.check import AddedViolations, make_within_guardrails, preview_violations
from grants.journal import Author, JournalEntry, append_to_journal, lock_journal, verify_part
from grants.models import (
    GroupGrant,
    JournalHead,
    JournalLine,
    Plan,
    PlanItem,
    PlanState,
    PlanVerb,
    RoleGroup,
)
from grants.outcomes import Outcome
from grants.plan_items import (
    ITEMS_PER_BATCH,
    change_of_item,
    changes_of_plan,
    item_batches,
    plan_by_id,
    proposed_plan,
)
from grants.plans.counts import VERB_COUNTS, PrincipalEffects, change_count, changing_items
from grants.plans.create import PlanDraft, PlanOrigin, plan_source
from grants.plans.permission_effect import check_effect
from grants.plans.sources.redundant import has_duty
from grants.plans.staleness import invalidating_line, line_summary
from grants.policies.principals import group_text, type_and_name
from grants.principal_names import principals_by_name
from grants.principals.hooks import end_duties
from grants.principals.renaming import names_since
from grants.principals.services import user_by_name
from grants.progress import report_progress
from grants.querysets import memberships
from grants.stored_changes import (
    stored_grants,
    stored_memberships,
    stored_role_groups,
)
from grants.validity import VALIDITY_COLUMNS, Validity
from grants.verification import PLAN_CREATE, first_plan_in_journal, plan_digest

ENDED_ACCESS = "API tokens and sessions that ended with the deactivation do not come back: create new tokens, and sign in again."


def apply_plan(*, author: Author, plan_id: int, shown: Shown | None = None) -> Plan:
    """Make all changes of a plan in one transaction, in batches of ITEMS_PER_BATCH, with the author's reason.

    shown: is compared with the effect, which is computed again; None applies the plan without computing its
    effect. Raise StalePlan if the plan is stale, PlanError if it is not proposed or the reason
    is missing, EffectChanged if the effect is not the one that was shown, EffectUnconfirmed if it is not
    accepted, SecondPersonRequired if another person must apply it.
    """
    with administrator_transaction(author) as head:
        plan = proposed_plan(plan_id)
        _make(head, author, plan, check_plan(head, author, plan, shown))
    return plan


def check_plan(head: JournalHead, author: Author, plan: Plan, shown: Shown | None) -> dict:
    """Check whether `apply_plan` can apply the plan, except for its changes. Return the summary of its effect.

    Raise the errors of `apply_plan`, EffectNotShown and EffectChanged with the preview if the effect was shown for a change
    set.
    """
    if not author.reason.strip():
        raise PlanError("the reason is missing: the journal stores it with every change")
    _check_content(plan)
    check_application(author, plan)
    _check_current(head, plan)
    if shown is None:
        return {}
    if shown.identity is None:
        return check_effect(plan, shown)
    check_shown(ChangeSet.of(*changes_of_plan(plan)), shown, lambda: None)
    return {}


def write_plan(head: JournalHead, author: Author, plan: Plan, shown: Shown | None) -> None:
    """Apply a proposed plan like `apply_plan`, for a caller that holds the lock of the journal and has
    checked the author.
    """
    _check_current(head, plan)
    _make(head, author, plan, check_effect(plan, shown) if shown else {})


def _make(head: JournalHead, author: Author, plan: Plan, permissions: dict) -> None:
    """Make the changes of a checked plan within the guardrails. permissions: the summary of its effect."""
    counts, added = make_within_guardrails(
        head, author, changes_of_plan(plan), lambda: _write_items(head, author, plan)
    )
    _finish(head, author, plan, counts)
    if permissions:
        plan.effect["permissions"] = permissions
    if added.rows:
        plan.effect["violations"] = list(added.sentences)
    _close_plan(plan, PlanState.APPLIED, author)


def write_plan_of_set(head: JournalHead, author: Author, change: ApplyPlan, is_effect_shown: bool) -> Outcome:
    """Apply a plan with the other changes of a set, for `grants.changes.apply`, which compares the effect of the set and
    checks its guardrails. Raise the other errors of `apply_plan`.

    is_effect_shown: the effect of the set is still the one that was shown, so a stale plan is applied too: changes
    elsewhere do not end a scheduled activation.
    """
    plan = proposed_plan(change.plan)
    _check_content(plan)
    check_application(author, plan)
    if not is_effect_shown:
        _check_current(head, plan)
    _finish(head, author, plan, _write_items(head, author, plan))
    _close_plan(plan, PlanState.APPLIED, author)
    return Outcome(True, f"{plan} is applied", head.revision)


def _check_current(head: JournalHead, plan: Plan) -> None:
    """Raise StalePlan if the plan is stale."""
    if (line := invalidating_line(plan)) is not None:
        raise StalePlan(str(plan), plan.base_revision, head.revision, line_summary(line))


def _finish(head: JournalHead, author: Author, plan: Plan, counts: dict[str, int]) -> None:
    """Do what follows the changes of the items, and set what the plan stores about them. counts: of `_write_items`."""
    if plan.origin == PlanOrigin.OFF_BOARDING and plan.recipe.get("deactivate"):
        leaver = user_by_name(plan.recipe["user"])
        append_to_journal(head, end_duties(leaver), author=author)
    if change_count(counts):
        append_to_journal(head, [JournalEntry("plan-apply", detail=f"{plan}: {plan.title}")], author=author)
    plan.effect = plan.effect | counts | {"principals": len(PrincipalEffects(plan))}
    plan.revision = head.revision


@contextmanager
def rehearsed_plan(plan_id: int) -> Iterator[Plan]:
    """Make the changes of a proposed plan while the context is open, and roll them back. Guardrails refuse nothing.

    Raise PlanError if the plan is not proposed, or cannot be applied.
    """
    with transaction.atomic():
        head, plan = lock_journal(), proposed_plan(plan_id)
        _write_items(head, Author("check_guardrails"), plan)
        yield plan
        transaction.set_rollback(True)


def plan_violations(plan: Plan) -> AddedViolations:
    """Return the violations of guardrails that a proposed plan would add; none if it cannot be applied."""
    return preview_violations(changes_of_plan(plan), lambda head: _write_items(head, Author("preview"), plan))


def _check_content(plan: Plan) -> None:
    """Raise PlanError if the items or makers are not those of the journal line about the creation.

    Plans of earlier versions have no such line. Runs seven queries.
    """
    first = first_plan_in_journal()
    if first is None or plan.pk < first:
        return
    lines = JournalLine.objects.filter(action=PLAN_CREATE, detail__startswith=f"{plan}: ")
    line = lines.order_by("revision").first()
    if (
        line is None
        or not line.detail.endswith(f"; content {plan_digest(plan)}")
        or verify_part(line.revision - 1, 1).chain_break is not None
    ):
        raise PlanError(
            f"{plan} was changed in the database after it was created: discard it, create it again, and let an "
            f"operator run `manage.py verify_journal`"
        )


def discard_plan(*, author: Author, plan_id: int) -> Plan:
    """Discard a proposed plan. Raise PlanError if it is not proposed."""
    with administrator_transaction(author) as head:
        plan = proposed_plan(plan_id)
        _close_plan(plan, PlanState.DISCARDED, author)
        append_to_journal(head, [JournalEntry("plan-discard", detail=f"{plan}: {plan.title}")], author=author)
    return plan


@plan_source(PlanOrigin.INVERSE, lambda plan: {"plan_id": plan.inverse_of_id})
def inverse_plan(plan_id: int) -> PlanDraft:
    """Return a plan that undoes the changes of an applied plan.

    Groups that it added are removed, except those that have other members, grants or duties since then.
    Raise PlanError if the plan was not applied, or if there is nothing to undo.
    """
    plan = plan_by_id(plan_id)
    if plan.state != PlanState.APPLIED:
        raise PlanError(f"{plan} is {plan.state}: only an applied plan can be undone")
    if plan.origin == PlanOrigin.SYNC:
        raise PlanError(
            f"{plan} made the console equal to a platform, so the next sync would make its changes again: change the platform"
        )

    undone = PlanError(
        f"the changes of {plan} were already undone{_by_inverse(plan)}: there is nothing to undo"
    )

    def check(inverse: Plan) -> None:
        if not change_count(inverse.effect):
            raise undone

    current_name = names_since(plan.revision or 0)
    items = changing_items(plan).order_by()
    added = [current_name(item.principal) for item in items.filter(verb=PlanVerb.ADD)]
    if principals_by_name(added).keys() != set(added) and _by_inverse(plan):
        raise undone
    kept = _groups_in_use(plan, added, current_name)
    notes = [ENDED_ACCESS] if items.filter(verb=PlanVerb.DEACTIVATE).exists() else []
    if kept:
        notes.append(f"{', '.join(kept)} got other members, grants or duties, and remains.")
    return PlanDraft(
        title=f"Undo {plan}: {plan.title}",
        changes=_opposite_changes(plan, kept, current_name),
        inverse_of=plan,
        recipe={"note": " ".join(notes)} if notes else {},
        watches=added,
        empty_message=f"{plan} changed nothing: there is nothing to undo",
        check=check,
    )


def applied_plan(origin: PlanOrigin, **recipe: object) -> Plan | None:
    """Return the newest applied plan of a source with these values in its recipe; None if it was undone, or there
    is none. Runs at most two queries.
    """
    values = {f"recipe__{name}": value for name, value in recipe.items()}
    rows = Plan.objects.filter(state=PlanState.APPLIED, origin=origin, **values)
    plan = rows.order_by("-pk").first()
    return None if plan is None or plan.inverses.filter(state=PlanState.APPLIED).exists() else plan


def _by_inverse(plan: Plan) -> str:
    """Return a string such as ` by plan 7` if an inverse plan was applied; otherwise an empty string."""
    applied = plan.inverses.filter(state=PlanState.APPLIED).order_by("-pk").first()
    return f" by {applied}" if applied else ""


def _close_plan(plan: Plan, state: PlanState, author: Author) -> None:
    """Save the plan as applied or discarded."""
    plan.state, plan.decided_by, plan.decided_at, plan.reason = (
        state,
        author.name,
        timezone.now(),
        author.reason,
    )
    plan.save(update_fields=["state", "decided_by", "decided_at", "reason", "revision", "effect"])


def _write_items(head: JournalHead, author: Author, plan: Plan) -> dict[str, int]:
    """Make the changes of all items.

    Return the counts of the changes, as in `Plan.effect`. Raise PlanError if one is invalid.
    """
    counts = dict.fromkeys((*VERB_COUNTS.values(), "periods_removed", "already", "planned"), 0)
    for batch in item_batches(plan):
        changed, periods_removed, planned = _write_batch(head, author, plan, batch)
        counts["periods_removed"] += periods_removed
        for row in changed:
            counts[VERB_COUNTS[row.verb]] += 1
        counts["already"] += len(batch) - len(changed)
        counts["planned"] += planned
        changed_pks = {row.pk for row in changed}
        report_progress(len(batch))
        _toggle_noop([row for row in batch if row.is_noop is (row.pk in changed_pks)])
    return counts


def _write_batch(
    head: JournalHead, author: Author, plan: Plan, batch: list[PlanItem]
) -> tuple[list[PlanItem], int, int]:
    """Make the changes of these items.

    Return the items that changed something, and the numbers of removed periods and of planned addresses.
    """
    changes = {change_of_item(row): row for row in batch}
    restores = plan.origin == PlanOrigin.INVERSE
    try:
        outcome = write_changes(
            head,
            author,
            changes,
            detail=str(plan),
            attributes=GrantAttributes(reason=_restored_reason(author, plan)) if restores else None,
            allows_past_end=restores,
        )
    except ChangeRefused as refusal:
        error = refusal.errors[0]
        position = [row for change, row in changes.items() if change.verb == error.verb][error.index].position
        raise PlanError(f"item {position:,} of {plan} cannot be applied: {error.message}") from None
    except PrincipalError as error:
        raise PlanError(f"{plan} cannot be applied: {error}") from None
    _store_periods_before(
        [
            (row, outcome.before.get(change.key))
            for change, row in changes.items()
            if isinstance(change, Grant | Revoke | MembershipChange)
        ]
    )
    periods_removed = sum(not change.validity.is_limited for change in outcome.changed_periods)
    return [changes[change] for change in outcome.changes], periods_removed, len(outcome.planned)


def _restored_reason(author: Author, plan: Plan) -> str:
    """Return the reason of a grant that an undo restores.

    The author and the time of the grant are those of the undo. The reason names the plan,
    and its page leads to the original ones.
    """
    return f"{author.reason} (restored by {plan}, which undid {plan.inverse_of})"


def _store_periods_before(periods: Iterable[tuple[PlanItem, Validity | None]]) -> None:
    """Store the periods that the items replaced or ended, so that they can be restored. None means that there
    was no earlier period."""
    rows = []
    for item, before in periods:
        changes_period = before is not None and item.verb in (PlanVerb.GRANT, PlanVerb.JOIN)
        if (changes_period, before or Validity()) != (item.changes_period, item.validity_before):
            rows.append((*map(database_time, before or Validity()), changes_period, item.pk))
    update_rows(PlanItem, (*(f"old_{name}" for name in VALIDITY_COLUMNS), "changes_period"), rows)


def _toggle_noop(rows: list[PlanItem]) -> None:
    """Toggle `is_noop` of these items, because their actual effect differs from the expected effect."""
    for is_noop in (True, False):
        pks = [row.pk for row in rows if row.is_noop is not is_noop]
        if pks:
            PlanItem.objects.filter(pk__in=pks).update(is_noop=is_noop)


def _opposite_changes(
    plan: Plan, kept: Collection[str], current_name: Callable[[str], str]
) -> Iterator[Change]:
    """Yield the inverse of each change but for the removal of kept groups. Groups are added first, and removed last."""
    order = Case(When(verb=PlanVerb.REMOVE, then=0), When(verb=PlanVerb.ADD, then=2), default=1)
    for row in changing_items(plan).order_by(order, "position").iterator(chunk_size=ITEMS_PER_BATCH):
        change = change_of_item(row)
        has_before = row.changes_period or isinstance(change, Revoke | Leave | Exclude)
        inverse = with_current_names(
            inverse_of(change, row.validity_before if has_before else None), current_name
        )
        if not isinstance(inverse, RemovePrincipal) or inverse.principal not in kept:
            yield inverse


def _groups_in_use(plan: Plan, groups: Collection[str], current_name: Callable[[str], str]) -> list[str]:
    """Return those of the groups and roles, in written form, that have members, grants, roles or duties that the plan did
    not give them. Runs five queries.
    """
    if not groups:
        return []
    names = [type_and_name(name)[1] for name in groups]
    given = {
        with_current_names(change, current_name).key
        for change in map(change_of_item, changing_items(plan))
        if isinstance(change, Addition)
    }
    duties = Group.objects.filter(has_duty(""), name__in=names).values_list("name", flat=True)
    used = {group_text(name) for name in duties}
    is_in_use = Q(group__name__in=names) | Q(role__name__in=names)
    for change in (
        *stored_grants(GroupGrant.objects.filter(group__name__in=names)),
        *stored_memberships(memberships().filter(group__name__in=names)),
        *stored_role_groups(RoleGroup.objects.filter(is_in_use)),
    ):
        if change.key not in given:
            used.update({*groups}.intersection(principals_of(change)))
    return sorted(used)
