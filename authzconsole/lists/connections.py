"""The list of connections to platforms."""

from django.db.models import QuerySet

from authzconsole.common import output
from authzconsole.connections.services import TYPES
from authzconsole.lists.base import List
from authzconsole.models import Connection
from grants.roles.capabilities import Capability


class ConnectionSerializer(output.Output):
    name = output.Text(example="lake")
    type = output.Choice(list(TYPES), example="hive")
    url = output.Text(example="thrift://metastore.example:9083")
    has_secret = output.Boolean(
        source="secret", help_text="Whether a token or a password is stored. It is never shown."
    )
    interval_hours = output.Integer(help_text="Between two syncs without a request; 0 for none.", example=24)
    applies_syncs = output.Boolean(
        help_text="Whether a sync without a request changes the console; otherwise it only makes a plan."
    )
    synced_at = output.Time(
        allow_null=True, help_text="When a sync last changed the console, or found nothing to change."
    )
    plan = output.Integer(
        source="plan_id", allow_null=True, help_text="The plan that the newest sync made.", example=12
    )


class Connections(List):
    """The connections to platforms, by name."""

    name = "connections"
    output = ConnectionSerializer
    order = ("name",)
    readers = (Capability.READ_ALL,)

    def select(self) -> QuerySet[Connection]:
        return Connection.objects.defer("creations", "plan_creations")
