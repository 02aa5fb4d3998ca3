"""The REST resource `break-glass-uses`: emergency access and its review."""

from rest_framework.request import Request
from rest_framework.response import Response

from authzconsole.common.fields import StrictSerializer, Text
from authzconsole.lists.journal import BreakGlassUses, BreakGlassUseSerializer
from authzconsole.rest.framework.callers import (
    author_of,
    check_administrator,
    check_journal_reader,
    check_recent_authentication,
)
from authzconsole.rest.framework.endpoint import Endpoint, Resource, created_response
from authzconsole.rest.framework.lists import ListEndpoint
from authzconsole.rest.framework.locations import break_glass_location
from authzconsole.rest.framework.operations import LOCATION, api_operation
from grants.authority.break_glass import end_break_glass, review_break_glass, start_break_glass
from grants.models import BreakGlassUse
from grants.principal_names import MAX_REASON_CHARACTERS

TAG = "Journal"


class BreakGlassStartSerializer(StrictSerializer):
    """Why the access is needed."""

    reason = Text(
        max_length=MAX_REASON_CHARACTERS,
        help_text="Why the access is needed; the person who reviews it reads it.",
    )


class BreakGlassReviewSerializer(StrictSerializer):
    """The result of a review."""

    comment = Text(
        max_length=MAX_REASON_CHARACTERS,
        help_text="Whether the changes were justified, and what must be undone.",
    )


REVIEWED_EXAMPLE = {
    "reviewed_by": "admin",
    "reviewed_at": "2026-02-01T10:00:00Z",
    "comment": "justified; one grant revoked",
}
USE = Resource.numbered(
    "The number of the use.",
    lambda request: BreakGlassUse.objects.all(),
    "there is no break-glass access with the number {}",
)


class BreakGlassUseList(ListEndpoint):
    rows = BreakGlassUses
    rules = {"POST": check_administrator}
    operation = (
        "break_glass_list",
        TAG,
        "List uses of break-glass access",
        "Oldest first. For administrators and auditors.",
    )

    @api_operation(
        "break_glass_start",
        TAG,
        "Start break-glass access",
        "For one hour, the rules of four eyes do not apply to the account of the session. The account must be in "
        "BREAK_GLASS_ACCOUNTS. API tokens cannot start it, and it does not apply to them.",
        request=BreakGlassStartSerializer,
        request_example={"reason": "payroll run blocked, INC-4711"},
        responses={201: BreakGlassUseSerializer},
        response_example={"active": True},
        errors=[409],
        parameters=[LOCATION],
    )
    def post(self, request: Request) -> Response:
        data = self.body(BreakGlassStartSerializer)
        check_recent_authentication(request)
        use = start_break_glass(author=author_of(request, data["reason"]))
        return created_response(BreakGlassUseSerializer.data_of(use), break_glass_location(use.pk))


class BreakGlassDetail(Endpoint):
    resource = USE
    rules = {"GET": check_journal_reader}

    @api_operation(
        "break_glass_retrieve",
        TAG,
        "Read a use of break-glass access",
        "For administrators and auditors.",
        responses={200: BreakGlassUseSerializer},
    )
    def get(self, request: Request, number: int) -> Response:
        return Response(BreakGlassUseSerializer.data_of(self.object))


class BreakGlassEnd(Endpoint):
    resource = USE
    rules = {"POST": check_administrator}

    @api_operation(
        "break_glass_end",
        TAG,
        "End break-glass access early",
        "Every administrator can end it.",
        responses={200: BreakGlassUseSerializer},
        errors=[409],
    )
    def post(self, request: Request, number: int) -> Response:
        use = end_break_glass(author=author_of(request), number=number)
        return Response(BreakGlassUseSerializer.data_of(use))


class BreakGlassReview(Endpoint):
    resource = USE
    rules = {"POST": check_administrator}

    @api_operation(
        "break_glass_review",
        TAG,
        "Review a use of break-glass access",
        "Only after the access has ended, and by another person (otherwise 403).",
        request=BreakGlassReviewSerializer,
        request_example={"comment": REVIEWED_EXAMPLE["comment"]},
        responses={200: BreakGlassUseSerializer},
        response_example=REVIEWED_EXAMPLE,
        errors=[409],
    )
    def post(self, request: Request, number: int) -> Response:
        data = self.body(BreakGlassReviewSerializer)
        use = review_break_glass(author=author_of(request), number=number, comment=data["comment"])
        return Response(BreakGlassUseSerializer.data_of(use))
