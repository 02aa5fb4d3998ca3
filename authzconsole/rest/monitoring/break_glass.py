"""The REST resource `break-glass-uses`: emergency access and its review."""

from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from authzconsole.rest.entities import as_json_time
from authzconsole.rest.framework.callers import (
    author_of,
    check_administrator,
    check_journal_reader,
    check_recent_authentication,
)
from authzconsole.rest.framework.cursors import ListPart, PageQuery, list_identity, page_of, page_serializer
from authzconsole.rest.framework.endpoint import Endpoint, created_response
from authzconsole.rest.framework.fields import MAX_INTEGER, QueryBoolean, StrictSerializer, Text
from authzconsole.rest.framework.locations import break_glass_location
from authzconsole.rest.framework.problems import Problem
from authzconsole.rest.openapi.operations import LOCATION, api_operation, path_parameter
from grants.changes.break_glass import end_break_glass, review_break_glass, start_break_glass
from grants.models import BreakGlassUse
from grants.principal_names import MAX_REASON_CHARACTERS

TAG = "Journal"
USE_PATH = path_parameter("number", "The number of the use.", int)


class BreakGlassUseSerializer(serializers.Serializer):
    number = serializers.IntegerField()
    account = serializers.CharField()
    reason = serializers.CharField()
    started_at = serializers.DateTimeField()
    ends_at = serializers.DateTimeField(help_text="When the access ends or ended.")
    active = serializers.BooleanField()
    reviewed_by = serializers.CharField(help_text="Empty before the review.")
    reviewed_at = serializers.DateTimeField(allow_null=True)
    comment = serializers.CharField()


class BreakGlassQuery(PageQuery):
    unreviewed = QueryBoolean(required=False, default=False, help_text="Only uses without a review.")


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


EXAMPLE = {
    "number": 3,
    "account": "emergency",
    "reason": "payroll run blocked, INC-4711",
    "started_at": "2026-02-01T08:00:00Z",
    "ends_at": "2026-02-01T09:00:00Z",
    "active": False,
    "reviewed_by": "",
    "reviewed_at": None,
    "comment": "",
}
REVIEWED = EXAMPLE | {
    "reviewed_by": "admin",
    "reviewed_at": "2026-02-01T10:00:00Z",
    "comment": "justified; one grant revoked",
}


class BreakGlassUses(Endpoint):
    rules = {"GET": check_journal_reader, "POST": check_administrator}
    queries = {"GET": BreakGlassQuery}

    @api_operation(
        "break_glass_list",
        TAG,
        "List uses of break-glass access",
        "Oldest first. For administrators and auditors.",
        query=BreakGlassQuery,
        responses={200: page_serializer(BreakGlassUseSerializer)},
        response_example={"items": [EXAMPLE], "next": None},
    )
    def get(self, request: Request) -> Response:
        rows = (
            BreakGlassUse.objects.filter(reviewed_at=None)
            if self.query["unreviewed"]
            else BreakGlassUse.objects.all()
        )
        return Response(
            page_of(
                [ListPart(rows, ("pk",))],
                _as_json,
                query=self.query,
                identity=list_identity("break-glass-uses", self.query),
            )
        )

    @api_operation(
        "break_glass_start",
        TAG,
        "Start break-glass access",
        "For one hour, the rules of four eyes do not apply to the account of the session. The account must be in "
        "BREAK_GLASS_ACCOUNTS. API tokens cannot start it, and it does not apply to them.",
        request=BreakGlassStartSerializer,
        request_example={"reason": EXAMPLE["reason"]},
        responses={201: BreakGlassUseSerializer},
        response_example=EXAMPLE | {"active": True},
        errors=[409],
        parameters=[LOCATION],
    )
    def post(self, request: Request) -> Response:
        data = self.body(BreakGlassStartSerializer)
        check_recent_authentication(request)
        use = start_break_glass(author=author_of(request, data["reason"]))
        return created_response(_as_json(use), break_glass_location(use.pk))


class BreakGlassDetail(Endpoint):
    rules = {"GET": check_journal_reader}

    @api_operation(
        "break_glass_retrieve",
        TAG,
        "Read a use of break-glass access",
        "For administrators and auditors.",
        responses={200: BreakGlassUseSerializer},
        response_example=EXAMPLE,
        errors=[404],
        parameters=[USE_PATH],
    )
    def get(self, request: Request, number: int) -> Response:
        return Response(_as_json(_use_or_404(number)))


class BreakGlassEnd(Endpoint):
    rules = {"POST": check_administrator}

    @api_operation(
        "break_glass_end",
        TAG,
        "End break-glass access early",
        "Every administrator can end it.",
        responses={200: BreakGlassUseSerializer},
        response_example=EXAMPLE,
        errors=[404, 409],
        parameters=[USE_PATH],
    )
    def post(self, request: Request, number: int) -> Response:
        _use_or_404(number)
        return Response(_as_json(end_break_glass(author=author_of(request), number=number)))


class BreakGlassReview(Endpoint):
    rules = {"POST": check_administrator}

    @api_operation(
        "break_glass_review",
        TAG,
        "Review a use of break-glass access",
        "Only after the access has ended, and by another person (otherwise 403).",
        request=BreakGlassReviewSerializer,
        request_example={"comment": REVIEWED["comment"]},
        responses={200: BreakGlassUseSerializer},
        response_example=REVIEWED,
        errors=[404, 409],
        parameters=[USE_PATH],
    )
    def post(self, request: Request, number: int) -> Response:
        _use_or_404(number)
        data = self.body(BreakGlassReviewSerializer)
        use = review_break_glass(author=author_of(request), number=number, comment=data["comment"])
        return Response(_as_json(use))


def _use_or_404(number: int) -> BreakGlassUse:
    use = BreakGlassUse.objects.filter(pk=number).first() if number <= MAX_INTEGER else None
    if use is None:
        raise Problem(404, f"there is no break-glass access with the number {number}")
    return use


def _as_json(use: BreakGlassUse) -> dict:
    return {
        "number": use.pk,
        "account": use.account_name,
        "reason": use.reason,
        "started_at": as_json_time(use.started_at),
        "ends_at": as_json_time(use.ends_at),
        "active": use.is_active,
        "reviewed_by": use.reviewed_by,
        "reviewed_at": as_json_time(use.reviewed_at),
        "comment": use.comment,
    }
