"""Store a plan: its items, and its effect on the data of one revision.

A source of plans is a function that returns the draft of a plan, made a `PlanSource` with `plan_source`. Its
`create` stores the plan, and `renew_plan` calls it again with the recipe of a stored plan.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from inspect import signature
from typing import Generic, ParamSpec

from django.contrib.auth.models import Group
from django.db import transaction
from django.utils import timezone

from entities.address import Address
from entities.frozen import frozen
from entities.models import Entity
from entities.selectors import entities_at
from entities.services import instance_fault
from grants.authority.persons import accounts_of
from grants.authority.transactions import check_administrator
from grants.bulk_rows import chunks, database_time, insert_rows
from grants.change_set import (
    Activate,
    AddGroup,
    Addition,
    AddUser,
    Change,
    Deactivate,
    Delete,
    Exclude,
    Grant,
    Include,
    Join,
    Key,
    Leave,
    MembershipChange,
    Recreate,
    Register,
    RemovePrincipal,
    Revoke,
    principals_of,
)
from grants.changes import existing_grants, existing_memberships
from grants.errors import PlanError
from grants.journal import Author, JournalEntry, append_to_journal, current_revision, lock_journal
from grants.models import JournalHead, Plan, PlanBreadth, PlanItem, User, permission_ids
from grants.plan_items import verb_of_item
from grants.plans.counts import VERB_COUNTS, revision_before
from grants.plans.stranding import delete_restored_strandings, store_strandings
from grants.principal_names import parse_principal, principals_by_name
from grants.principals.new_names import new_name_fault
from grants.validity import VALIDITY_COLUMNS, Validity, format_time, time_in_words
from grants.verification import PLAN_CREATE, plan_digest

MAX_PLAN_ITEMS = 100_000
ITEMS_PER_BATCH = 900
MAX_TITLE_LENGTH = 300
# database columns of PlanItem; `is_so` is the column of `is_noop`
ITEM_COLUMNS = (
    "plan_id",
    "position",
    "verb",
    "principal_type",
    "principal_name",
    "kind",
    "key",
    "namespace",
    "permission_id",
    "group_name",
    *VALIDITY_COLUMNS,
    *(f"old_{name}" for name in VALIDITY_COLUMNS),
    "changes_period",
    "is_so",
)
P = ParamSpec("P")


class PlanOrigin(StrEnum):
    """The source from which a plan was created, as stored in `Plan.origin`."""

    CHANGE_SET = "change-set"
    COPY = "copy"
    READINESS = "readiness"
    POLICY_IMPACT = "policy-impact"
    INVERSE = "inverse"
    SUBTREE = "subtree"
    SELECTION = "selection"
    GHOSTS = "ghosts"
    REDUNDANT = "redundant"
    UNUSED = "unused"
    OUTLIERS = "outliers"
    PATTERNS = "patterns"
    ROLE_MINING = "role-mining"
    FILE = "file"
    OFF_BOARDING = "off-boarding"
    EXPIRED = "expired"
    LIKE = "like"
    REQUEST = "request"
    REVIEW = "review"
    MEMBERS = "members"
    SYNC = "sync"


@frozen
class PlanDraft:
    """The content of a plan that is not stored yet.

    changes: the items, without repetitions. They are iterated once and never all in memory.
    base_revision: the revision that was read before the data from which the changes are computed; None if
    they are computed while the plan is stored. empty_message: the error message if there are no changes.
    period: the grants and memberships that the plan gives are limited to it; those that end before it are left out.
    maker_ids: the accounts of other persons who decided about the changes than the author. max_items: more are refused. check: raises
    PlanError if the stored plan is refused. The other fields are those of `grants.models.Plan`.
    """

    title: str
    changes: Iterable[Change]
    recipe: dict = field(default_factory=dict)
    base_revision: int | None = None
    breadth: PlanBreadth = PlanBreadth.ENTITIES
    watches: Sequence[str] = ()
    empty_message: str = "the plan would be empty: nothing changes"
    inverse_of: Plan | None = None
    maker_ids: Collection[int] = ()
    period: Validity = Validity()
    max_items: int = MAX_PLAN_ITEMS
    check: Callable[[Plan], None] = lambda plan: None


@dataclass(frozen=True)
class PlanSource(Generic[P]):
    """A source of plans. draft: returns the draft. inputs: returns the arguments of `draft` with which a
    stored plan is renewed.
    """

    origin: PlanOrigin
    draft: Callable[P, PlanDraft]
    inputs: Callable[[Plan], Mapping] | None = None

    def create(self, author: Author, *args: P.args, **kwargs: P.kwargs) -> Plan:
        """Store a plan. Nothing else changes. Raise NotAdministrator, and the errors of `draft` and of
        `store_plan`.
        """
        check_administrator(author)
        revision = current_revision()
        draft = self.draft(*args, **kwargs)
        if draft.base_revision is None:
            draft = replace(draft, base_revision=revision)
        return store_plan(author, self.origin, draft)

    def draft_again(self, plan: Plan) -> PlanDraft:
        """Return the draft of a stored plan, computed from the current data."""
        if self.inputs is not None:
            return self.draft(**self.inputs(plan))  # type: ignore[call-arg]
        names = signature(self.draft).parameters.keys() & plan.recipe.keys()
        return self.draft(**{name: plan.recipe[name] for name in names})  # type: ignore[call-arg]


def period_of_recipe(plan: Plan) -> Validity:
    """Return the period to which the plan is limited."""
    return Validity.parse(*plan.recipe.get("period", ()))


def _changes_within(changes: Iterable[Change], period: Validity) -> Iterator[Change]:
    """Yield the changes, of which grants and memberships are limited to the period."""
    for change in changes:
        if not isinstance(change, Addition):
            yield change
        elif (validity := change.validity.within(period)) is not None:
            yield replace(change, validity=validity)


def plan_source(
    origin: PlanOrigin, inputs: Callable[[Plan], Mapping] | None = None
) -> Callable[[Callable[P, PlanDraft]], PlanSource[P]]:
    """Make a function that returns a draft a source of plans. inputs: see PlanSource; by default, the members
    of the recipe are the arguments.
    """
    return lambda draft: PlanSource(origin, draft, inputs)


def store_plan(
    author: Author,
    origin: PlanOrigin | str,
    draft: PlanDraft,
    *,
    renewal_of: Plan | None = None,
    makers: Callable[[Plan], Collection[int]] | None = None,
    head: JournalHead | None = None,
    writer: Author | None = None,
) -> Plan:
    """Store a draft as a proposed plan, for a caller that has checked what the author may do.

    makers: returns the accounts of those who made the stored plan; by default the author and those of the
    draft. head: the head of the journal, of a caller that has locked it and appends further lines. writer: the author of the
    journal line, who creates the plan on behalf of `author`; by default `author`.
    The journal line has a digest of the items and makers, so nobody can change them in the database. Runs a
    few statements for every `ITEMS_PER_BATCH` items. Raise PlanError if the draft is empty, invalid or too
    large, JournalReadOnly if the journal cannot be continued.
    """
    revision = current_revision() if draft.base_revision is None else draft.base_revision
    with transaction.atomic():
        plan = Plan.objects.create(
            title=draft.title[:MAX_TITLE_LENGTH],
            origin=origin,
            recipe=draft.recipe
            | ({"period": list(map(format_time, draft.period))} if draft.period.is_limited else {}),
            breadth=draft.breadth,
            watches=list(draft.watches),
            base_revision=revision,
            made_by=author.name,
            maker_ids=sorted(accounts_of(author).union(draft.maker_ids)),
            inverse_of=draft.inverse_of,
            renewal_of=renewal_of,
        )
        counts = _insert_items(plan, draft)
        store_strandings(plan)
        if plan.inverse_of is not None:
            delete_restored_strandings(plan, revision_before(plan.inverse_of))
        for name, admins_left in (("stranded_none", 0), ("stranded_one", 1)):
            counts[name] = plan.strandings.filter(admins_left=admins_left).count()
        plan.effect = counts
        plan.save(update_fields=["effect"])
        draft.check(plan)
        if makers is not None:
            plan.maker_ids = sorted(makers(plan))
            plan.save(update_fields=["maker_ids"])
        detail = f"{plan}: {plan.title}; content {plan_digest(plan)}"
        append_to_journal(
            head or lock_journal(), [JournalEntry(PLAN_CREATE, detail=detail)], author=writer or author
        )
    return plan


def _insert_items(plan: Plan, draft: PlanDraft) -> dict[str, int]:
    """Insert an item for each change, in batches.

    Return the counts of `Plan.effect`, without the stranded entities. Raise PlanError if there are no changes,
    or if one is invalid.
    """
    counts = dict.fromkeys((*VERB_COUNTS.values(), "periods_removed", "already"), 0)
    principals: dict[str, User | Group] = {}
    changed: set[str] = set()
    planned: set[Address] = set()
    live: set[Address] = set()
    count = 0
    changes = _changes_within(draft.changes, draft.period) if draft.period.is_limited else draft.changes
    for batch in chunks(changes, ITEMS_PER_BATCH):
        if count + len(batch) > draft.max_items:
            raise PlanError(
                f"the plan would have more than {draft.max_items:,} items, which is the limit: create it for one "
                f"namespace or one user at a time"
            )
        principals |= _existing_principals(batch, principals)
        _check_periods(plan, batch)
        entities = entities_at(change.address for change in batch if isinstance(change, Grant | Revoke))
        stored = stored_periods(batch, principals, entities)
        rows = []
        for change in batch:
            count += 1
            before = stored.get(change.key) if isinstance(change, Grant | Revoke | MembershipChange) else None
            is_noop = not _has_effect(change, before, principals)
            is_held = before is not None and isinstance(change, Addition)
            rows.append(
                (
                    plan.pk,
                    count,
                    *_item_columns(change),
                    *map(database_time, before if before and is_held else Validity()),
                    is_held and not is_noop,
                    is_noop,
                )
            )
            counts["already" if is_noop else VERB_COUNTS[verb_of_item(change)]] += 1
            if not is_noop:
                changed.update(principals_of(change)[:1])
                if isinstance(change, Register):
                    live.add(change.address)
                if isinstance(change, Addition):
                    counts["periods_removed"] += is_held and not change.validity.is_limited
                if (
                    isinstance(change, Grant)
                    and change.address not in entities
                    and not change.address.is_pattern
                ):
                    planned.update((change.address, *change.address.ancestors))
        insert_rows(PlanItem, ITEM_COLUMNS, rows)
    if not count:
        raise PlanError(draft.empty_message)
    planned -= live
    return counts | {"principals": len(changed), "planned": len(planned) - len(entities_at(planned))}


def _item_columns(change: Change) -> tuple:
    """Return the columns from `verb` to the period. Raise PlanError if a plan cannot contain the change."""
    match change:
        case Grant(principal, address, privilege) | Revoke(principal, address, privilege):
            if fault := instance_fault(address):
                raise PlanError(fault)
            namespace = address.namespace.key if address.namespace else ""
            entity = address.kind, address.key, namespace, permission_ids()[privilege]
            row: tuple = (*parse_principal(principal), *entity, "")
        case Join(user, group) | Leave(user, group):
            row = "user", user, "", "", "", None, group
        case Include(group, role) | Exclude(group, role):
            row = "group", group, "", "", "", None, role
        case Activate(user) | Deactivate(user):
            row = "user", user, "", "", "", None, ""
        case AddUser(user):
            row = "user", user, "", "", "", None, ""
        case AddGroup(group):
            row = "group", group, "", "", "", None, ""
        case Register(address) | Recreate(address) | Delete(address):
            namespace = address.namespace.key if address.namespace else ""
            row = "", "", address.kind, address.key, namespace, None, ""
        case RemovePrincipal(principal):
            row = *parse_principal(principal), "", "", "", None, ""
    period = change.validity if isinstance(change, Addition) else Validity()
    return verb_of_item(change), *row, *map(database_time, period)


def stored_periods(
    changes: Sequence[Change], principals: Mapping[str, User | Group], entities: Mapping[Address, Entity]
) -> dict[Key, Validity]:
    """Return the periods of the grants and memberships that exist, by the keys of the changes."""
    grants = existing_grants(
        [change for change in changes if isinstance(change, Grant | Revoke)], principals, entities
    )
    members = existing_memberships(
        [change for change in changes if isinstance(change, MembershipChange)], principals
    )
    return {key: row.validity for key, row in [*grants.items(), *members.items()]}


def _has_effect(change: Change, before: Validity | None, principals: Mapping[str, User | Group]) -> bool:
    """Return whether a change would change something now. before: the period of the stored grant or
    membership. Raise PlanError if a plan cannot contain the change.
    """
    match change:
        case Grant(validity=validity) | Join(validity=validity) | Include(validity=validity):
            return validity != before
        case Revoke() | Leave() | Exclude():
            return before is not None
        case AddUser() | AddGroup():
            return principals[str(change)].pk is None
        case Register() | Recreate() | Delete():
            return True
        case RemovePrincipal(principal):
            return principals[principal].pk is not None
        case Activate() | Deactivate():
            user = principals[f"user:{change.user}"]
            return isinstance(user, User) and user.is_active is isinstance(change, Deactivate)
    raise PlanError(f"a plan cannot contain the change `{change.verb}`")


def _existing_principals(
    batch: Iterable[Change], known: Mapping[str, User | Group]
) -> dict[str, User | Group]:
    """Return the principals of the changes that are not known yet; new ones are not stored. Raise PlanError if one does
    not exist, or if a new one cannot have its name.
    """
    names = {name for change in batch for name in principals_of(change)} - known.keys()
    principals = principals_by_name(names)
    for change in batch:
        if isinstance(change, AddGroup) and str(change) not in principals:
            if fault := new_name_fault("group", change.group):
                raise PlanError(f"invalid group name: {fault}")
            principals[str(change)] = Group(name=change.group)
        elif isinstance(change, AddUser) and str(change) not in principals:
            if fault := new_name_fault("user", change.user):
                raise PlanError(f"invalid user name: {fault}")
            principals[str(change)] = User(username=change.user)
    if unknown := sorted(names - principals.keys()):
        raise PlanError(f"{unknown[0]} does not exist: add it first, or correct the name")
    return principals


def _check_periods(plan: Plan, batch: list[Change]) -> None:
    """Raise PlanError if a period has ended. Only a plan that undoes another one may restore it."""
    now = timezone.now()
    for change in batch:
        over = change.validity if isinstance(change, Addition) and change.validity.is_over(now) else None
        if over is not None and plan.origin != PlanOrigin.INVERSE:
            raise PlanError(
                f"the period of {change} ended {time_in_words(over.valid_until)}: choose a later end, or leave "
                "it out"
            )
