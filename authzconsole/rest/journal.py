"""The REST resources `journal`, `differences`, `security-events`, `break-glass-uses` and `evidence`: what happened,
emergency access with its review, and signed bundles about the access to an entity.
"""

from django.http import StreamingHttpResponse
from django.utils import timezone
from rest_framework import serializers
from rest_framework.response import Response

from analytics.storage import StorageError
from authzconsole.common import output
from authzconsole.common.fields import (
    AddressText,
    Boolean,
    KindText,
    QueryInteger,
    QuerySerializer,
    StrictSerializer,
    Text,
)
from authzconsole.common.periods import AsOf
from authzconsole.common.zip_files import zip_response
from authzconsole.evidence.bundles import bundle_chunks
from authzconsole.evidence.services import request_evidence
from authzconsole.lists.journal import (
    BreakGlassUses,
    BreakGlassUseSerializer,
    Differences,
    EvidenceList,
    EvidenceSerializer,
    JournalLines,
    SecurityEvents,
)
from authzconsole.rest.framework.callers import (
    any_account,
    check_administrator,
    check_journal_reader,
    check_recent_authentication,
)
from authzconsole.rest.framework.endpoint import Endpoint, Resource
from authzconsole.rest.framework.lists import FORMULAS, ListEndpoint, ZipRenderer
from authzconsole.rest.framework.operations import FILE, LOCATION, operation
from authzconsole.rest.framework.problems import Problem
from authzconsole.server.waiting import CAN_WAIT, WAIT_HEADER
from grants.authority.break_glass import end_break_glass, review_break_glass, start_break_glass
from grants.authority.rights import can_read_history
from grants.history import parse_as_of, revision_time
from grants.journal import (
    MAX_LINES_PER_PROOF,  # noqa: F401 (a docstring names it)
    current_head,
    read_only_reason,
    verify_part,
)
from grants.models import BreakGlassUse, JobState
from grants.principal_names import MAX_REASON_CHARACTERS

MAX_WAIT_SECONDS = 30


class WaitOptions(QuerySerializer):
    wait = QueryInteger(
        max_value=MAX_WAIT_SECONDS,
        help_text=(
            "With `after`: wait up to this many seconds for a line if there is none. The response can be empty earlier."
        ),
    )

    def validate(self, data: dict) -> dict:
        if "wait" in data and "after" not in data:
            raise serializers.ValidationError({"wait": ["this needs `after`"]})
        return data


class Journal(ListEndpoint):
    """Read the journal.

    Newest first, or with `after` oldest first. To follow the journal, send the last revision as `after`
    with `wait`. For administrators and auditors; data stewards read the lines about one `entity` in their
    namespaces.
    """

    route = "journal"
    operation_id = "journal_list"
    rule = any_account
    rows = JournalLines
    options = (WaitOptions,)

    def list_page(self) -> Response:
        if "entity" not in self.query or not can_read_history(self.request.user, self.query["entity"]):
            check_journal_reader(self.request)
        seconds = self.query.get("wait")
        # read before the lines, so that no line is missed while the request waits
        revision = current_head().revision if seconds else 0
        response = super().list_page()
        if seconds and not response.data["items"] and CAN_WAIT in self.request.META:
            response[WAIT_HEADER] = f"{revision};{seconds}"
        return response


class BreakSerializer(output.Output):
    revision = output.Integer()
    sentence = output.Text()


class ProofSerializer(output.Output):
    holds = output.Boolean(example=True, help_text="Whether the verified lines are intact.")
    revision = output.Integer(help_text="The newest revision.")
    first_break = BreakSerializer(allow_null=True)
    verified_to = output.Integer(example=812, help_text="The last verified line.")
    next = output.Integer(
        allow_null=True,
        help_text="Send this as `after` to verify the following lines; null at the end of the journal.",
    )
    head_hash = output.Text(example="0" * 64, help_text="The hash of the newest line.")
    key_id = output.Text(example="5f0c1d3c6e7a4f1f", help_text="The key that signed the head of the journal.")
    read_only_reason = output.Text(
        help_text="Why nothing can be changed, such as a missing key; otherwise empty."
    )


class ProofQuery(QuerySerializer):
    after = QueryInteger(default=0, max_value=2**62, help_text="Verify the lines after this revision.")


class JournalProof(Endpoint):
    route = "journal/proof"

    @operation(
        "journal_prove",
        check_journal_reader,
        ProofSerializer,
        query=ProofQuery,
    )
    def get(self) -> object:
        """Verify the journal.

        Verifies the hashes and signatures of at most {MAX_LINES_PER_PROOF:,} lines. Send `next` of the
        response as `after` to continue. `manage.py verify_journal` also compares the journal with the
        tables. For administrators and auditors.
        """
        head, proof = current_head(), verify_part(self.query["after"])
        chain_break = proof.chain_break
        return {
            "holds": chain_break is None,
            "revision": head.revision,
            "first_break": chain_break,
            "verified_to": proof.verified_to,
            "next": None if proof.is_complete or chain_break else proof.verified_to,
            "head_hash": head.hash,
            "key_id": head.key_id,
            "read_only_reason": read_only_reason(),
        }


class DifferenceList(ListEndpoint):
    """List differences between two revisions.

    A row is a grant, membership, state or status that holds at one of the revisions and not at the other,
    whatever happened in between. For an entity, memberships of groups with a grant on it are included;
    for a user, the grants of its groups. For administrators and auditors.
    """

    route = "differences"
    operation_id = "differences_list"
    rows = Differences
    files = {"csv": FORMULAS, "jsonl": ""}


class SecurityEventList(ListEndpoint):
    """Read the security events.

    Sign-ins, refused requests, downloads, and changes of tokens, roles and settings. Newest first. For
    administrators and auditors.
    """

    route = "security-events"
    operation_id = "security_events_list"
    rows = SecurityEvents


class BreakGlassStartSerializer(StrictSerializer):
    """Why the access is needed."""

    reason = Text(
        max_length=MAX_REASON_CHARACTERS,
        help_text="Why the access is needed; the person who reviews it reads it.",
    )


class BreakGlassReviewSerializer(StrictSerializer):
    """The result of a review."""

    comment = Text(
        max_length=MAX_REASON_CHARACTERS,
        help_text="Whether the changes were justified, and what must be undone.",
    )


USE = Resource.numbered(
    "The number of the use.",
    lambda request: BreakGlassUse.objects.all(),
    "there is no break-glass access with the number {}",
)


class BreakGlassUseList(ListEndpoint):
    """List uses of break-glass access.

    Oldest first. For administrators and auditors.
    """

    route = "break-glass-uses"
    operation_id = "break_glass_list"
    rows = BreakGlassUses

    @operation(
        "break_glass_start",
        check_administrator,
        {201: BreakGlassUseSerializer},
        body=BreakGlassStartSerializer,
    )
    def post(self) -> Response:
        """Start break-glass access.

        For one hour, the rules of four eyes do not apply to the account of the session. The account must
        be in BREAK_GLASS_ACCOUNTS. API tokens cannot start it, and it does not apply to them.
        """
        check_recent_authentication(self.request)
        return self.creation_response(start_break_glass(author=self.author), "break-glass-uses")


class BreakGlassDetail(Endpoint):
    route = "break-glass-uses/<int:number>"
    resource = USE

    @operation(
        "break_glass_retrieve",
        check_journal_reader,
        BreakGlassUseSerializer,
    )
    def get(self) -> object:
        """Read a use of break-glass access.

        For administrators and auditors.
        """
        return self.object


class BreakGlassEnd(Endpoint):
    route = "break-glass-uses/<int:number>/end"
    resource = USE

    @operation(
        "break_glass_end",
        check_administrator,
        BreakGlassUseSerializer,
    )
    def post(self) -> object:
        """End break-glass access early.

        Every administrator can end it.
        """
        return end_break_glass(author=self.author, number=self.object.pk)


class BreakGlassReview(Endpoint):
    route = "break-glass-uses/<int:number>/review"
    resource = USE

    @operation(
        "break_glass_review",
        check_administrator,
        BreakGlassUseSerializer,
        body=BreakGlassReviewSerializer,
    )
    def post(self) -> object:
        """Review a use of break-glass access.

        Only after the access has ended, and by another person (otherwise 403).
        """
        return review_break_glass(author=self.author, number=self.object.pk, comment=self.data["comment"])


MOMENT_HELP = "A revision, or an RFC 3339 time with a time zone."


class EvidenceRequestSerializer(StrictSerializer):
    """An entity and a period."""

    entity = AddressText(help_text="An address, registered or not.")
    contents = Boolean(
        default=False,
        help_text="Also about everything that was live inside the namespace or "
        "application in the period, entity by entity.",
    )
    kind = KindText(required=False, help_text="Only about entities of this kind; needs `contents`.")
    since = AsOf(help_text=f"The start of the period. {MOMENT_HELP}")
    until = AsOf(required=False, help_text=f"The end of the period, by default now. {MOMENT_HELP}")


EVIDENCE = Resource.numbered("The number of the evidence.", lambda request: EvidenceList(request.user).rows())


class EvidenceRequests(ListEndpoint):
    """List evidence.

    Sorted by number, newest first. For administrators and auditors.
    """

    route = "evidence"
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
        start = data["since"]
        end = data["until"] if "until" in data else parse_as_of(timezone.now().isoformat())
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
        return self.creation_response(evidence, "evidence")


class EvidenceDetail(Endpoint):
    route = "evidence/<int:number>"
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
    route = "evidence/<int:number>/file"
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
