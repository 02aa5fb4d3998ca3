"""List what differs between two revisions: grants, memberships, states and names.

A difference is a fact that holds at one revision and not at the other, whatever happened in between. The rows
come from the periods, in parts that can be paged by primary key.
"""

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime

from django.db.models import Exists, Model, OuterRef, Q, QuerySet

from entities.address import Address
from entities.frozen import frozen
from entities.vocabulary import CONTAINER_KINDS
from grants.history.periods import catch_up_for_read
from grants.models import JournalLine, privilege_of
from grants.models.history import (
    GRANT_PERIODS,
    EntityPeriod,
    GrantPeriod,
    GroupGrantPeriod,
    GroupPeriod,
    HistoryAddress,
    HistoryPrincipal,
    MembershipPeriod,
    UserGrantPeriod,
    UserPeriod,
)
from grants.models.validity_columns import ValidityColumns
from grants.policies.principals import group_text, principal_text
from grants.principal_names import parse_principal

GAINED, LOST = "gained", "lost"
ROWS_PER_BATCH = 1_000


@frozen
class Difference:
    """A fact that began or ended between two revisions.

    change: `gained` or `lost`. what: `grant`, `membership`, `state` or `status`. principal: in written form.
    entity: an address.
    value: the privilege, the group, the state or the status. revision, at, actor, reason: of the last line
    that changed it.
    """

    change: str
    what: str
    principal: str
    entity: str
    value: str
    revision: int
    at: datetime | None
    actor: str
    reason: str


@frozen
class Span:
    """Two revisions, the earlier one first."""

    before: int
    after: int

    def rows(self, model: type[Model], keys: tuple[str, ...], **where) -> QuerySet:
        """Return the periods that hold at exactly one of the revisions.

        Keys with a period at both revisions are left out.
        """
        at_before, at_after = _holds_at(self.before), _holds_at(self.after)
        same = model._default_manager.filter(**{key: OuterRef(key) for key in keys})
        return model._default_manager.filter(**where).filter(
            at_before & ~at_after & ~Exists(same.filter(at_after))
            | at_after & ~at_before & ~Exists(same.filter(at_before))
        )


def _holds_at(revision: int) -> Q:
    # a negation of a nullable column must not be null, so `until_revision` is compared in both directions
    return Q(from_revision__lte=revision) & (Q(until_revision__isnull=True) | Q(until_revision__gt=revision))


def _parts_of_principal(principal: str, span: Span) -> list[QuerySet]:
    """Return the parts for a user (status, memberships, grants, and grants of its groups) or a group (members
    and grants).
    """
    kind, name = parse_principal(principal)
    pk = HistoryPrincipal.objects.filter(type=kind, name=name).values_list("pk", flat=True).first() or 0
    if kind == "group":
        return [
            span.rows(GroupPeriod, ("group", "name"), group=pk),
            span.rows(MembershipPeriod, ("user", "group"), group=pk),
            span.rows(GroupGrantPeriod, ("entity", "group", "permission"), group=pk),
        ]
    of_user = MembershipPeriod.objects.filter(_holds_at(span.before) | _holds_at(span.after), user=pk)
    groups = of_user.values("group")
    return [
        span.rows(UserPeriod, ("user", "name", "is_active", "is_principal"), user=pk),
        span.rows(MembershipPeriod, ("user", "group"), user=pk),
        span.rows(UserGrantPeriod, ("entity", "user", "permission"), user=pk),
        span.rows(GroupGrantPeriod, ("entity", "group", "permission"), group__in=groups),
    ]


def _parts_of_entities(span: Span, where: Q) -> list[QuerySet]:
    holds = _holds_at(span.before) | _holds_at(span.after)
    groups = GroupGrantPeriod.objects.filter(where, holds).values("group")
    return [
        span.rows(EntityPeriod, ("entity", "state")).filter(where),
        *(
            span.rows(model, ("entity", model.principal_type, "permission")).filter(where)
            for model in GRANT_PERIODS
        ),
        span.rows(MembershipPeriod, ("user", "group"), group__in=groups),
    ]


def difference_parts(subject: Address | str, span: Span, *, with_contents: bool = False) -> list[QuerySet]:
    """Return the parts for an address (its states, its grants, and memberships of groups with a grant on it),
    or for a principal in written form, in the order in which they are listed.

    with_contents: also what is inside a namespace, an application or the instance. Brings the periods up to
    date first.
    """
    catch_up_for_read()
    if isinstance(subject, str):
        return _parts_of_principal(subject, span)
    if with_contents and subject.kind == "instance":
        return _parts_of_entities(span, Q())
    column = subject.kind if with_contents and subject.kind in CONTAINER_KINDS else "entity"
    address = HistoryAddress.objects.filter(kind=subject.kind, key=subject.key)
    pk = address.values_list("pk", flat=True).first() or 0
    return _parts_of_entities(span, Q(**{column: pk}))


def all_differences(parts: Iterable[QuerySet], span: Span) -> Iterator[Difference]:
    """Yield the differences of all parts. Runs five queries for each ROWS_PER_BATCH rows."""
    for part in parts:
        last = 0
        while rows := list(part.filter(pk__gt=last).order_by("pk")[:ROWS_PER_BATCH]):
            yield from as_differences(rows, span)
            last = rows[-1].pk


def as_differences(rows: Iterable[Model], span: Span) -> Iterator[Difference]:
    """Yield the differences of some rows of the parts. Runs four queries for all of them."""
    rows = list(rows)
    names = _names(rows)
    addresses = _addresses(rows)
    revisions = {_revision(row, span) for row in rows}
    lines = {
        line[0]: line
        for line in JournalLine.objects.filter(pk__in=revisions).values_list("pk", "at", "actor", "reason")
    }
    for row in rows:
        revision = _revision(row, span)
        _, at, actor, reason = lines.get(revision, (revision, None, "", ""))
        change = GAINED if row.from_revision > span.before else LOST
        yield Difference(change, *_content(row, names, addresses), revision, at, actor, reason)


def _revision(row: Model, span: Span) -> int:
    """Return the line that began a gained period, or that ended a lost one."""
    return row.from_revision if row.from_revision > span.before else row.until_revision


def _content(row: Model, names: Mapping[int, str], addresses: Mapping[int, str]) -> tuple[str, str, str, str]:
    """Return what differs, the principal, the entity and the value."""
    match row:
        case GrantPeriod():
            privilege = _with_period(str(privilege_of(row.permission)), row)
            return "grant", names[getattr(row, row.principal_type)], addresses[row.entity], privilege
        case MembershipPeriod():
            return "membership", names[row.user], "", _with_period(names[row.group], row)
        case EntityPeriod():
            return "state", "", f"{row.kind}:{row.key}", row.state
        case UserPeriod():
            account = "" if row.is_principal else ", not a principal"
            return "status", f"user:{row.name}", "", f"{'active' if row.is_active else 'inactive'}{account}"
        case _:
            return "status", group_text(row.name), "", "group"


def _with_period(text: str, row: ValidityColumns) -> str:
    """Add the validity of the row to the text if it has limits, because a changed validity is listed as a
    loss and a gain.
    """
    return f"{text} {row.validity.sentence}".rstrip()


def _names(rows: list[Model]) -> dict[int, str]:
    ids = {getattr(row, column) for row in rows for column in ("user", "group") if hasattr(row, column)}
    principals = HistoryPrincipal.objects.filter(pk__in=ids).values_list("pk", "type", "name")
    return {pk: principal_text(kind, name or "?") for pk, kind, name in principals}


def _addresses(rows: list[Model]) -> dict[int, str]:
    ids = {row.entity for row in rows if isinstance(row, GrantPeriod)}
    return {
        pk: f"{kind}:{key}"
        for pk, kind, key in HistoryAddress.objects.filter(pk__in=ids).values_list("pk", "kind", "key")
    }
