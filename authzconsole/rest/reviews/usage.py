"""The REST resource `usage`: import records of the use of entities."""

from rest_framework.request import Request
from rest_framework.response import Response

from authzconsole.common import output
from authzconsole.common.fields import List, Record, StrictSerializer
from authzconsole.rest.framework.callers import author_of, check_administrator
from authzconsole.rest.framework.endpoint import Endpoint
from authzconsole.rest.framework.operations import api_operation
from authzconsole.rest.framework.problems import Problem
from authzconsole.rest.reviews.campaigns import TAG
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
    rules = {"POST": check_administrator}

    @api_operation(
        "usage_import",
        TAG,
        "Import records of use",
        f"Stores up to {MAX_RECORDS:,} records, all or none, with a journal line. The larger count of a day is kept, "
        "so records can be sent again. "
        "Reviews show the last use. For administrators.",
        request=UsageSerializer,
        request_example={
            "records": [
                {
                    "user": "sofia.lindqvist",
                    "entity": "dataset:sales.customers",
                    "day": "2026-11-02",
                    "count": 12,
                }
            ]
        },
        responses={200: UsageOutcomeSerializer},
    )
    def post(self, request: Request) -> Response:
        try:
            stored = import_records(
                enumerate(self.body(UsageSerializer)["records"], 1), author=author_of(request)
            )
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
