"""The lists about findings: the findings, and the rules that accept classes of them."""

from django.db.models import QuerySet

from authzconsole.common import output
from authzconsole.common.fields import Choice, NameText, QuerySerializer
from authzconsole.findings.kinds import KINDS, finding_text, in_state
from authzconsole.findings.services import READER, can_read_findings
from authzconsole.lists.base import List
from authzconsole.models import AcceptanceRule, Finding, FindingState, Severity

SEVERITIES = {severity.word: severity for severity in Severity}


class FindingSerializer(output.Output):
    number = output.Integer(source="pk")
    kind = output.Choice(list(KINDS), example="no-admin-holder")
    severity = output.Choice(
        list(SEVERITIES), get=lambda finding: Severity(finding.severity).word, example="error"
    )
    subject = output.Text(
        example="namespace:sales",
        help_text="What it is about, such as a namespace or `guardrail:NAME`; empty for the whole tenant.",
    )
    figure = output.Integer(example=4, help_text="How many it counts.")
    text = output.Text(get=finding_text, example="4 live entities without an ADMIN holder")
    state = output.Choice(FindingState.values)
    since = output.Time()
    resolved_at = output.Time(allow_null=True)
    owner = output.Text(source="owner.username", allow_null=True, example="admin")
    accepted_until = output.Time(allow_null=True)
    accepted_by = output.Text(allow_null=True)
    accepted_reason = output.Text(allow_null=True)
    rule = output.Integer(
        source="rule_id", allow_null=True, help_text="The number of the rule that accepted it."
    )
    run = output.Integer(source="run_id", allow_null=True, help_text="The run that reported it.")


class FindingFilters(QuerySerializer):
    state = Choice(choices=FindingState.values, help_text="Only findings in this state.")
    severity = Choice(choices=list(SEVERITIES), help_text="Only findings of this severity.")
    kind = Choice(choices=list(KINDS), help_text="Only findings of this kind.")
    namespace = NameText(help_text="Only findings about the namespace of this name.")
    owner = NameText(help_text="Only findings of this owner.")


class Findings(List):
    """The findings, the most severe and largest first."""

    name = "findings"
    output = FindingSerializer
    filter_fields = FindingFilters
    order = ("severity", "-figure", "pk")
    readers = (READER,)

    def select(self) -> QuerySet[Finding]:
        rows = Finding.objects.select_related("owner").filter(
            **self.equal(kind="kind", owner="owner__username")
        )
        if not can_read_findings(self.account):
            return rows.none()
        if severity := self.filters.get("severity"):
            rows = rows.filter(severity=SEVERITIES[severity])
        if namespace := self.filters.get("namespace"):
            rows = rows.filter(subject=f"namespace:{namespace.removeprefix('namespace:')}")
        return in_state(rows, self.filters.get("state", ""))


class RuleSerializer(output.Output):
    number = output.Integer(source="pk", example=3)
    kind = output.Choice(list(KINDS), example="one-admin-holder")
    pattern = output.Text(
        example="namespace:sandbox*", help_text="Of subjects; `*` is any number of characters."
    )
    until = output.Time()
    reason = output.Text()
    made_by = output.Text()
    made_at = output.Time()


class AcceptanceRules(List):
    """The rules that accept classes of findings."""

    name = "finding-rules"
    output = RuleSerializer
    readers = (READER,)

    def select(self) -> QuerySet[AcceptanceRule]:
        return AcceptanceRule.objects.all()
