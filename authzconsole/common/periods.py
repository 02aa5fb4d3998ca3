"""The members `valid_from` and `valid_until` of grants and memberships, and the parameters `at` and `as_of`: the time
and the state that a read is about.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext

from django.db.models import Q
from rest_framework import serializers

from authzconsole.common import output
from authzconsole.common.fields import Choice, ParsedText, QuerySerializer, StrictSerializer, Time
from authzconsole.common.rate_limits import past_request
from grants.history import Moment, at_moment, parse_as_of, parse_at, time_of_as_of
from grants.models import User
from grants.policies.times import TimeError, parse_time
from grants.validity import (
    VALIDITY_COLUMNS,
    Validity,
    ValidityError,
    in_force_condition,
    question_time,
)


class AtTime(ParsedText):
    """The time that a question is about: an RFC 3339 time with a zone."""

    parse = staticmethod(parse_at)

    def __init__(self, **options):
        super().__init__(max_length=40, **options)


class AsOf(AtTime):
    """A revision of the journal, or a time in the past; the validated value is a revision."""

    parse = staticmethod(parse_as_of)


class MomentQuery(QuerySerializer):
    """The state and the time that a read is about. Subclasses have the fields `as_of` and `at`."""

    def validate(self, data: dict) -> dict:
        """Add `as_of_time` if `as_of` is a time, because the revision alone does not have it."""
        time = time_of_as_of(self.initial_data["as_of"]) if "as_of" in data else None
        return data | ({"as_of_time": time} if time else {})


def moment_of_query(query: Mapping) -> Moment:
    """Return the state and the time that a validated MomentQuery is about."""
    return Moment(query.get("as_of"), query.get("at") or query.get("as_of_time"))


@contextmanager
def reading_moment(moment: Moment, account: User) -> Iterator[None]:
    """Answer a request of an account for a state and a time. Raise Problem (429 or 503) if too many requests
    are about the past.
    """
    limit = past_request(account.pk, is_limited=not account.can_see_all)
    with nullcontext() if moment.revision is None else limit, at_moment(moment):
        yield


class PastQuery(MomentQuery):
    """The state and the time that a read of stored rows is about."""

    as_of = AsOf(
        help_text="Answer with the state after this revision of the journal, or at this time, such as "
        "`2026-02-01T08:00:00Z`. For administrators and auditors.",
    )
    at = AtTime(
        help_text="Answer for this time, such as `2026-12-01T00:00:00Z`: grants and memberships that are "
        "not valid then are left out. For administrators and auditors.",
    )


PERIODS = ("now", "future", "expired", "limited")
NO_LIMITS: dict[str, str | None] = dict.fromkeys(VALIDITY_COLUMNS)


class PeriodTime(Time):
    """A time with a time zone, in whole seconds."""

    def to_internal_value(self, value):
        try:
            return Validity.between(parse_time(value)).valid_from
        except (TimeError, ValidityError) as error:
            raise serializers.ValidationError(str(error)) from None


class PeriodSerializer(StrictSerializer):
    """The period of a grant or a membership. The validated data contains it as `validity`."""

    valid_from = PeriodTime(
        required=False,
        allow_null=True,
        help_text="The beginning, with a time zone; by default there is none.",
    )
    valid_until = PeriodTime(
        required=False,
        allow_null=True,
        help_text="The end, with a time zone; by default there is none. It must be in the future.",
    )

    def validate(self, data: dict) -> dict:
        data = super().validate(data)
        try:
            data["validity"] = Validity.between(*(data.pop(name, None) for name in VALIDITY_COLUMNS))
            data["validity"].check_not_over()
        except ValidityError as error:
            raise serializers.ValidationError({error.field: [str(error)]}) from None
        return data


_FROM_HELP = "Null without a beginning."
_UNTIL_HELP = "Null without an end. It does not count from then on."
# the period of a row with a `validity`
VALID_FROM = output.Time(get=lambda row: row.validity.valid_from, allow_null=True, help_text=_FROM_HELP)
VALID_UNTIL = output.Time(get=lambda row: row.validity.valid_until, allow_null=True, help_text=_UNTIL_HELP)


class ShownPeriodSerializer(output.Output):
    valid_from = output.Time(allow_null=True, help_text=_FROM_HELP)
    valid_until = output.Time(allow_null=True, help_text=_UNTIL_HELP)


def period_filter() -> Choice:
    return Choice(
        choices=PERIODS,
        required=False,
        help_text="Only those that count now, begin later (`future`), have ended (`expired`), or have any limit.",
    )


def period_condition_of(query: Mapping) -> Q:
    """Return the condition of the parameter `valid`, at the time of the question.

    With `at`, it is `now` by default.
    """
    at = question_time()
    match query.get("valid", "now" if "at" in query else None):
        case "now":
            return in_force_condition(at=at)
        case "future":
            return Q(valid_from__gt=at)
        case "expired":
            return Q(valid_until__lte=at)
        case "limited":
            return Q(valid_from__isnull=False) | Q(valid_until__isnull=False)
    return Q()
