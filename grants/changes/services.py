"""Validate a change set, show its effect, and make it: all of its changes or none, in one transaction with their
journal lines.

INVARIANT: no change of a form has an effect that the form did not show.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cached_property
from itertools import groupby
from typing import Any, cast

from django.contrib.auth.models import Group
from django.db import transaction
from django.utils import timezone

from entities.frozen import frozen
from entities.services import instance_fault
from grants.active_generation import active_generation, write_active_generation
from grants.administrators import Strandings
from grants.authority.delegation import BY_DELEGATION
from grants.authority.four_eyes import check_direct_change
from grants.authority.rights import check_delegated_changes
from grants.authority.transactions import administrator_transaction, check_capability, grant_transaction
from grants.change_set import (
    Activate,
    ActivateGeneration,
    AddGroup,
    Addition,
    AddUser,
    ApplyPlan,
    Change,
    ChangeSet,
    Deactivate,
    Delete,
    DeleteGuardrail,
    EndException,
    Exclude,
    Grant,
    Include,
    Join,
    Key,
    Leave,
    MakePrincipal,
    MembershipChange,
    Recreate,
    Register,
    RemovePrincipal,
    Rename,
    Revoke,
    SetException,
    SetGuardrail,
    UnknownChange,
    as_text,
    change_from_text,
    principals_of,
)
from grants.changes.entities import write_live_states, write_states
from grants.changes.grants import write_grants
from grants.changes.guardrails import write_guardrail_change
from grants.changes.memberships import role_group_fault, write_memberships
from grants.changes.principals import write_activation, write_principal, write_removal
from grants.effects.changes import EffectChange, evaluable_changes
from grants.effects.consequences import Consequences, consequences_of
from grants.effects.effect import TOO_LARGE, KnownEffect, effect_of
from grants.effects.large import (
    CHANGE_EFFECT,
    Computed,
    compute_effect,
    computed_effect,
    newest_effect_job,
    request_effect,
)
from grants.errors import (
    ChangeRefused,
    EffectChanged,
    EffectNotShown,
    GrantError,
    PlanError,
    ReasonMissing,
    RefusedChange,
    StaleBase,
)
from grants.grant_attributes import GrantAttributes
from grants.guardrails.check import (
    AddedViolations,
    make_within_guardrails,
    preview_violations,
)
from grants.jobs import JobContext, JobFailed, JobResult
from grants.journal import Author
from grants.models import Job, JournalHead, User
from grants.outcomes import Outcome, joint_outcome
from grants.plan_items import with_plan_changes
from grants.policies.policy import Generation
from grants.policies.principals import is_group_text, type_and_name
from grants.principal_names import format_principal, name_fault, principals_by_name
from grants.principals.renaming import write_rename
from grants.principals.services import write_new_principal
from grants.roles.capabilities import Capability
from grants.validity import ValidityError

# plans are made of changes, so their package registers the function that writes one
PlanWriter = Callable[[JournalHead, Author, ApplyPlan, bool], Outcome]
_plan_writers: list[PlanWriter] = []


def register_plan_writer(writer: PlanWriter) -> None:
    """Register the function that applies a plan with the other changes of a set."""
    _plan_writers[:] = [writer]


@dataclass(frozen=True)
class Preview:
    """A change set with its effect in a generation.

    computed: what is known about its effect. added: the violations of guardrails that it would add.
    """

    change_set: ChangeSet
    generation: str
    computed: Computed
    added: AddedViolations = field(default_factory=AddedViolations)

    @property
    def effect(self) -> KnownEffect | None:
        """The effect; None if it is not known for the current data."""
        return self.computed.effect

    @cached_property
    def consequences(self) -> Consequences:
        """The leftover grants, sessions and tokens. Runs the queries of `consequences_of`."""
        return consequences_of(self.change_set)

    @property
    def strandings(self) -> Strandings | None:
        """The entities that the changes leave with fewer than two ADMIN holders; None if they are not known."""
        return self.effect.strandings if self.effect else None

    @property
    def digest(self) -> str:
        return self.effect.digest if self.effect else TOO_LARGE

    @property
    def is_obvious(self) -> bool:
        """Whether the changes need no preview: nothing is beyond their purpose, and no new member or new name
        gains anything.
        """
        if self.added.rows:
            return False
        if self.effect is None or any(effect.tally.beyond for effect in self.effect.times or [self.effect]):
            return False
        return not self.effect.has_effect or not any(
            isinstance(change, Join | Include | Rename) for change in self.change_set
        )


def preview(change_set: ChangeSet, generation: Generation | None = None) -> Preview:
    """Return changes that are not made yet with their effect. generation: by default, the active one.

    The queries are those of `evaluable_changes` and `effect_of`, one for the active generation, and those of
    `newest_change_job` and `stored_effect`.
    """
    rules = generation or active_generation()
    job = newest_change_job(change_set, rules.name)
    computed = computed_effect(job, lambda: effect_of(evaluable_changes(change_set), rules))
    return Preview(
        change_set,
        rules.name,
        computed,
        added_violations(change_set) if computed.effect else AddedViolations(),
    )


def added_violations(change_set: ChangeSet) -> AddedViolations:
    """Return the violations of guardrails that changes would add; see `preview_violations`."""
    return preview_violations(
        with_plan_changes(change_set),
        lambda head: write_changes(head, Author("preview"), change_set, allows_past_end=True),
    )


def newest_change_job(change_set: ChangeSet, generation: str) -> Job | None:
    """Return the newest job for the effect of changes in a generation. Runs two queries."""
    return newest_effect_job(CHANGE_EFFECT, effect_job_options(change_set, generation))


def compute_change_effect(context: JobContext) -> JobResult:
    """Compute the effect of the changes that a job names."""
    options = context.job.options

    def read_changes() -> list[EffectChange]:
        if active_generation().name != options["active"]:
            raise JobFailed("another generation was activated in the meantime")
        texts = options["changes"].split("\n")
        try:
            return evaluable_changes(map(change_from_text, texts), is_limited=False)
        except (UnknownChange, PlanError) as error:
            raise JobFailed(str(error)) from error

    return compute_effect(context, read_changes, counts_strandings=True)


def effect_job_options(change_set: ChangeSet, generation: str) -> dict[str, str]:
    """Return the options of the job. The active generation decides whether a deletion removes grants, and what
    a creator receives. Runs one query.
    """
    return {
        "changes": "\n".join(change_set.texts),
        "generation": generation,
        "active": active_generation().name,
    }


def validated_principals(
    changes: Iterable[Change], *, allows_past_end: bool = False
) -> dict[str, User | Group]:
    """Return the stored principals of grants, revocations, memberships and activations, by written name. Groups
    that the changes add need not be stored.

    allows_past_end: accept periods that have ended, to restore a state. Raise ChangeRefused with all invalid
    changes. Runs two queries for every `ROWS_PER_STATEMENT` principals.
    """
    now = None if allows_past_end else timezone.now()
    positions: dict[Key | str, tuple[str, int]] = {}
    valid: list[tuple[tuple[str, int], Change]] = []
    errors, counts = [], Counter[str]()
    for change in changes:
        position = change.verb, counts[change.verb]
        counts[change.verb] += 1
        try:
            _check(change, now)
        except ValidityError as error:
            errors.append(RefusedChange(*position, f"`{error.field}`: {error}"))
            continue
        except GrantError as error:
            errors.append(RefusedChange(*position, str(error)))
            continue
        first = positions.setdefault(_subject(change), position)
        if first == position:
            valid.append((position, change))
        else:
            message = f"{_text(change)} repeats {first[0]}[{first[1]}]: keep one of the two"
            errors.append(RefusedChange(*position, message))
    principals = principals_by_name({name for _, change in valid for name in principals_of(change)})
    known = principals.keys() | {str(change) for _, change in valid if isinstance(change, AddUser | AddGroup)}
    for position, change in valid:
        if unknown := next((name for name in principals_of(change) if name not in known), ""):
            message = f"{unknown} does not exist: add it first, or correct the name"
            errors.append(RefusedChange(*position, message, type_and_name(unknown)[0]))
    if errors:
        # all grants before all revocations, each in the order of the request
        errors.sort(key=lambda error: (error.verb, error.index))
        raise ChangeRefused(errors, is_single=counts.total() == 1)
    return principals


def _check(change: Change, now: datetime | None) -> None:
    """Raise GrantError if the change is invalid by itself."""
    match change:
        case Grant() | Revoke():
            format_principal(change.principal)
            if fault := instance_fault(change.address):
                raise GrantError(fault)
        case Join() | Leave():
            if fault := name_fault(change.user) or name_fault(change.group):
                raise GrantError(fault)
        case Include() | Exclude():
            if fault := name_fault(change.group) or name_fault(change.role) or role_group_fault(change):
                raise GrantError(fault)
        case Activate(name) | Deactivate(name) | AddUser(name) | AddGroup(name):
            if fault := name_fault(name):
                raise GrantError(fault)
    if isinstance(change, Addition) and now is not None:
        change.validity.check_not_over(now)


def _subject(change: Change) -> Key | str:
    """Return what two changes of one set may not share."""
    match change:
        case Grant() | Revoke() | Join() | Leave() | Include() | Exclude():
            return change.key
        case Activate(user) | Deactivate(user):
            return user
    return as_text(change)


def _text(change: Change) -> str:
    return f"user:{change.user}" if isinstance(change, Activate | Deactivate) else str(change)


@frozen
class Shown:
    """The effect that was shown to the author of changes, and what the author accepts.

    digest: of the effect; empty if none was shown. identity: of the change set for which it was shown; None
    for the one that is made. is_required: refuse changes with an effect that was not shown, unless it is
    obvious. accepts_beyond: accept permissions beyond the purpose of a plan. accepts_attached: accept those that its
    grants bring with them, see `Effect.with_attached_intended`. violations: how many violations of a new guardrail that blocks were
    shown.
    """

    digest: str = ""
    identity: str | None = None
    is_required: bool = False
    accepts_beyond: bool = False
    accepts_attached: bool = False
    violations: int = 0


def apply(
    change_set: ChangeSet,
    *,
    author: Author,
    shown: Shown | None = None,
    base_revision: int | None = None,
    attributes: GrantAttributes | None = None,
    is_rehearsal: bool = False,
) -> Outcome:
    """Make all changes of a set, or none.

    The author has the capability for each change, or is a delegate for all grants and revocations
    (grants.authority.delegation). Addresses of grants are registered as planned if they are not registered.

    shown: the effect that was shown, which is computed again and compared. attributes: of new grants; by
    default, their reason is the author's. is_rehearsal: roll everything back, so that a dry run raises the
    same errors.
    Raise NotAdministrator, StaleBase if `base_revision` is not the newest revision, ChangeRefused if changes
    are invalid, ReasonMissing, SecondPersonRequired if one person may not make the changes alone,
    EffectChanged if the effect is not the one that was shown, EffectNotShown if it must be shown first, and
    the errors of single changes.
    """
    with _transaction(change_set, author) as (head, delegate):
        if delegate is not None:
            # before any other check, so that errors reveal nothing about other entities and principals
            check_delegated_changes(delegate, cast("Collection[Grant | Revoke]", change_set.changes))
        if base_revision not in (None, head.revision):
            raise StaleBase(base_revision, head.revision)
        if any(isinstance(change, ApplyPlan) for change in change_set) and not author.reason.strip():
            raise ReasonMissing("the reason is missing: the journal stores it with every change of a plan")

        def make() -> Outcome:
            detail = BY_DELEGATION if delegate else ""
            outcome = write_changes(
                head,
                author,
                change_set,
                attributes=attributes,
                detail=detail,
                accepted_violations=shown.violations if shown else 0,
                is_effect_shown=is_effect_shown,
            )
            check_direct_change(author, outcome.changes, is_written=True)
            return outcome

        # `check_shown` may call `make`
        is_effect_shown = False
        if shown is not None:
            is_effect_shown = check_shown(change_set, shown, make)
        outcome, added = make_within_guardrails(head, author, with_plan_changes(change_set), make)
        outcome = replace(outcome.with_notices(added.sentences), revision=head.revision)
        if is_rehearsal:
            transaction.set_rollback(True)
    return outcome


def write_changes(
    head: JournalHead,
    author: Author,
    changes: Iterable[Change],
    *,
    attributes: GrantAttributes | None = None,
    detail: str = "",
    allows_past_end: bool = False,
    accepted_violations: int | None = None,
    is_effect_shown: bool = False,
) -> Outcome:
    """Make changes like `apply`, for a caller that holds the lock of the journal and has checked the author, and
    that checks the guardrails (`make_within_guardrails`).

    detail: of the journal lines of groups, grants, revocations and activations. allows_past_end: accept periods that
    have ended, to restore a state. accepted_violations: see `write_guardrail_change`. is_effect_shown: the effect is the one
    that was shown, so it does not matter whether a plan is stale.
    """
    changes = list(changes)
    principals = validated_principals(changes, allows_past_end=allows_past_end)
    grants = [change for change in changes if isinstance(change, Grant | Revoke)]
    members = [change for change in changes if isinstance(change, MembershipChange)]
    outcomes = []
    if added := [change for change in changes if isinstance(change, AddUser | AddGroup)]:
        outcomes += [write_new_principal(head, author, change, detail=detail) for change in added]
        principals |= principals_by_name(map(str, added))
    deleted = {change.address for change in changes if isinstance(change, Delete)}
    in_order: list[Change] = []
    live: list[Register | Recreate] = []
    for change in changes:
        if isinstance(change, Register | Recreate) and deleted.isdisjoint(
            (change.address, *change.address.ancestors)
        ):
            live.append(change)
        elif not isinstance(change, AddUser | AddGroup | Grant | Revoke | MembershipChange):
            in_order.append(change)
    # before the grants, so that a new entity of the set is not registered as planned for its grants
    if live:
        outcomes.append(write_live_states(head, author, live))
    if grants or not changes:
        attributes = attributes or GrantAttributes(reason=author.reason)
        outcomes.append(write_grants(head, author, grants, principals, attributes=attributes, detail=detail))
    if members:
        outcomes.append(write_memberships(head, author, members, principals))
    for has_states, group in groupby(
        in_order, lambda change: isinstance(change, Register | Recreate | Delete)
    ):
        if has_states:
            outcomes += write_states(head, author, cast("Iterator[Register | Recreate | Delete]", group))
        else:
            outcomes += [
                _write(head, author, change, detail, accepted_violations, is_effect_shown) for change in group
            ]
    return joint_outcome(outcomes, head.revision)


def _write(
    head: JournalHead,
    author: Author,
    change: Change,
    detail: str,
    accepted_violations: int | None,
    is_effect_shown: bool,
) -> Outcome:
    match change:
        case SetGuardrail() | DeleteGuardrail() | SetException() | EndException():
            return write_guardrail_change(head, author, change, accepted_violations=accepted_violations)
        case Activate() | Deactivate():
            return write_activation(head, author, change, detail=detail)
        case MakePrincipal():
            return write_principal(head, author, change)
        case RemovePrincipal():
            return write_removal(head, author, change)
        case Rename():
            return write_rename(head, author, change)
        case ActivateGeneration():
            return write_active_generation(head, author, change)
        case ApplyPlan():
            return _plan_writers[0](head, author, change, is_effect_shown)
    raise TypeError(f"{change} is made together with others of its type")


def request_change_effect(*, changes: ChangeSet, generation: str, author: Author, requested_by: Any) -> Job:
    """Request the job that computes the effect of changes above the limits. Return the one that is waiting or
    running already, if any.

    generation: a name. Raise UnknownChange for changes that cannot be evaluated together, because the effect
    would depend on their order; NotAdministrator.
    """
    if len(changes) > 1 and (
        any(isinstance(change, Delete | RemovePrincipal | Rename) for change in changes)
        or (
            any(isinstance(change, ActivateGeneration) for change in changes)
            and not all(isinstance(change, ActivateGeneration | ApplyPlan) for change in changes)
        )
    ):
        raise UnknownChange(
            "deletions, removals, new names and another active generation are evaluated without other changes; another "
            "generation also with a plan"
        )
    return request_effect(
        CHANGE_EFFECT,
        effect_job_options(changes, generation),
        author=author,
        requested_by=requested_by,
        capability=capability_to_make(changes.changes[0]),
    )


def capability_to_make(change: Change) -> Capability:
    """Return the capability that an account needs to make the change."""
    match change:
        case ActivateGeneration() | SetGuardrail() | DeleteGuardrail() | SetException() | EndException():
            return Capability.MANAGE_SETTINGS
        case Activate() | Deactivate() | MakePrincipal() | AddUser():
            return Capability.MANAGE_ACCOUNTS
    return Capability.CHANGE_GRANTS


def can_make(account: User, changes: Iterable[Change]) -> bool:
    """Return whether the role of the account allows all of the changes."""
    return all(account.can(capability_to_make(change)) for change in changes)


@contextmanager
def _transaction(change_set: ChangeSet, author: Author) -> Iterator[tuple[JournalHead, User | None]]:
    """Open the transaction, lock the journal, and check the author. Yield the head, and the account of a
    delegate.
    """
    if change_set.changes and all(isinstance(change, Grant | Revoke) for change in change_set):
        with grant_transaction(author) as head_and_delegate:
            yield head_and_delegate
        return
    capability, *others = dict.fromkeys(map(capability_to_make, change_set)) or [Capability.CHANGE_GRANTS]
    allows_provisioner = all(map(_is_provisioning, change_set))
    with administrator_transaction(
        author, allows_provisioner=allows_provisioner, capability=capability
    ) as head:
        for other in others:
            check_capability(author, other)
        yield head, None


def _is_provisioning(change: Change) -> bool:
    """Return whether a provisioning service may make the change."""
    match change:
        case AddUser() | AddGroup() | Join() | Leave() | Activate() | Deactivate() | Rename():
            return True
        case RemovePrincipal(principal, revokes_grants):
            return is_group_text(principal) and not revokes_grants
    return False


def check_shown(change_set: ChangeSet, shown: Shown, make: Callable[[], object]) -> bool:
    """Compare the effect of changes that are not made yet with the one that was shown. Return whether it was shown.

    make: makes the changes. Raise EffectChanged or EffectNotShown with the preview.
    """
    if not (shown.digest or shown.is_required):
        return False
    current = preview(change_set)
    is_shown = bool(shown.digest) and shown.identity in (None, change_set.identity)
    if is_shown and current.digest != shown.digest:
        raise EffectChanged("this change", current)
    if not is_shown and shown.is_required and not current.is_obvious:
        # a change that would be refused raises its own error
        with transaction.atomic():
            make()
            transaction.set_rollback(True)
        raise EffectNotShown(current)
    return is_shown and current.digest != TOO_LARGE
