"""Read resources at another time or as of an earlier revision."""

from collections.abc import Callable
from functools import wraps

from rest_framework.request import Request
from rest_framework.response import Response

from authzconsole.common.past import moment_of_query
from authzconsole.rest.framework.callers import check_journal_reader
from grants.history import NOW, at_moment


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
            self.find_object(kwargs)
            return method(self, request, *args, **kwargs)
        check_journal_reader(request)
        with at_moment(moment):
            self.find_object(kwargs)
            return method(self, request, *args, **kwargs)

    read.reads_past = True  # type: ignore[attr-defined]
    return read
