"""The lists about access requests: the requests, and the groups that decide for namespaces."""

from collections.abc import Iterable, Iterator

from django.db.models import Q, QuerySet

from authzconsole.common import output
from authzconsole.common.fields import Choice, QuerySerializer, Text
from authzconsole.lists.base import List
from grants.models import AccessRequest, NamespaceApprovers, PublishedItem, RequestEventKind, RequestState
from grants.requests.approvers import approver_scope, listed_requests
from grants.requests.catalogue import DECIDERS, deciders_of, published_items, usual_times
from grants.requests.disclosure import listed_parts
from grants.roles.capabilities import Capability

DECISIONS = (RequestEventKind.APPROVED, RequestEventKind.DENIED)
SHOWN = ("mine", "to-decide", "all")
END_EXAMPLE = "2026-12-05T17:00:00Z"


class RequestSummarySerializer(output.Output):
    number = output.Integer(source="pk")
    subject = output.Text(
        source="principal",
        example="user:julia.novak",
        help_text="The user who gets the access, written `user:NAME`.",
    )
    created_by = output.Text(example="julia.novak")
    colleague = output.Text(allow_null=True)
    reason = output.Text()
    valid_until = output.Time(
        source="requested_until", allow_null=True, example=END_EXAMPLE, help_text="The requested end."
    )
    state = output.Choice(RequestState.values, source="current_state")
    waits_for_answer = output.Boolean(help_text="An approver asked a question that is not answered yet.")
    created_at = output.Time(example="2026-12-01T08:00:00Z")
    expires_at = output.Time(
        example=END_EXAMPLE, help_text="When the request expires if it is still pending."
    )
    decided_at = output.Time(allow_null=True)


class RequestLineSerializer(RequestSummarySerializer):
    """A request in a file, with its parts and their decisions."""

    parts = output.Texts()
    part_states = output.Texts(RequestState.values, help_text="In the order of the parts.")
    decided_by = output.Texts()
    comments = output.Texts(help_text="The comments on approvals, and the reasons of denials.")
    plans = output.Numbers(help_text="The applied plans; for administrators and auditors.")


class RequestFilters(QuerySerializer):
    show = Choice(
        choices=SHOWN,
        default="all",
        help_text="`mine`, `to-decide` (pending requests that wait for you), or `all` that you may see.",
    )
    state = Choice(choices=RequestState.values, help_text="Only requests in this state.")


class AccessRequests(List):
    """The requests that the account may see, newest first."""

    name = "access-requests"
    output = RequestSummarySerializer
    file_output = RequestLineSerializer
    filter_fields = RequestFilters
    order = ("-pk",)
    has_objects = True
    columns = (
        "number",
        "subject",
        "created_by",
        "colleague",
        "parts",
        "reason",
        "valid_until",
        "state",
        "waits_for_answer",
        "created_at",
        "expires_at",
        "decided_at",
        "part_states",
        "decided_by",
        "comments",
        "plans",
    )
    rows_per_read = 500

    def identity(self) -> list:
        return [self.name, self.account.pk]

    def select(self) -> QuerySet[AccessRequest]:
        return listed_requests(self.account, self.filters["show"], self.filters.get("state", ""))

    def all_rows(self) -> Iterator[AccessRequest]:
        return (
            self.select()
            .prefetch_related("parts", "events")
            .order_by(*self.order)
            .iterator(self.rows_per_read)
        )

    def objects(self) -> Iterator[dict]:
        """Yield the requests with the parts that the account may know."""
        scope = approver_scope(self.account)
        for row in self.all_rows():
            line = self.output.data_of(row)
            parts = listed_parts(row, scope)
            plans = {part.plan_id for part in parts if part.plan_id} if self.account.can_see_all else ()
            line |= {
                "parts": [part.title for part in parts],
                "part_states": [part.state for part in parts],
                "decided_by": sorted({part.decided_by for part in parts if part.decided_by}),
                "comments": [
                    event.text for event in row.events.all() if event.kind in DECISIONS and event.text
                ],
                "plans": sorted(plans),
            }
            yield {name: line[name] for name in self.columns}


class CatalogueItemSerializer(output.Output):
    """An entity that every account may request."""

    entity = output.Text(source="address")
    operations = output.Texts(
        example=["read"], help_text="Operations and privileges that a request proposes."
    )
    description = output.Text(example="Orders of all shops, one row each.")
    decided_by = output.Texts(
        list(DECIDERS),
        example=["stewards", "console"],
        help_text="Who decides: `stewards` and `approvers` of the "
        "namespace, holders of ADMIN (`admin-holders`), administrators and approvers of the `console`.",
    )
    usual_seconds = output.Integer(
        allow_null=True,
        example=14400,
        help_text="The median time to a decision in the last 90 days; null for fewer than three decisions.",
    )


class CatalogueFilters(QuerySerializer):
    q = Text(
        max_length=100,
        help_text="Only entries with this text in the address or the description.",
    )


class Catalogue(List):
    """The published entities, which every account may see."""

    name = "catalogue"
    output = CatalogueItemSerializer
    filter_fields = CatalogueFilters
    order = ("entity__key", "entity__kind")
    extensions = ()

    def select(self) -> QuerySet[PublishedItem]:
        rows, text = published_items(), self.filters.get("q", "")
        return rows.filter(Q(address_text__icontains=text) | Q(description__icontains=text)) if text else rows

    def members(self, rows: Iterable[PublishedItem]) -> list[dict]:
        return super().members(shown_items(rows))


def shown_items(rows: Iterable[PublishedItem]) -> list[dict]:
    """Return entries of the catalogue with who decides about them and how long it usually takes. Runs at most five queries."""
    items = list(rows)
    deciders = deciders_of([item.address for item in items])
    times = usual_times({item.address.namespace.key for item in items if item.address.namespace})
    return [
        {
            "address": item.address,
            "operations": item.operations,
            "description": item.description,
            "decided_by": deciders[item.address],
            "usual_seconds": None if (seconds := times.of(item.address)) is None else round(seconds),
        }
        for item in items
    ]


class ApproversSerializer(output.Output):
    namespace = output.Text(source="address", example="namespace:finance")
    group = output.Text(source="group.name", allow_null=True, example="finance-stewards")


class Approvers(List):
    """The groups that decide about requests for namespaces."""

    name = "approvers"
    output = ApproversSerializer
    order = ("namespace",)
    readers = (Capability.READ_ALL,)

    def select(self) -> QuerySet[NamespaceApprovers]:
        return NamespaceApprovers.objects.select_related("group")
