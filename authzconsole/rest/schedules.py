"""The REST resource `schedules`: which analyses run every night, when, and with which options."""

import re
from datetime import time

from rest_framework import serializers
from rest_framework.response import Response

from analytics.analyses import ANALYSES, AnalysisError
from analytics.models import Schedule
from analytics.runs.schedules import all_schedules, change_schedule, schedule_by_name
from authzconsole.common.fields import (
    Boolean,
    Choice,
    ErrorMessages,
    StrictSerializer,
    Text,
    reason_field,
)
from authzconsole.rest.framework.callers import changeable_with, check_report_reader
from authzconsole.rest.framework.endpoint import Endpoint
from authzconsole.rest.framework.etags import check_match, etag_of
from authzconsole.rest.framework.operations import ETAG, IF_MATCH_OPTIONAL, operation, path_parameter
from authzconsole.rest.framework.problems import Problem
from grants.authority.transactions import administrator_transaction
from grants.policies.catalogue import GENERATIONS
from grants.roles.capabilities import Capability

ANALYSIS_PATH = path_parameter("analysis", f"One of {', '.join(ANALYSES)}.")
TIME_FORMAT = r"^([01]\d|2[0-3]):[0-5]\d$"


class ScheduleSerializer(serializers.Serializer):
    analysis = serializers.ChoiceField(list(ANALYSES))
    on = serializers.BooleanField()
    at = serializers.RegexField(TIME_FORMAT, help_text="The time of day in UTC, HH:MM.")
    options = serializers.DictField(
        child=serializers.CharField(),
        help_text="The options of the run. Without a generation, "
        "the run uses the active generation of the night.",
    )


class SchedulesSerializer(serializers.Serializer):
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


class Schedules(Endpoint):
    route, url_name = "schedules", "rest-schedules"

    @operation(
        "schedules_list",
        check_report_reader,
        SchedulesSerializer,
    )
    def get(self) -> Response:
        """List schedules.

        Every analysis with its schedule; schedules are off by default. For administrators and auditors.
        """
        return Response({"items": list(map(_as_json, all_schedules()))})


class ScheduleDetail(Endpoint):
    route, url_name = "schedules/<slug:analysis>", "rest-schedule"

    @operation(
        "schedules_retrieve",
        check_report_reader,
        ScheduleSerializer,
        errors=[404],
        parameters=[ANALYSIS_PATH, ETAG],
    )
    def get(self) -> Response:
        """Read a schedule.

        For administrators and auditors.
        """
        return _response(_schedule(self.kwargs["analysis"]))

    @operation(
        "schedules_change",
        changeable_with(Capability.RUN_ANALYSES),
        ScheduleSerializer,
        body=SwitchSerializer,
        errors=[404, 412],
        parameters=[ANALYSIS_PATH, IF_MATCH_OPTIONAL, ETAG],
    )
    def put(self) -> Response:
        """Change a schedule.

        The request replaces all options of the schedule. In runs that a schedule starts, `scheduled` is
        true.
        """
        _schedule(self.kwargs["analysis"])
        data = self.data
        author = self.author
        options = {name: data[name] for name in ("generation", "to_generation", "namespace") if name in data}
        # locked, so that the schedule cannot change between the check and the change
        with administrator_transaction(author, capability=Capability.RUN_ANALYSES):
            schedule = _schedule(self.kwargs["analysis"])
            check_match(self.request, _etag(schedule), is_required=False)
            at = time.fromisoformat(data["at"]) if "at" in data else schedule.at
            change_schedule(
                author=author, analysis=self.kwargs["analysis"], is_on=data["on"], at=at, options=options
            )
            return _response(_schedule(self.kwargs["analysis"]))


def _schedule(analysis: str) -> Schedule:
    try:
        return schedule_by_name(analysis)
    except AnalysisError as error:
        raise Problem(404, str(error)) from None


def _response(schedule: Schedule) -> Response:
    return Response(_as_json(schedule), headers={"ETag": _etag(schedule)})


def _etag(schedule: Schedule) -> str:
    return etag_of(*_as_json(schedule).values())


def _as_json(schedule: Schedule) -> dict:
    return {
        "analysis": schedule.analysis,
        "on": schedule.is_on,
        "at": f"{schedule.at:%H:%M}",
        "options": schedule.options,
    }
