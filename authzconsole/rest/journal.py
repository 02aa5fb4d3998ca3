"""The REST resources `journal`, `differences` and `security-events`."""

from rest_framework import serializers
from rest_framework.response import Response

from authzconsole.common import output
from authzconsole.common.fields import QueryInteger, StrictSerializer
from authzconsole.lists.journal import Differences, JournalLines, SecurityEvents
from authzconsole.rest.framework.callers import any_account, check_journal_reader
from authzconsole.rest.framework.endpoint import Endpoint
from authzconsole.rest.framework.lists import FORMULAS, ListEndpoint
from authzconsole.rest.framework.operations import operation
from authzconsole.server.waiting import CAN_WAIT, WAIT_HEADER
from grants.authority.rights import can_read_history
from grants.journal import (
    MAX_LINES_PER_PROOF,  # noqa: F401 (a docstring names it)
    current_head,
    read_only_reason,
    verify_part,
)

MAX_WAIT_SECONDS = 30


class WaitOptions(StrictSerializer):
    wait = QueryInteger(
        required=False,
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

    route, url_name = "journal", "rest-journal"
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


class ProofQuery(StrictSerializer):
    after = QueryInteger(
        required=False, default=0, max_value=2**62, help_text="Verify the lines after this revision."
    )


class JournalProof(Endpoint):
    route, url_name = "journal/proof", "rest-journal-proof"

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

    route, url_name = "differences", "rest-differences"
    operation_id = "differences_list"
    rows = Differences
    files = {"csv": FORMULAS, "jsonl": ""}


class SecurityEventList(ListEndpoint):
    """Read the security events.

    Sign-ins, refused requests, downloads, and changes of tokens, roles and settings. Newest first. For
    administrators and auditors.
    """

    route, url_name = "security-events", "rest-security-events"
    operation_id = "security_events_list"
    rows = SecurityEvents
