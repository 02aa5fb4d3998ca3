"""The kinds of findings."""

from django.db.models import Q, QuerySet
from django.utils import timezone

from authzconsole.common.limited_access import count_text
from authzconsole.models import Finding, FindingState, Severity
from entities.frozen import frozen
from entities.vocabulary import quantity


@frozen
class FindingKind:
    """One kind. one, many: the words after the figure; empty if the note of a finding is its whole text.

    is_capped: the figure is counted up to a limit; see `count_text`.
    """

    name: str
    severity: Severity
    title: str
    one: str = ""
    many: str = ""
    is_capped: bool = False

    def text(self, figure: int, note: str = "") -> str:
        """Return the text of findings with this figure in total."""
        if not self.one:
            return note
        return f"{(count_text if self.is_capped else quantity)(figure, self.one, self.many)}{note}"


PLANNED_TOO_LONG_DAYS = 90
# in the order in which an overview lists them
KINDS = {
    kind.name: kind
    for kind in (
        FindingKind("read-only", Severity.ERROR, "Read-only console"),
        FindingKind("failed-task", Severity.ERROR, "Failed maintenance"),
        FindingKind(
            "undeletable",
            Severity.ERROR,
            "Namespaces that no user can delete",
            "namespace that no user can delete",
            "namespaces that no user can delete",
        ),
        FindingKind(
            "no-admin-holder",
            Severity.ERROR,
            "Entities without an ADMIN holder",
            "live entity without an ADMIN holder",
            "live entities without an ADMIN holder",
        ),
        FindingKind(
            "guardrail-violations",
            Severity.ERROR,
            "Violations of guardrails",
            "violation of a guardrail",
            "violations of guardrails",
        ),
        FindingKind("no-backup", Severity.WARNING, "Missing backup"),
        FindingKind(
            "guardrail-warnings",
            Severity.WARNING,
            "Violations of guardrails that warn",
            "violation of a guardrail that only warns",
            "violations of guardrails that only warn",
        ),
        FindingKind(
            "one-admin-holder",
            Severity.WARNING,
            "Entities with one ADMIN holder",
            "live entity with only one ADMIN holder",
            "live entities with only one ADMIN holder",
        ),
        FindingKind(
            "leftover-grants",
            Severity.WARNING,
            "Leftover grants",
            "grant on deleted addresses",
            "grants on deleted addresses",
        ),
        FindingKind(
            "old-planned-grants",
            Severity.WARNING,
            "Grants on addresses planned long ago",
            f"grant on planned addresses for more than {PLANNED_TOO_LONG_DAYS} days",
            f"grants on planned addresses for more than {PLANNED_TOO_LONG_DAYS} days",
        ),
        FindingKind(
            "drift",
            Severity.WARNING,
            "Drift from platforms",
            "privilege that only the console or the platform grants",
            "privileges that only the console or the platform grants",
        ),
        FindingKind("failed-run", Severity.WARNING, "Failed analyses"),
        FindingKind("failed-job", Severity.WARNING, "Failed jobs"),
        FindingKind(
            "stale-plans",
            Severity.WARNING,
            "Stale plans",
            "stale plan to renew or discard",
            "stale plans to renew or discard",
        ),
        FindingKind(
            "planned-grants",
            Severity.INFO,
            "Grants on planned addresses",
            "grant on planned addresses, waiting for their entities",
            "grants on planned addresses, waiting for their entities",
        ),
        FindingKind(
            "unused-grants",
            Severity.INFO,
            "Unused grants",
            "grant without a recorded use",
            "grants without a recorded use",
        ),
        FindingKind(
            "redundant-grants",
            Severity.INFO,
            "Redundant grants",
            "direct grant that a group gives too",
            "direct grants that a group gives too",
        ),
        FindingKind(
            "unusual-privileges",
            Severity.INFO,
            "Unusual privileges",
            "privilege that almost no colleague holds",
            "privileges that almost no colleague holds",
        ),
        FindingKind("policy-impact", Severity.INFO, "Impact reports"),
        FindingKind(
            "proposed-plans",
            Severity.INFO,
            "Proposed plans",
            "proposed plan to apply or discard",
            "proposed plans to apply or discard",
        ),
        FindingKind(
            "ending-access",
            Severity.INFO,
            "Access that ends soon",
            "grant or membership ends within 7 days",
            "grants and memberships end within 7 days",
            is_capped=True,
        ),
        FindingKind(
            "expired-access",
            Severity.INFO,
            "Expired access",
            "grant or membership has expired",
            "grants and memberships have expired",
            is_capped=True,
        ),
    )
}
# by the type of a job: one and many of them
JOB_WORDS = {
    "connection-sync": ("sync with a platform", "syncs with platforms"),
    "connection-compare": ("comparison with a platform", "comparisons with platforms"),
    "connection-push": ("push to a platform", "pushes to platforms"),
    "evidence": ("bundle of evidence", "bundles of evidence"),
    "generation-activation": ("scheduled activation of a generation", "scheduled activations of generations"),
    "guardrail-check": ("check of the guardrails", "checks of the guardrails"),
    "plan-application": ("application of a plan", "applications of plans"),
    "review-finishing": ("end of a review", "ends of reviews"),
    "review-preparation": ("preparation of a review", "preparations of reviews"),
    "security-event-shipping": ("transfer of security events", "transfers of security events"),
    "webhook-delivery": ("delivery to a webhook", "deliveries to webhooks"),
}
KIND_CHOICES = [(name, kind.title) for name, kind in KINDS.items()]


def finding_text(finding: Finding) -> str:
    """Return what was found, such as `4 live entities without an ADMIN holder`."""
    kind = KINDS.get(finding.kind)
    return kind.text(finding.figure, finding.note) if kind else finding.note


def in_state(rows: QuerySet[Finding], state: str) -> QuerySet[Finding]:
    """Return the findings in a state; all of them for an empty text."""
    now = timezone.now()
    unresolved, is_accepted = Q(resolved_at=None), Q(accepted_until__gt=now)
    match state:
        case FindingState.OPEN:
            return rows.filter(unresolved & (Q(accepted_until=None) | Q(accepted_until__lte=now)))
        case FindingState.ACCEPTED:
            return rows.filter(unresolved & is_accepted)
        case FindingState.RESOLVED:
            return rows.filter(resolved_at__isnull=False)
    return rows
