"""The lists about the journal: its lines, differences, security events, break-glass uses, evidence, dead
letters of webhooks.
"""

from collections.abc import Iterator

from django.db.models import Q, QuerySet
from rest_framework import serializers

from authzconsole.common import output
from authzconsole.common.fields import (
    AddressText,
    Choice,
    PrincipalText,
    QueryBoolean,
    QueryInteger,
    QuerySerializer,
    Text,
    Time,
)
from authzconsole.common.periods import AsOf
from authzconsole.common.security_events.record import EventKind
from authzconsole.common.security_events.shipping import SecurityEventSerializer
from authzconsole.lists.base import List
from authzconsole.models import DeadLetter, Evidence, SecurityEvent
from grants.history import GAINED, LOST, Span, all_differences, as_differences, difference_parts
from grants.journal import ACTIONS, LINES_PER_BATCH, current_revision
from grants.journal_queries import custom_query_plan, journal_lines
from grants.models import BreakGlassUse, JobState, JournalLine
from grants.roles.capabilities import Capability


class LineSerializer(output.Output):
    revision = output.Integer()
    at = output.Time()
    actor = output.Text()
    action = output.Text(example="grant")
    principal = output.Text()
    entity = output.Text()
    privilege = output.Text()
    detail = output.Text()
    reason = output.Text()
    request_id = output.Text(help_text="The id that the console gave to the request.")
    caller_request_id = output.Text(help_text="The X-Request-ID of the caller.")
    token = output.Integer(
        allow_null=True, example=3, help_text="The number of the API token of the request."
    )
    issuer = output.Text(example="admin", help_text="The account or command that created the token.")
    format = output.Integer(
        example=2,
        help_text="Which members the hash covers. In format 1, `caller_request_id`, `token`, `issuer` and `format` are not.",
    )
    hash = output.Text(
        example="0" * 64,
        help_text="The SHA-256 of the hash of the previous line and the other members of this line.",
    )
    key_id = output.Text(
        example="5f0c1d3c6e7a4f1f",
        help_text="The key of the signature; empty in lines before the journal had keys.",
    )
    mac = output.Text(example="0" * 64, help_text="The HMAC-SHA-256 of `hash` with this key.")


class LineFilters(QuerySerializer):
    principal = PrincipalText()
    entity = AddressText()
    actor = Text(max_length=150, help_text="The account or command that made the change.")
    action = Choice(choices=list(ACTIONS), help_text="Only lines of this action.")
    request_id = Text(max_length=200, help_text="Only lines of the request with this id of the console.")
    caller_request_id = Text(
        max_length=200,
        help_text="Only lines of requests with this X-Request-ID of the caller.",
    )
    since = Time(help_text="Only lines at or after this time.")
    until = Time(help_text="Only lines before this time.")
    from_revision = QueryInteger(help_text="Only lines from this revision.")
    to_revision = QueryInteger(help_text="Only lines up to this revision.")
    after = QueryInteger(max_value=2**62, help_text="Only lines after this revision, oldest first.")


class JournalLines(List):
    """The lines, newest first, or with the filter `after` oldest first.

    The page also has the filters `text`, for which there is no index, and `contents_of`, an address with its contents.
    """

    name = "journal"
    output = LineSerializer
    filter_fields = LineFilters
    columns = (*JournalLine.HASHED, "hash")
    extensions = ("csv", "parquet", "jsonl")
    order = ("-place",)
    readers = (Capability.READ_JOURNAL,)
    rows_per_read = LINES_PER_BATCH
    query_plan = staticmethod(custom_query_plan)

    def select(self) -> QuerySet[JournalLine]:
        names = ("principal", "actor", "action", "request_id", "caller_request_id", "since", "until")
        entity, text = (str(self.filters.get(name, "")) for name in ("entity", "text"))
        rows = journal_lines(
            **self.equal(**{name: name for name in names}),
            entity=entity,
            contents_of=self.filters.get("contents_of"),
        ).filter(**self.equal(from_revision="place__gte", to_revision="place__lte", after="place__gt"))
        return rows.filter(Q(detail__icontains=text) | Q(reason__icontains=text)) if text else rows

    def parts(self):
        return [(self.rows(), ("place",) if "after" in self.filters else self.order)]

    def file_rows(self) -> Iterator[dict]:
        for line in self.all_rows():
            yield {name: getattr(line, name) for name in self.columns} | {
                "at": line.at.isoformat(),
                "token": "" if line.token is None else str(line.token),
            }


class DifferenceSerializer(output.Output):
    change = output.Choice(
        [GAINED, LOST], help_text="Whether it holds at the later or at the earlier revision."
    )
    what = output.Choice(["grant", "membership", "state", "status"])
    principal = output.Text(help_text="Empty for a state.")
    entity = output.Text(help_text="Empty for a membership or a status.")
    value = output.Text(
        example="READ", help_text="The privilege, the group, the state, or the status of a user."
    )
    revision = output.Integer(help_text="The line that began or ended it.")
    at = output.Time()
    actor = output.Text()
    reason = output.Text()


class DifferencesFilters(QuerySerializer):
    entity = AddressText(help_text="The differences of this address.")
    contents = QueryBoolean(default=False, help_text="Also those of everything inside the entity.")
    principal = PrincipalText(help_text="The differences of `user:NAME` or `group:NAME`.")
    since = AsOf(required=True, help_text="The earlier revision or time, such as `2026-02-01T08:00:00Z`.")
    until = AsOf(help_text="The later revision or time; by default the newest revision.")

    def validate(self, data: dict) -> dict:
        if ("entity" in data) == ("principal" in data):
            raise serializers.ValidationError({"entity": ["send either `entity` or `principal`"]})
        data.setdefault("until", current_revision())
        if data["since"] > data["until"]:
            raise serializers.ValidationError(
                {"since": [f"revision {data['since']:,} is after revision {data['until']:,}"]}
            )
        return data


class Differences(List):
    """What differs between two revisions for an entity, a container or a principal."""

    name = "differences"
    output = DifferenceSerializer
    filter_fields = DifferencesFilters
    readers = (Capability.READ_JOURNAL,)
    has_objects = True

    @property
    def span(self) -> Span:
        return Span(self.filters["since"], self.filters["until"])

    def parts(self):
        subject = self.filters["entity" if "entity" in self.filters else "principal"]
        parts = difference_parts(subject, self.span, with_contents=self.filters["contents"])
        return [(part, self.order) for part in parts]

    def members(self, rows) -> list[dict]:
        return super().members(as_differences(rows, self.span))

    def all_rows(self) -> Iterator:
        return all_differences([part for part, _ in self.parts()], self.span)


class SecurityEventFilters(QuerySerializer):
    kind = Choice(choices=EventKind.values, help_text="Only events of this kind.")
    account = Text(max_length=150, help_text="Only events of this account or entered name.")
    address = Text(max_length=45, help_text="Only events from this client address.")
    since = Time(help_text="Only events at or after this time.")
    until = Time(help_text="Only events before this time.")


class SecurityEvents(List):
    """The events, newest first."""

    name = "security-events"
    output = SecurityEventSerializer
    filter_fields = SecurityEventFilters
    order = ("-pk",)
    readers = (Capability.READ_SECURITY_EVENTS,)

    def select(self) -> QuerySet[SecurityEvent]:
        return SecurityEvent.objects.filter(
            **self.equal(kind="kind", account="account", address="address", since="at__gte", until="at__lt")
        )


class BreakGlassUseSerializer(output.Output):
    number = output.Integer(source="pk", example=3)
    account = output.Text(source="account_name", example="emergency")
    reason = output.Text(example="payroll run blocked, INC-4711")
    started_at = output.Time()
    ends_at = output.Time(example="2026-02-01T09:00:00Z", help_text="When the access ends or ended.")
    active = output.Boolean(source="is_active")
    reviewed_by = output.Text(help_text="Empty before the review.")
    reviewed_at = output.Time(allow_null=True)
    comment = output.Text()


class BreakGlassFilters(QuerySerializer):
    unreviewed = QueryBoolean(default=False, help_text="Only uses without a review.")


class BreakGlassUses(List):
    """The uses of break-glass access, oldest first."""

    name = "break-glass-uses"
    output = BreakGlassUseSerializer
    filter_fields = BreakGlassFilters
    readers = (Capability.READ_JOURNAL,)

    def select(self) -> QuerySet[BreakGlassUse]:
        return BreakGlassUse.objects.filter(**{"reviewed_at": None} if self.filters.get("unreviewed") else {})


# a state that pages and REST never show, because evidence cannot be cancelled
EVIDENCE_STATES = [state for state in JobState.values if state != JobState.CANCELLED]


class EvidenceSerializer(output.Output):
    number = output.Integer(source="pk", example=3)
    entity = output.Text(example="dataset:sales.customers")
    contents = output.Boolean(help_text="Whether it is also about everything inside the entity.")
    kind = output.Text(example="", help_text="The only kind of entities that it is about; empty for all.")
    from_revision = output.Integer(example=120)
    to_revision = output.Integer(example=4711)
    state = output.Choice(EVIDENCE_STATES, source="job.state")
    users_done = output.Integer(
        source="job.steps_done",
        help_text="The number of users that are checked so far; with contents, of entities.",
    )
    users_total = output.Integer(source="job.steps_total")
    requested_by = output.Text(source="job.requested_by.username", allow_null=True, example="auditor")
    requested_at = output.Time(source="job.requested_at")
    finished_at = output.Time(source="job.finished_at", allow_null=True)
    error = output.Text(source="job.error")
    figures = output.Record(
        source="job.summary",
        help_text="The numbers of users with access, of rows, of lines in access.csv, of changes in the period, and of "
        "checked users; with contents, also of entities.",
    )
    has_file = output.Boolean(source="job.result_path", help_text="Whether the bundle can be downloaded.")
    sha256 = output.Text(
        source="job.result_hash", help_text="The SHA-256 hash of the bundle; empty until it is done."
    )


class EvidenceList(List):
    """All evidence, newest first."""

    name = "evidence"
    output = EvidenceSerializer
    order = ("-pk",)
    readers = (Capability.READ_JOURNAL,)

    def select(self) -> QuerySet[Evidence]:
        return Evidence.objects.select_related("job__requested_by")


class DeadLetterSerializer(output.Output):
    revision = output.Integer(help_text="The revision of the journal line.")
    at = output.Time(help_text="When it was given up.")
    error = output.Text(example="status 500", help_text="The reason of the last failed attempt.")
    sent_again = output.Boolean(source="is_replayed", help_text="Whether it waits to be sent again.")


class DeadLetters(List):
    """The journal lines that a webhook, the subject, did not deliver, oldest first."""

    name = "dead-letters"
    output = DeadLetterSerializer
    order = ("revision",)
    readers = (Capability.READ_JOURNAL,)

    def select(self) -> QuerySet[DeadLetter]:
        return DeadLetter.objects.filter(webhook=self.subject)
