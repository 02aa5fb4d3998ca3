"""The REST resource `schedules`: which analyses run every night, when, and with which options."""

import re
from datetime import time

from rest_framework import serializers

from analytics.analyses import ANALYSES, AnalysisError
from analytics.models import Schedule
from analytics.runs.schedules import all_schedules, change_schedule, schedule_by_name
from authzconsole.common import output
from authzconsole.common.fields import (
    Boolean,
    Choice,
    ErrorMessages,
    StrictSerializer,
    Text,
    reason_field,
)
from authzconsole.rest.framework.callers import changeable_with, check_report_reader
from authzconsole.rest.framework.endpoint import Endpoint, Resource
from authzconsole.rest.framework.operations import ETAG, IF_MATCH_OPTIONAL, operation
from authzconsole.rest.framework.problems import Problem
from grants.authority.transactions import administrator_transaction
from grants.policies.catalogue import GENERATIONS
from grants.roles.capabilities import Capability

TIME_FORMAT = r"^([01]\d|2[0-3]):[0-5]\d$"


class TimeOfDay(output.Member, serializers.RegexField):
    def to_representation(self, value: time) -> str:
        return f"{value:%H:%M}"


class ScheduleSerializer(output.Output):
    analysis = output.Choice(list(ANALYSES))
    on = output.Boolean(source="is_on")
    at = TimeOfDay(TIME_FORMAT, help_text="The time of day in UTC, HH:MM.")
    options = output.Record(
        child=serializers.CharField(),
        help_text="The options of the run. Without a generation, the run uses the active generation of the night.",
    )


class SchedulesSerializer(output.Output):
    items = ScheduleSerializer(many=True)


class MinuteText(ErrorMessages, serializers.RegexField):
    def __init__(self, **options):
        super().__init__(TIME_FORMAT, trim_whitespace=False, **options)
        self.error_messages["invalid"] = "this must be a time such as 02:30, in UTC"

    def to_internal_value(self, data):
        if not isinstance(data, str):
            raise serializers.ValidationError("this must be a string")
        # `$` also matches before a final line break
        if not re.fullmatch(TIME_FORMAT, data) or data.endswith("\n"):
            self.fail("invalid")
        return data


class SwitchSerializer(StrictSerializer):
    """A schedule: whether the analysis runs every night, when, and with which options."""

    on = Boolean(help_text="Whether it runs every night.")
    at = MinuteText(required=False, help_text="The time of day in UTC; by default unchanged.")
    generation = Choice(
        choices=list(GENERATIONS), required=False, help_text="By default the active generation of each night."
    )
    to_generation = Choice(
        choices=list(GENERATIONS),
        required=False,
        help_text="For `policy-impact`: the generation that is compared with `generation`.",
    )
    namespace = Text(required=False, max_length=200, help_text="Only this live namespace; by default all.")
    reason = reason_field()


def _schedule(analysis: str) -> Schedule:
    try:
        return schedule_by_name(analysis)
    except AnalysisError as error:
        raise Problem(404, str(error)) from None


SCHEDULE = Resource(
    "analysis", f"One of {', '.join(ANALYSES)}.", lambda request, analysis: _schedule(analysis)
)


class Schedules(Endpoint):
    route, url_name = "schedules", "rest-schedules"

    @operation("schedules_list", check_report_reader, SchedulesSerializer)
    def get(self) -> object:
        """List schedules.

        Every analysis with its schedule; schedules are off by default. For administrators and auditors.
        """
        return {"items": all_schedules()}


class ScheduleDetail(Endpoint):
    route, url_name = "schedules/<slug:analysis>", "rest-schedule"
    resource = SCHEDULE

    @operation("schedules_retrieve", check_report_reader, ScheduleSerializer, parameters=[ETAG])
    def get(self) -> object:
        """Read a schedule.

        For administrators and auditors.
        """
        return self.object

    @operation(
        "schedules_change",
        changeable_with(Capability.RUN_ANALYSES),
        ScheduleSerializer,
        body=SwitchSerializer,
        errors=[412],
        parameters=[IF_MATCH_OPTIONAL, ETAG],
    )
    def put(self) -> object:
        """Change a schedule.

        The request replaces all options of the schedule. In runs that a schedule starts, `scheduled` is
        true.
        """
        data, name = self.data, self.kwargs["analysis"]
        options = {name: data[name] for name in ("generation", "to_generation", "namespace") if name in data}
        # locked, so that the schedule cannot change between the check and the change
        with administrator_transaction(self.author, capability=Capability.RUN_ANALYSES):
            schedule = _schedule(name)
            self.check_etag(schedule, is_required=False)
            at = time.fromisoformat(data["at"]) if "at" in data else schedule.at
            change_schedule(author=self.author, analysis=name, is_on=data["on"], at=at, options=options)
            return _schedule(name)
