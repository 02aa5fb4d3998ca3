"""The parameters `at` and `as_of`: the time and the state that a read is about."""

from collections.abc import Callable, Mapping
from datetime import datetime

from rest_framework import serializers

from authzconsole.common.fields import StrictSerializer, Text
from grants.history import AsOfError, Moment, parse_as_of, parse_at
from grants.history.moments import time_of_as_of


class _MomentField(Text):
    """A text that `parse` turns into a time or a revision."""

    parse: Callable[[str], datetime | int]

    def __init__(self, **options):
        super().__init__(max_length=40, **options)

    def run_validation(self, data=serializers.empty):
        text = super().run_validation(data)
        if not isinstance(text, str):
            return text
        try:
            return self.parse(text)
        except AsOfError as error:
            raise serializers.ValidationError(str(error)) from None


class AtTime(_MomentField):
    """The time that a question is about: an RFC 3339 time with a zone."""

    parse = staticmethod(parse_at)


class AsOf(_MomentField):
    """A revision of the journal, or a time in the past; the validated value is a revision."""

    parse = staticmethod(parse_as_of)


class MomentQuery(StrictSerializer):
    """The state and the time that a read is about. Subclasses have the fields `as_of` and `at`."""

    def validate(self, data: dict) -> dict:
        """Add `as_of_time` if `as_of` is a time, because the revision alone does not have it."""
        time = time_of_as_of(self.initial_data["as_of"]) if "as_of" in data else None
        return data | ({"as_of_time": time} if time else {})


def moment_of_query(query: Mapping) -> Moment:
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
