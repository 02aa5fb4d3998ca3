"""The REST resource `evidence`: request signed bundles about the access to an entity, follow and download
them.
"""

from django.http import Http404, StreamingHttpResponse
from django.utils import timezone
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from analytics.storage import StorageError
from authzconsole.common.downloads.zip_files import zip_response
from authzconsole.evidence.services import bundle_chunks, request_evidence
from authzconsole.models import Evidence, EvidenceState
from authzconsole.rest.entities import as_json_time
from authzconsole.rest.framework.callers import check_journal_reader
from authzconsole.rest.framework.cursors import ListPart, PageQuery, list_identity, page_of, page_serializer
from authzconsole.rest.framework.endpoint import Endpoint, created_response
from authzconsole.rest.framework.fields import (
    MAX_INTEGER,
    AddressText,
    Boolean,
    KindText,
    StrictSerializer,
    Text,
)
from authzconsole.rest.framework.locations import evidence_location
from authzconsole.rest.framework.problems import Problem
from authzconsole.rest.framework.renderers import ZipRenderer
from authzconsole.rest.openapi.operations import FILE, LOCATION, api_operation, path_parameter
from grants.history.errors import AsOfError
from grants.history.moments import parse_as_of, revision_time

TAG = "Journal"
EVIDENCE_PATH = path_parameter("number", "The number of the evidence.", int)
MOMENT_HELP = "A revision, or an RFC 3339 time with a time zone."


class EvidenceSerializer(serializers.Serializer):
    number = serializers.IntegerField()
    entity = serializers.CharField()
    contents = serializers.BooleanField(help_text="Whether it is also about everything inside the entity.")
    kind = serializers.CharField(help_text="The only kind of entities that it is about; empty for all.")
    from_revision = serializers.IntegerField()
    to_revision = serializers.IntegerField()
    state = serializers.ChoiceField(EvidenceState.values)
    users_done = serializers.IntegerField(
        help_text="The number of users that are checked so far; with contents, of entities."
    )
    users_total = serializers.IntegerField()
    requested_by = serializers.CharField(allow_null=True)
    requested_at = serializers.DateTimeField()
    finished_at = serializers.DateTimeField(allow_null=True)
    error = serializers.CharField()
    figures = serializers.DictField(
        help_text="The numbers of users with access, of rows, and of checked users; with "
        "contents, also of entities."
    )
    has_file = serializers.BooleanField(help_text="Whether the bundle can be downloaded.")
    sha256 = serializers.CharField(help_text="The SHA-256 hash of the bundle; empty until it is done.")


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


EXAMPLE = {
    "number": 3,
    "entity": "dataset:sales.customers",
    "contents": False,
    "kind": "",
    "from_revision": 120,
    "to_revision": 4711,
    "state": "waiting",
    "users_done": 0,
    "users_total": 0,
    "requested_by": "auditor",
    "requested_at": "2026-02-01T08:00:00Z",
    "finished_at": None,
    "error": "",
    "figures": {},
    "has_file": False,
    "sha256": "",
}


class EvidenceList(Endpoint):
    rules = {"GET": check_journal_reader, "POST": check_journal_reader}
    queries = {"GET": PageQuery}

    @api_operation(
        "evidence_list",
        TAG,
        "List evidence",
        "Sorted by number, newest first. For administrators and auditors.",
        query=PageQuery,
        responses={200: page_serializer(EvidenceSerializer)},
        response_example={"items": [EXAMPLE], "next": None},
    )
    def get(self, request: Request) -> Response:
        rows = Evidence.objects.select_related("requested_by")
        return Response(
            page_of(
                [ListPart(rows, ("-pk",))],
                _evidence_as_json,
                query=self.query,
                identity=list_identity("evidence", self.query),
            )
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
        response_example=EXAMPLE,
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
        response = created_response(_evidence_as_json(evidence), evidence_location(evidence.pk))
        response.status_code = 202
        return response


class EvidenceDetail(Endpoint):
    rules = {"GET": check_journal_reader}

    @api_operation(
        "evidence_retrieve",
        TAG,
        "Follow evidence",
        "Returns the progress and, when it is done, the figures.",
        responses={200: EvidenceSerializer},
        response_example=EXAMPLE,
        errors=[404],
        parameters=[EVIDENCE_PATH],
    )
    def get(self, request: Request, number: int) -> Response:
        return Response(_evidence_as_json(_evidence_or_404(number)))


class EvidenceFile(Endpoint):
    rules = {"GET": check_journal_reader}
    renderer_classes = [ZipRenderer]

    @api_operation(
        "evidence_download",
        TAG,
        "Download evidence",
        "The ZIP file. `manage.py verify_evidence` verifies it without a database. Returns 409 until it is done, and 410 after "
        "the file was deleted.",
        responses={(200, "application/zip"): FILE},
        errors=[404, 409, 410],
        parameters=[EVIDENCE_PATH],
    )
    def get(self, request: Request, number: int) -> StreamingHttpResponse:
        evidence = _evidence_or_404(number)
        if evidence.state != EvidenceState.DONE:
            raise Problem(409, f"evidence {number} is {evidence.state}, so it has no file")
        if not evidence.path:
            raise Problem(410, f"the file of evidence {number} was deleted: request it again")
        try:
            chunks = bundle_chunks(evidence)
        except (StorageError, OSError):
            raise Problem(410, f"the file of evidence {number} cannot be read: request it again") from None
        return zip_response(chunks, f"evidence-{number}")


def _revision(text: str, field: str) -> int:
    try:
        return parse_as_of(text)
    except AsOfError as error:
        raise Problem(400, f"{field}: {error}", errors=[{"field": field, "message": str(error)}]) from None


def _evidence_or_404(number: int) -> Evidence:
    evidence = (
        Evidence.objects.select_related("requested_by").filter(pk=number).first()
        if number <= MAX_INTEGER
        else None
    )
    if evidence is None:
        raise Http404
    return evidence


def _evidence_as_json(evidence: Evidence) -> dict:
    return {
        "number": evidence.pk,
        "entity": evidence.entity,
        "contents": evidence.contents,
        "kind": evidence.kind,
        "from_revision": evidence.from_revision,
        "to_revision": evidence.to_revision,
        "state": str(evidence.state),
        "users_done": evidence.users_done,
        "users_total": evidence.users_total,
        "requested_by": evidence.requested_by.username if evidence.requested_by else None,
        "requested_at": as_json_time(evidence.requested_at),
        "finished_at": as_json_time(evidence.finished_at),
        "error": evidence.error,
        "figures": evidence.figures,
        "has_file": bool(evidence.path),
        "sha256": evidence.sha256,
    }
