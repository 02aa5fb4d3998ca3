"""The REST resource `evidence`: request signed bundles about the access to an entity, follow and download
them.
"""

from django.http import StreamingHttpResponse
from django.utils import timezone
from rest_framework.response import Response

from analytics.storage import StorageError
from authzconsole.common.fields import (
    AddressText,
    Boolean,
    KindText,
    StrictSerializer,
    Text,
)
from authzconsole.common.zip_files import zip_response
from authzconsole.evidence.bundles import bundle_chunks
from authzconsole.evidence.services import request_evidence
from authzconsole.lists.journal import EvidenceList, EvidenceSerializer
from authzconsole.rest.framework.callers import check_journal_reader
from authzconsole.rest.framework.endpoint import Endpoint, Resource
from authzconsole.rest.framework.lists import ListEndpoint, ZipRenderer
from authzconsole.rest.framework.operations import FILE, LOCATION, operation
from authzconsole.rest.framework.problems import Problem
from grants.history.errors import AsOfError
from grants.history.moments import parse_as_of, revision_time
from grants.models import JobState

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
    """List evidence.

    Sorted by number, newest first. For administrators and auditors.
    """

    route, url_name = "evidence", "rest-evidence-list"
    operation_id = "evidence_list"
    rows = EvidenceList

    @operation(
        "evidence_create",
        check_journal_reader,
        {202: EvidenceSerializer},
        body=EvidenceRequestSerializer,
        parameters=[LOCATION],
    )
    def post(self) -> Response:
        """Request evidence.

        The worker writes a signed ZIP file that shows who had access to the entity in the period, since
        when, through which grants, and who granted it. Location is the URL of the evidence. For
        administrators and auditors.
        """
        data = self.data
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
            requested_by=self.request.user,
        )
        return self.created(evidence, "evidence")


class EvidenceDetail(Endpoint):
    route, url_name = "evidence/<int:number>", "rest-evidence"
    resource = EVIDENCE

    @operation(
        "evidence_retrieve",
        check_journal_reader,
        EvidenceSerializer,
    )
    def get(self) -> object:
        """Follow evidence.

        Returns the progress and, when it is done, the figures.
        """
        return self.object


class EvidenceFile(Endpoint):
    route, url_name = "evidence/<int:number>/file", "rest-evidence-file"
    resource = EVIDENCE
    renderer_classes = [ZipRenderer]

    @operation(
        "evidence_download",
        check_journal_reader,
        {(200, "application/zip"): FILE},
        errors=[409, 410],
    )
    def get(self) -> StreamingHttpResponse:
        """Download evidence.

        The ZIP file. `manage.py verify_evidence` verifies it without a database. Returns 409 until it is
        done, and 410 after the file was deleted.
        """
        evidence = self.object
        if evidence.job.state != JobState.DONE:
            raise Problem(409, f"evidence {self.object.pk} is {evidence.job.state}, so it has no file")
        if not evidence.job.result_path:
            raise Problem(410, f"the file of evidence {self.object.pk} was deleted: request it again")
        try:
            chunks = bundle_chunks(evidence.job.result_path)
        except (StorageError, OSError):
            raise Problem(
                410, f"the file of evidence {self.object.pk} cannot be read: request it again"
            ) from None
        return zip_response(chunks, f"evidence-{self.object.pk}")


def _revision(text: str, field: str) -> int:
    try:
        return parse_as_of(text)
    except AsOfError as error:
        raise Problem(400, f"{field}: {error}", errors=[{"field": field, "message": str(error)}]) from None
