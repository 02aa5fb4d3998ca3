"""The REST resource `usage`: import records of the use of entities."""

from rest_framework.response import Response

from authzconsole.common import output
from authzconsole.common.fields import List, Record, StrictSerializer
from authzconsole.rest.framework.callers import check_administrator
from authzconsole.rest.framework.endpoint import Endpoint
from authzconsole.rest.framework.operations import operation
from authzconsole.rest.framework.problems import Problem
from grants.usage.import_records import BadUsage, import_records

MAX_RECORDS = 5_000


class UsageSerializer(StrictSerializer):
    """Records of use."""

    records = List(
        child=Record(help_text="`user`, `entity`, `day` or `at`, and `count` (by default 1)."),
        min_length=1,
        max_length=MAX_RECORDS,
    )


class UsageOutcomeSerializer(output.Output):
    stored = output.Integer(example=1, help_text="The number of stored days of use.")


class Usage(Endpoint):
    route, url_name = "usage", "rest-usage"

    @operation(
        "usage_import",
        check_administrator,
        UsageOutcomeSerializer,
        body=UsageSerializer,
    )
    def post(self) -> Response:
        """Import records of use.

        Stores up to {MAX_RECORDS:,} records, all or none, with a journal line. The larger count of a day
        is kept, so records can be sent again. Reviews show the last use. For administrators.
        """
        try:
            stored = import_records(enumerate(self.data["records"], 1), author=self.author)
            return Response({"stored": stored})
        except BadUsage as error:
            raise Problem(
                400,
                str(error),
                errors=[
                    {"list": "records", "index": number - 1, "field": field, "message": reason}
                    for number, field, reason in error.faults
                ],
            ) from None
