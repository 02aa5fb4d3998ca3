"""Read resources at another time or as of an earlier revision."""

from collections.abc import Callable
from functools import wraps
from typing import Any

from django.http.response import HttpResponseBase

from authzconsole.common.past import moment_of_query
from authzconsole.rest.framework.callers import check_journal_reader
from grants.history import NOW, at_moment


def reads_past(method: Callable[..., Any]) -> Callable[..., Any]:
    """Call the method of an endpoint with the state and time that `as_of` and `at` name. It must return plain
    data.

    Only administrators and auditors may use them, because the grants of another time do not decide what an
    account may see now.
    """

    @wraps(method)
    def read(self) -> Any:
        moment = moment_of_query(self.query)
        if moment == NOW:
            self.find_object(self.kwargs)
            return method(self)
        check_journal_reader(self.request)
        with at_moment(moment):
            self.find_object(self.kwargs)
            content = method(self)
            return content if isinstance(content, HttpResponseBase) else self.response(content)

    read.reads_past = True  # type: ignore[attr-defined]
    return read
