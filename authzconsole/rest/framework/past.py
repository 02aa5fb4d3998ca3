"""Read resources as of an earlier revision: the query parameters `as_of` and `at`, and the decorator of such reads."""

from collections.abc import Callable
from functools import wraps

from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from authzconsole.rest.framework.callers import check_can_see_all
from authzconsole.rest.framework.fields import StrictSerializer, Text
from grants.history import AsOfError, as_of, parse_as_of, parse_at


class AtTime(Text):
    """The time that a question is about: an RFC 3339 time with a zone."""

    def __init__(self, **options):
        super().__init__(max_length=40, **options)

    def run_validation(self, data=serializers.empty):
        text = super().run_validation(data)
        if not isinstance(text, str):
            return text
        try:
            return parse_at(text)
        except AsOfError as error:
            raise serializers.ValidationError(str(error)) from None


class AsOf(Text):
    """A revision of the journal, or a time in the past; the validated value is a revision."""

    def __init__(self, **options):
        super().__init__(max_length=40, **options)

    def run_validation(self, data=serializers.empty):
        text = super().run_validation(data)
        if not isinstance(text, str):
            return text
        try:
            return parse_as_of(text)
        except AsOfError as error:
            raise serializers.ValidationError(str(error)) from None


class PastQuery(StrictSerializer):
    """The state that a read is about."""

    as_of = AsOf(required=False, help_text="Answer with the state after this revision of the journal, or at this time, such as "
                                           "`2026-02-01T08:00:00Z`. For administrators and auditors.")
    at = AtTime(required=False, help_text="The time that the question is about, such as `2026-12-01T00:00:00Z`; default: now.")


def reads_past(method: Callable[..., Response]) -> Callable[..., Response]:
    """Call the method of an endpoint with the state that the parameter `as_of` names. It must return plain data.

    Only administrators and auditors may read the past, because past grants do not decide what an account may see now.
    """
    @wraps(method)
    def read(self, request: Request, *args, **kwargs) -> Response:
        if "as_of" not in self.query:
            return method(self, request, *args, **kwargs)
        check_can_see_all(request)
        with as_of(self.query["as_of"]):
            return method(self, request, *args, **kwargs)

    return read
