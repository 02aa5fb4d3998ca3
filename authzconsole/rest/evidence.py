"""The REST resource `evidence`: request signed bundles about the access to an entity, follow and download
them.
"""

from django.http import StreamingHttpResponse
from django.utils import timezone
from rest_framework.request import Request
from rest_framework.response import Response

from analytics.storage import StorageError
from authzconsole.common.downloads.zip_files import zip_response
from authzconsole.common.fields import (
    AddressText,
    Boolean,
    KindText,
    StrictSerializer,
    Text,
)
from authzconsole.evidence.bundles import bundle_chunks
from authzconsole.evidence.services import request_evidence
from authzconsole.lists.journal import EvidenceList, EvidenceSerializer
from authzconsole.rest.framework.callers import check_journal_reader
from authzconsole.rest.framework.endpoint import Endpoint, Resource, created_response
from authzconsole.rest.framework.lists import ListEndpoint
from authzconsole.rest.framework.locations import evidence_location
from authzconsole.rest.framework.operations import FILE, LOCATION, api_operation
from authzconsole.rest.framework.problems import Problem
from authzconsole.rest.framework.renderers import ZipRenderer
from grants.history.errors import AsOfError
from grants.history.moments import parse_as_of, revision_time
from grants.models import JobState

TAG = "Journal"
MOMENT_HELP = "A revision, or an RFC 3339 time with a time zone."


class EvidenceRequestSerializer(StrictSerializer):
    """An entity and a period."""

    entity = AddressText(help_text="An address, registered or not.")
    contents = Boolean(
        required=False,
        default=False,
        help_text="Also about everything that was live inside the namespace or "
        "application in the period, entity by entity.",
    )
    kind = KindText(required=False, help_text="Only about entities of this kind; needs `contents`.")
    since = Text(max_length=40, help_text=f"The start of the period. {MOMENT_HELP}")
    until = Text(
        required=False, max_length=40, help_text=f"The end of the period, by default now. {MOMENT_HELP}"
    )


EVIDENCE = Resource.numbered("The number of the evidence.", lambda request: EvidenceList(request.user).rows())


class EvidenceRequests(ListEndpoint):
    rows = EvidenceList
    rules = {"POST": check_journal_reader}
    operation = (
        "evidence_list",
        TAG,
        "List evidence",
        "Sorted by number, newest first. For administrators and auditors.",
    )

    @api_operation(
        "evidence_create",
        TAG,
        "Request evidence",
        "The worker writes a signed ZIP file that shows who had access to the entity in the period, since when, through which "
        "grants, and who granted it. Location is the URL of the evidence. For administrators and auditors.",
        request=EvidenceRequestSerializer,
        request_example={"entity": "dataset:sales.customers", "since": "1"},
        responses={202: EvidenceSerializer},
        errors=[409],
        parameters=[LOCATION],
    )
    def post(self, request: Request) -> Response:
        data = self.body(EvidenceRequestSerializer)
        start, end = (
            _revision(data.get(name) or timezone.now().isoformat(), name) for name in ("since", "until")
        )
        evidence = request_evidence(
            entity=data["entity"],
            from_revision=start,
            to_revision=end,
            since=revision_time(start),
            until=revision_time(end),
            contents=data["contents"],
            kind=data.get("kind", ""),
            requested_by=request.user,
        )
        response = created_response(EvidenceSerializer.data_of(evidence), evidence_location(evidence.pk))
        response.status_code = 202
        return response


class EvidenceDetail(Endpoint):
    resource = EVIDENCE
    rules = {"GET": check_journal_reader}

    @api_operation(
        "evidence_retrieve",
        TAG,
        "Follow evidence",
        "Returns the progress and, when it is done, the figures.",
        responses={200: EvidenceSerializer},
    )
    def get(self, request: Request, number: int) -> Response:
        return Response(EvidenceSerializer.data_of(self.object))


class EvidenceFile(Endpoint):
    resource = EVIDENCE
    rules = {"GET": check_journal_reader}
    renderer_classes = [ZipRenderer]

    @api_operation(
        "evidence_download",
        TAG,
        "Download evidence",
        "The ZIP file. `manage.py verify_evidence` verifies it without a database. Returns 409 until it is done, and 410 after "
        "the file was deleted.",
        responses={(200, "application/zip"): FILE},
        errors=[409, 410],
    )
    def get(self, request: Request, number: int) -> StreamingHttpResponse:
        evidence = self.object
        if evidence.job.state != JobState.DONE:
            raise Problem(409, f"evidence {number} is {evidence.job.state}, so it has no file")
        if not evidence.job.result_path:
            raise Problem(410, f"the file of evidence {number} was deleted: request it again")
        try:
            chunks = bundle_chunks(evidence.job.result_path)
        except (StorageError, OSError):
            raise Problem(410, f"the file of evidence {number} cannot be read: request it again") from None
        return zip_response(chunks, f"evidence-{number}")


def _revision(text: str, field: str) -> int:
    try:
        return parse_as_of(text)
    except AsOfError as error:
        raise Problem(400, f"{field}: {error}", errors=[{"field": field, "message": str(error)}]) from None
