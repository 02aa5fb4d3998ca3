"""Read the journal by filter and time."""

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from datetime import datetime
from functools import reduce
from operator import or_

from django.db import connection, transaction
from django.db.models import F, Q, QuerySet
from django.db.models.expressions import RawSQL
from django.db.models.functions import Abs

from entities.address import Address, kinds_inside
from entities.models import Entity
from grants.journal import (
    BREAK_GLASS_ACTIONS,
    GUARDRAIL_ACTIONS,
    NEUTRAL_ACTIONS,
    REQUEST_ACTIONS,
    REVIEW_ACTIONS,
)
from grants.models import JOURNAL_REQUEST_FILTERS, JournalHead, JournalLine
from grants.models.journal import NamespaceName

# The actions name an entity and change its state or description. On PostgreSQL, the journal sorts texts by
# language, and entities by bytes.
_CHANGED_SQL = f"""
SELECT changed.id FROM {Entity._meta.db_table} changed WHERE (changed.kind, changed.key) IN (
  SELECT substr(entity, 1, {{position}}(entity, ':') - 1) COLLATE "{{byte_order}}",
    substr(entity, {{position}}(entity, ':') + 1) COLLATE "{{byte_order}}"
  FROM {JournalLine._meta.db_table}
  WHERE revision > %s AND action IN ('plan', 'register', 'delete', 'recreate', 'describe'))"""

# how many lines one page of a search without an index reads
MAX_LINES_SEARCHED = 100_000


def journal_lines(
    *,
    principal: str = "",
    entity: str = "",
    contents_of: Address | None = None,
    actor: str = "",
    action: str = "",
    request_id: str = "",
    caller_request_id: str = "",
    since: datetime | None = None,
    until: datetime | None = None,
) -> QuerySet[JournalLine]:
    """Return the lines that match all filters, newest first.

    contents_of: only lines about this address or what it contains; an index serves namespaces, see
    `has_contents_index`. since: only lines at or after this time. until: only lines before this time. Each of
    the two takes one query. The annotation `place` is the sort key for keyset pages. It equals the revision, and is written as
    an expression that makes PostgreSQL use the index of the filter (see `JournalLine`).
    """
    conditions: dict[str, str | int] = {
        "principal": principal,
        "entity": entity,
        "actor": actor,
        "action": action,
        "request_id": request_id,
        "caller_request_id": caller_request_id,
    }
    is_indexed = any(conditions.values()) or contents_of is not None and has_contents_index(contents_of)
    about = JournalLine.objects.all() if contents_of is None else _on_or_inside(contents_of)
    lines = about.annotate(place=Abs("revision") if is_indexed else F("revision")).order_by("-place")
    for name in JOURNAL_REQUEST_FILTERS:
        # the condition of the partial index, so that PostgreSQL can use it
        lines = lines.exclude(**{name: ""}) if conditions[name] else lines
    # The times of lines never decrease, so a range of times is a range of revisions.
    conditions |= {
        "place__gte": _revision_at("at", at__gte=since) if since else 0,
        "place__lte": _revision_at("-at", at__lt=until) if until else 0,
    }
    if (since and not conditions["place__gte"]) or (until and not conditions["place__lte"]):
        return lines.none()
    return lines.filter(**{name: value for name, value in conditions.items() if value})


def has_contents_index(address: Address) -> bool:
    """Return whether an index finds the lines about the address and what it contains.

    Lines about an application are found among those of its namespace, and lines about the instance among all.
    """
    return address.kind not in ("instance", "application")


def _on_or_inside(address: Address) -> QuerySet[JournalLine]:
    """Return the lines about an address or its contents."""
    # the condition of the partial index, so that PostgreSQL can use it
    lines = JournalLine.objects.exclude(entity="")
    if address.kind == "instance":
        return lines
    inside = [f"{kind}:{address.key}." for kind in kinds_inside(address.kind)]
    if not inside:
        return lines.filter(entity=str(address))
    is_inside = reduce(or_, (Q(entity__startswith=start) for start in inside), Q(entity=str(address)))
    namespace = address.key.partition(".")[0]
    return lines.alias(namespace=NamespaceName("entity")).filter(is_inside, namespace=namespace)


def lines_of_applied_plans(request_ids: Collection[str]) -> QuerySet[JournalLine]:
    """Return the lines about the plans that these requests applied, in order.

    Each is the last line of its plan.
    """
    # the condition of the partial index, so that PostgreSQL can use it
    lines = JournalLine.objects.exclude(request_id="")
    return lines.filter(request_id__in=request_ids, action="plan-apply").order_by("revision")


def entities_changed_since(since: int | datetime) -> QuerySet[Entity]:
    """Return the entities whose state or description changed, according to the journal.

    since: only changes after this revision, or at or after this time. A time takes one query.
    """
    if isinstance(since, datetime):
        first_revision = _revision_at("at", at__gte=since)
        if not first_revision:
            return Entity.objects.none()
        since = first_revision - 1
    is_postgresql = connection.vendor == "postgresql"
    sql = _CHANGED_SQL.format(
        position="strpos" if is_postgresql else "instr", byte_order="C" if is_postgresql else "BINARY"
    )
    return Entity.objects.filter(pk__in=RawSQL(sql, [since]))


@contextmanager
def custom_query_plan() -> Iterator[None]:
    """Make PostgreSQL plan each statement for its parameter values, while one page of the journal is read.

    By default, PostgreSQL reuses one query plan for a repeated statement. A plan for a frequent value reads
    the whole journal if the next value is rare.
    """
    if connection.vendor != "postgresql":
        # SQLite needs no setting. A transaction on SQLite would also wait for a running import.
        yield
        return
    with transaction.atomic():
        with connection.cursor() as cursor:
            cursor.execute("SET LOCAL plan_cache_mode = force_custom_plan")
        yield


def _revision_at(order: str, **times: datetime) -> int:
    """Return the revision of the first line in this order that meets the conditions on its time; 0 if there
    is none.
    """
    revision = "-revision" if order.startswith("-") else "revision"
    return (
        JournalLine.objects.filter(**times)
        .order_by(order, revision)
        .values_list("revision", flat=True)
        .first()
        or 0
    )


# Actions that cannot change a decision. Time changed it before a line about the beginning or the end of a
# period was written, and applying a plan computes its effect again.
IRRELEVANT_ACTIONS = (
    "begin",
    "expire",
    "describe",
    "role-set",
    "password-set",
    "user-invite",
    "user-invite-cancel",
    "token-add",
    "token-revoke",
    "generation-activate",
    "plan-apply",
    "identity-link",
    "identity-unlink",
    "token-remove",
    "group-change",
    "factor-add",
    "factor-remove",
    "factor-reset",
    "storage-identity",
    "sessions-end",
    "sign-in-limits-clear",
    "webhook-add",
    "webhook-change",
    "webhook-delete",
    "approvers-propose",
    "approvers-set",
    "steward-propose",
    "delegation-set",
    "generation-propose",
    "generation-schedule",
    "generation-schedule-cancel",
    "generation-schedule-refuse",
    "catalogue-publish",
    "catalogue-withdraw",
    *BREAK_GLASS_ACTIONS,
    *REQUEST_ACTIONS,
    *REVIEW_ACTIONS,
    *GUARDRAIL_ACTIONS,
    *NEUTRAL_ACTIONS,
)


def first_relevant_line_since(revision: int) -> JournalLine | None:
    """Return the first line after `revision` that may change a decision. Runs one query."""
    return relevant_lines_since(revision).order_by("revision").first()


def relevant_lines_since(revision: int) -> QuerySet[JournalLine]:
    """Return the lines after `revision` that may change a decision."""
    return JournalLine.objects.filter(revision__gt=revision).exclude(action__in=IRRELEVANT_ACTIONS)


def data_head() -> JournalHead | JournalLine:
    """Return the newest journal line that is not about a run, a new plan or a seal, which do not change the data."""
    head = JournalHead.objects.filter(pk=1).first() or JournalHead()
    if JournalLine.objects.filter(revision=head.revision, action__in=NEUTRAL_ACTIONS).exists():
        return (
            JournalLine.objects.exclude(action__in=NEUTRAL_ACTIONS).order_by("-revision").first()
            or JournalHead()
        )
    return head
