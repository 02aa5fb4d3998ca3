"""The REST resource `break-glass-uses`: emergency access and its review."""

from rest_framework.response import Response

from authzconsole.common.fields import StrictSerializer, Text
from authzconsole.lists.journal import BreakGlassUses, BreakGlassUseSerializer
from authzconsole.rest.framework.callers import (
    check_administrator,
    check_journal_reader,
    check_recent_authentication,
)
from authzconsole.rest.framework.endpoint import Endpoint, Resource
from authzconsole.rest.framework.lists import ListEndpoint
from authzconsole.rest.framework.operations import operation
from grants.authority.break_glass import end_break_glass, review_break_glass, start_break_glass
from grants.models import BreakGlassUse
from grants.principal_names import MAX_REASON_CHARACTERS


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


USE = Resource.numbered(
    "The number of the use.",
    lambda request: BreakGlassUse.objects.all(),
    "there is no break-glass access with the number {}",
)


class BreakGlassUseList(ListEndpoint):
    """List uses of break-glass access.

    Oldest first. For administrators and auditors.
    """

    route, url_name = "break-glass-uses", "rest-break-glass-uses"
    operation_id = "break_glass_list"
    rows = BreakGlassUses

    @operation(
        "break_glass_start",
        check_administrator,
        {201: BreakGlassUseSerializer},
        body=BreakGlassStartSerializer,
    )
    def post(self) -> Response:
        """Start break-glass access.

        For one hour, the rules of four eyes do not apply to the account of the session. The account must
        be in BREAK_GLASS_ACCOUNTS. API tokens cannot start it, and it does not apply to them.
        """
        check_recent_authentication(self.request)
        return self.created(start_break_glass(author=self.author), "break-glass-uses")


class BreakGlassDetail(Endpoint):
    route, url_name = "break-glass-uses/<int:number>", "rest-break-glass-use"
    resource = USE

    @operation(
        "break_glass_retrieve",
        check_journal_reader,
        BreakGlassUseSerializer,
    )
    def get(self) -> object:
        """Read a use of break-glass access.

        For administrators and auditors.
        """
        return self.object


class BreakGlassEnd(Endpoint):
    route, url_name = "break-glass-uses/<int:number>/end", "rest-break-glass-end"
    resource = USE

    @operation(
        "break_glass_end",
        check_administrator,
        BreakGlassUseSerializer,
    )
    def post(self) -> object:
        """End break-glass access early.

        Every administrator can end it.
        """
        return end_break_glass(author=self.author, number=self.object.pk)


class BreakGlassReview(Endpoint):
    route, url_name = "break-glass-uses/<int:number>/review", "rest-break-glass-review"
    resource = USE

    @operation(
        "break_glass_review",
        check_administrator,
        BreakGlassUseSerializer,
        body=BreakGlassReviewSerializer,
    )
    def post(self) -> object:
        """Review a use of break-glass access.

        Only after the access has ended, and by another person (otherwise 403).
        """
        return review_break_glass(author=self.author, number=self.object.pk, comment=self.data["comment"])
