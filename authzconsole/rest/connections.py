"""The REST resource `connections`: the connections to platforms, their syncs and their drift."""

from typing import Any

from rest_framework.request import Request
from rest_framework.response import Response

from authzconsole.common import output
from authzconsole.common.fields import Boolean, StrictSerializer, Text, reason_field
from authzconsole.connections.jobs import (
    COMPARE_JOB,
    PUSH_JOB,
    SYNC_JOB,
    drift_row,
    newest_job,
    request_connection_job,
    request_push,
)
from authzconsole.lists.connections import Connections, ConnectionSerializer
from authzconsole.models import Connection
from authzconsole.rest.framework.callers import check_administrator, check_can_see_all
from authzconsole.rest.framework.endpoint import Endpoint, Resource
from authzconsole.rest.framework.lists import ListEndpoint
from authzconsole.rest.framework.operations import operation
from authzconsole.rest.framework.problems import Problem
from grants.models import Job, JobState


class _JobSerializer(output.Output):
    state = output.Choice(JobState.values, example="done")
    scheduled = output.Boolean(source="is_scheduled")
    requested_by = output.Text(source="requested_by.username", allow_null=True, example="admin")
    requested_at = output.Time()
    finished_at = output.Time(allow_null=True, example=output.TIME_EXAMPLE)
    items_read = output.Integer(source="steps_done", example=1200)
    error = output.Text(example="", help_text="Why it failed; otherwise empty.")


def _result(name: str, empty: Any) -> Any:
    return lambda job: job.summary.get(name, empty)


class UnsupportedSerializer(output.Output):
    subject = output.Text(
        example="INDEX on dataset:sales.orders for user:alice", help_text="As the platform writes it."
    )
    reason = output.Text(example="the console has no such privilege")


class SyncSerializer(_JobSerializer):
    applied = output.Boolean(
        get=lambda job: "applies" in job.options, help_text="Whether it makes its changes; otherwise a plan."
    )
    plan = output.Integer(get=_result("plan", None), allow_null=True, example=12)
    entities = output.Record(get=_result("entities", {}), example={"new": 12, "live": 0, "deleted": 1})
    grants = output.Record(get=_result("grants", {}), example={"granted": 40, "revoked": 2})
    principals = output.Record(
        get=_result("principals", {}),
        example={"users": 3, "groups": 1, "roles": 0, "joined": 0, "left": 0},
    )
    unsupported = UnsupportedSerializer(
        many=True,
        get=lambda job: [
            {"subject": subject, "reason": reason} for subject, reason in job.summary.get("unsupported", ())
        ],
        help_text="The first 10,000 of what the platform has and the console cannot express. "
        "`manage.py connection sync NAME --dry-run` lists all.",
    )
    unsupported_count = output.Integer(
        get=lambda job: job.summary.get("unsupported_count", len(job.summary.get("unsupported", ()))),
        example=1,
        help_text="The number of everything that the console cannot express.",
    )


class DriftedPrivilegeSerializer(output.Output):
    principal = output.Text()
    entity = output.Text()
    privilege = output.Text()
    console = output.Boolean(example=True, help_text="Whether the console grants it.")
    platform = output.Boolean(example=False, help_text="Whether the platform grants it.")
    granted_by = output.Text(
        example="hive", help_text="Who granted it on the platform; empty if the platform does not say."
    )
    granted_at = output.Text(
        example="2026-11-30T12:00:00Z", help_text="When; empty if the platform does not say."
    )


class PlatformChangeSerializer(output.Output):
    verb = output.Text(example="grant", help_text="`grant`, `revoke`, or `create` for a role.")
    principal = output.Text()
    entity = output.Text(help_text="Empty for a role that is created.")
    privileges = output.Texts(example=["SELECT"], help_text="In the words of the platform.")
    policy = output.Text(example="", help_text="The policy that is written, if the platform has policies.")


class DriftSerializer(_JobSerializer):
    count = output.Integer(get=_result("count", 0), example=1, help_text="The number of all differences.")
    items = DriftedPrivilegeSerializer(
        many=True,
        get=lambda job: [drift_row(row) for row in job.summary.get("rows", ())],
        help_text="The first 10,000 differences, sorted. `manage.py connection drift NAME` lists all.",
    )
    change_count = output.Integer(
        get=_result("change_count", 0), example=1, help_text="The number of all changes of the platform."
    )
    changes = PlatformChangeSerializer(
        many=True,
        get=_result("changes", ()),
        help_text="The first 10,000 changes of the platform that end the drift. A push makes all of them; "
        "`manage.py connection push NAME` lists them.",
    )
    digest = output.Text(
        get=_result("digest", ""), example="9f86d081884c7d65", help_text="Names these changes in a push."
    )


class PushSerializer(_JobSerializer):
    changes = output.Integer(get=_result("changes", 0), example=1, help_text="How many changes were made.")


class SyncRequestSerializer(StrictSerializer):
    """How to sync."""

    apply = Boolean(
        default=False,
        help_text="Make the changes at once. By default, the sync is a dry run that ends in a plan.",
    )
    accept_shrunken = Boolean(
        default=False,
        help_text="Accept a platform that has less than half of the entities that it had.",
    )
    reason = reason_field()


class ComparisonRequestSerializer(StrictSerializer):
    """Why the sides are compared."""

    reason = reason_field()


class PushRequestSerializer(StrictSerializer):
    """Which changes to make."""

    digest = Text(max_length=64, help_text="The `digest` of the newest comparison.")
    reason = reason_field()


def _connection(request: Request, name: str) -> Connection | None:
    return Connections(request.user).rows().filter(name=name).first()


CONNECTION = Resource(
    "name", "The name of the connection.", _connection, missing="there is no connection with the name {}"
)


def _job_or_404(connection: Connection, job_type: str) -> Job:
    """Return the newest job of a type. Raise Problem (404) if there is none."""
    job = newest_job(connection, job_type)
    if job is None:
        raise Problem(404, f"{connection.name} has none yet: start one with POST")
    return job


class ConnectionList(ListEndpoint):
    """List connections.

    Sorted by name. Tokens are never shown. For administrators and auditors.
    """

    route = "connections"
    operation_id = "connections_list"
    rows = Connections


class ConnectionDetail(Endpoint):
    route = "connections/<slug:name>"
    resource = CONNECTION

    @operation("connections_retrieve", check_can_see_all, ConnectionSerializer)
    def get(self) -> object:
        """Read a connection.

        For administrators and auditors.
        """
        return self.object


class ConnectionSync(Endpoint):
    route = "connections/<slug:name>/sync"
    resource = CONNECTION

    @operation("connections_sync_retrieve", check_can_see_all, SyncSerializer)
    def get(self) -> object:
        """Read the newest sync.

        For administrators and auditors. 404 before the first sync.
        """
        return _job_or_404(self.object, SYNC_JOB)

    @operation("connections_sync", check_administrator, {202: SyncSerializer}, body=SyncRequestSerializer)
    def post(self) -> Response:
        """Start a sync.

        A worker reads the platform. The sync ends in a plan of what would change, or makes the changes if `apply` is true. If a
        sync is waiting or running already, the response is that one.
        """
        data = self.data
        wanted = {"applies": data["apply"], "accepts_shrunken": data["accept_shrunken"]}
        job = request_connection_job(
            self.object,
            SYNC_JOB,
            author=self.author,
            requested_by=self.request.user,
            options={name: "yes" for name, is_wanted in wanted.items() if is_wanted},
        )
        return self.response(job)


class ConnectionDrift(Endpoint):
    route = "connections/<slug:name>/drift"
    resource = CONNECTION

    @operation("connections_drift", check_can_see_all, DriftSerializer)
    def get(self) -> object:
        """Read the newest comparison.

        The privileges that only the console or only the platform grants. For administrators and auditors. 404 before the first
        comparison.
        """
        return _job_or_404(self.object, COMPARE_JOB)

    @operation(
        "connections_compare", check_administrator, {202: DriftSerializer}, body=ComparisonRequestSerializer
    )
    def post(self) -> Response:
        """Compare the platform with the console.

        A worker reads the platform; nothing changes. If a comparison is waiting or running already, the response is that one.
        """
        job = request_connection_job(
            self.object, COMPARE_JOB, author=self.author, requested_by=self.request.user
        )
        return self.response(job)


class ConnectionPush(Endpoint):
    route = "connections/<slug:name>/push"
    resource = CONNECTION

    @operation("connections_push_retrieve", check_can_see_all, PushSerializer)
    def get(self) -> object:
        """Read the newest push.

        For administrators and auditors. 404 before the first push.
        """
        return _job_or_404(self.object, PUSH_JOB)

    @operation("connections_push", check_administrator, {202: PushSerializer}, body=PushRequestSerializer)
    def post(self) -> Response:
        """Start a push.

        A worker makes the changes of the newest comparison on the platform, unless either side has changed since. It needs a
        reason, and is refused if a push needs a second person.
        """
        job = request_push(
            self.object, author=self.author, shown=self.data["digest"], requested_by=self.request.user
        )
        return self.response(job)
