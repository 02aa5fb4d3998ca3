"""Read resources at another time or as of an earlier revision: the query parameters `at` and `as_of`, and
their decorator.
"""

from collections.abc import Callable
from functools import wraps

from rest_framework.request import Request
from rest_framework.response import Response

from authzconsole.common.fields import StrictSerializer
from authzconsole.common.past import AsOf, AtTime
from authzconsole.rest.framework.callers import check_journal_reader
from grants.history import NOW, Moment, at_moment
from grants.history.moments import time_of_as_of


class MomentQuery(StrictSerializer):
    """The state and the time that a read is about. Subclasses have the fields `as_of` and `at`."""

    def validate(self, data: dict) -> dict:
        """Add `as_of_time` if `as_of` is a time, because the revision alone does not have it."""
        time = time_of_as_of(self.initial_data["as_of"]) if "as_of" in data else None
        return data | ({"as_of_time": time} if time else {})


def moment_of_query(query: dict) -> Moment:
    """Return the state and the time that a validated MomentQuery is about."""
    return Moment(query.get("as_of"), query.get("at") or query.get("as_of_time"))


class PastQuery(MomentQuery):
    """The state and the time that a read of stored rows is about."""

    as_of = AsOf(
        required=False,
        help_text="Answer with the state after this revision of the journal, or at this time, such as "
        "`2026-02-01T08:00:00Z`. For administrators and auditors.",
    )
    at = AtTime(
        required=False,
        help_text="Answer for this time, such as `2026-12-01T00:00:00Z`: grants and memberships that are "
        "not valid then are left out. For administrators and auditors.",
    )


def reads_past(method: Callable[..., Response]) -> Callable[..., Response]:
    """Call the method of an endpoint with the state and time that `as_of` and `at` name. It must return plain
    data.

    Only administrators and auditors may use them, because the grants of another time do not decide what an
    account may see now.
    """

    @wraps(method)
    def read(self, request: Request, *args, **kwargs) -> Response:
        moment = moment_of_query(self.query)
        if moment == NOW:
            return method(self, request, *args, **kwargs)
        check_journal_reader(request)
        with at_moment(moment):
            return method(self, request, *args, **kwargs)

    return read
