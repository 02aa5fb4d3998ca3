"""The members `valid_from` and `valid_until` of grants and memberships, in requests and responses."""

from collections.abc import Mapping

from django.db.models import Q
from rest_framework import serializers

from authzconsole.common import output
from authzconsole.common.fields import Choice, StrictSerializer, Time
from grants.policies.times import TimeError, parse_time
from grants.validity import (
    VALIDITY_COLUMNS,
    Validity,
    ValidityError,
    in_force_condition,
    question_time,
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
