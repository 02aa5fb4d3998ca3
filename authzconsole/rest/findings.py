"""The REST resources of findings: list, read, accept, open again and assign them, and the rules that accept classes."""

from rest_framework.response import Response

from authzconsole.common import output
from authzconsole.common.fields import (
    Choice,
    NameText,
    ReasonQuery,
    StrictSerializer,
    Text,
    Time,
    reason_field,
)
from authzconsole.findings.kinds import KINDS
from authzconsole.findings.refresh import refresh_findings
from authzconsole.findings.services import (
    MAX_PATTERN_CHARACTERS,
    READER,
    accept_findings,
    add_rule,
    assign_findings,
    can_read_findings,
    end_rule,
    reopen_findings,
)
from authzconsole.lists.findings import AcceptanceRules, Findings, FindingSerializer, RuleSerializer
from authzconsole.models import AcceptanceRule, Finding
from authzconsole.rest.framework.callers import check_administrator, readable_with
from authzconsole.rest.framework.endpoint import Endpoint, Resource
from authzconsole.rest.framework.lists import FORMULAS, ListEndpoint
from authzconsole.rest.framework.operations import operation
from authzconsole.rest.people import OutcomeSerializer
from grants.principal_names import MAX_REASON_CHARACTERS

check_reader = readable_with(READER)
END_HELP = "An RFC 3339 time with a time zone, in the future."


class FindingEventSerializer(output.Output):
    at = output.Text(example=output.TIME_EXAMPLE)
    what = output.Text(example="opened")
    by = output.Text(allow_null=True, example=None, help_text="The account; null for the console.")
    text = output.Text(example="4 live entities without an ADMIN holder")


class FindingWithHistorySerializer(FindingSerializer):
    history = FindingEventSerializer(many=True, help_text="What happened, oldest first; at most 50 events.")


class AcceptanceSerializer(StrictSerializer):
    """Until when a finding is accepted, and why."""

    until = Time(help_text=END_HELP)
    reason = Text(max_length=MAX_REASON_CHARACTERS, help_text="It is written to the journal.")


class ReopeningSerializer(StrictSerializer):
    """Why a finding is opened again."""

    reason = reason_field()


class FindingAssignmentSerializer(StrictSerializer):
    """Who answers for a finding."""

    owner = NameText(
        allow_null=True, help_text="An active administrator or auditor; null to assign it to nobody."
    )
    reason = reason_field()


class RuleCreationSerializer(AcceptanceSerializer):
    """Which findings are accepted, until when, and why."""

    kind = Choice(choices=list(KINDS), help_text="The kind of the findings.")
    pattern = Text(
        max_length=MAX_PATTERN_CHARACTERS,
        help_text="The form of their subjects, such as `namespace:sandbox*`; `*` is any number of characters.",
    )


FINDING = Resource.numbered(
    "The number of the finding.",
    lambda request: (
        Finding.objects.select_related("owner") if can_read_findings(request.user) else Finding.objects.none()
    ),
    "there is no finding with the number {}",
)
RULE = Resource.numbered(
    "The number of the rule.",
    lambda request: AcceptanceRule.objects.all(),
    "there is no rule with the number {}",
)


class FindingList(ListEndpoint):
    """List findings.

    What needs attention, the most severe and largest first. A finding is open, accepted until a time, or resolved because it
    is no longer found. For administrators and auditors.
    """

    route = "findings"
    operation_id = "findings_list"
    rows = Findings
    files = {
        "csv": f"The columns are the members of a finding. {FORMULAS}",
        "jsonl": "A line is a finding.",
    }

    def list_page(self) -> Response:
        refresh_findings(is_page=True)
        return super().list_page()


class FindingDetail(Endpoint):
    route = "findings/<int:number>"
    resource = FINDING

    @operation("findings_retrieve", check_reader, FindingWithHistorySerializer)
    def get(self) -> object:
        """Read a finding.

        With its history. For administrators and auditors.
        """
        return self.object


class _FindingChange(Endpoint):
    resource = FINDING

    def object_after_change(self) -> object:
        self.object.refresh_from_db()
        return self.object


class Acceptance(_FindingChange):
    route = "findings/<int:number>/accept"

    @operation("findings_accept", check_administrator, FindingSerializer, body=AcceptanceSerializer)
    def post(self) -> object:
        """Accept a finding.

        It is not open until the time, or until it counts more than now. 409 if it was resolved meanwhile.
        """
        accept_findings([self.object.pk], until=self.data["until"], author=self.author)
        return self.object_after_change()


class Reopening(_FindingChange):
    route = "findings/<int:number>/reopen"

    @operation("findings_reopen", check_administrator, FindingSerializer, body=ReopeningSerializer)
    def post(self) -> object:
        """Open a finding again.

        Ends its acceptance. A finding that a rule accepted is opened by ending the rule.
        """
        reopen_findings([self.object.pk], author=self.author)
        return self.object_after_change()


class Assignment(_FindingChange):
    route = "findings/<int:number>/assign"

    @operation(
        "findings_assign",
        check_administrator,
        FindingSerializer,
        body=FindingAssignmentSerializer,
    )
    def post(self) -> object:
        """Assign a finding.

        The owner answers for it.
        """
        assign_findings([self.object.pk], owner=self.data["owner"] or "", author=self.author)
        return self.object_after_change()


class RuleList(ListEndpoint):
    """List acceptance rules.

    The rules that accept classes of findings, also those that have ended, in the order of their creation. For administrators and
    auditors.
    """

    route = "finding-rules"
    operation_id = "finding_rules_list"
    rows = AcceptanceRules

    @operation(
        "finding_rules_create", check_administrator, {201: RuleSerializer}, body=RuleCreationSerializer
    )
    def post(self) -> Response:
        """Create an acceptance rule.

        It accepts the findings of the kind whose subjects match the pattern, also later ones, until the time. It must match
        a finding, and no other rule may accept the same one.
        """
        data = self.data
        rule, _ = add_rule(
            kind=data["kind"], pattern=data["pattern"], until=data["until"], author=self.author
        )
        return self.creation_response(rule, "finding-rules")


class RuleDetail(Endpoint):
    route = "finding-rules/<int:number>"
    resource = RULE

    @operation("finding_rules_retrieve", check_reader, RuleSerializer)
    def get(self) -> object:
        """Read an acceptance rule.

        For administrators and auditors.
        """
        return self.object

    @operation("finding_rules_end", check_administrator, OutcomeSerializer, query=ReasonQuery)
    def delete(self) -> object:
        """End an acceptance rule.

        What it accepted is open again.
        """
        return end_rule(self.object.pk, author=self.author)
