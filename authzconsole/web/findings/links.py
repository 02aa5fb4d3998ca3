"""Where the rows behind a finding are, and the button that fixes it."""

from collections.abc import Collection, Mapping
from functools import cached_property

from django.urls import reverse

from analytics.models import AnalysisRun
from authzconsole.connections.services import JOB_PREFIX
from authzconsole.models import Finding
from authzconsole.web.reports.cell_links import exactly, rows_url
from authzconsole.web.reports.results import summaries_or_fault
from entities.frozen import frozen
from grants.models import PlanState


@frozen
class Fix:
    """A button that fixes a finding, or creates a plan that does. fields: of the form that it sends; a link without them."""

    label: str
    url: str
    fields: Mapping[str, str] | None = None

    @property
    def is_link(self) -> bool:
        return self.fields is None


@frozen
class About:
    """What links are about: a finding, or all open findings of a kind, without a subject."""

    kind: str
    name: str
    run: AnalysisRun | None

    @property
    def inside(self) -> dict[str, str]:
        """The filter of rows about entities in the namespace."""
        return {"namespace": self.name} if self.name else {}

    @property
    def scope(self) -> dict[str, str]:
        """The fields that limit a plan to the namespace."""
        fields = {"namespace": self.name, "run": str(self.run.pk) if self.run else ""}
        return {name: value for name, value in fields.items() if value}


class FindingLinks:
    """The links of findings. Reads their runs with one query, and at most one report. ghost_run: the newest report on ghost
    grants.
    """

    def __init__(self, findings: Collection[Finding], ghost_run: AnalysisRun | None):
        self.findings, self.ghost_run = findings, ghost_run
        self.runs = AnalysisRun.objects.in_bulk({row.run_id for row in findings if row.run_id})

    def about(self, finding: Finding) -> About:
        name = finding.subject.partition(":")[2]
        return About(finding.kind, name, self.runs.get(finding.run_id or 0))

    def rows_url(self, about: About) -> str:
        """Return the URL of the page with the rows."""
        run = about.run
        match about.kind:
            case "undeletable" if run:
                return rows_url(run, namespace=exactly(about.name)) if about.name else _report(run)
            case "no-admin-holder" | "one-admin-holder" if run:
                admins = "0" if about.kind == "no-admin-holder" else "1"
                return rows_url(run, admins=admins, **about.inside)
            case "leftover-grants" | "old-planned-grants" | "planned-grants":
                return self._ghost_rows(about)
            case "guardrail-violations" | "guardrail-warnings":
                return (
                    reverse("policies-guardrail", args=[about.name])
                    if about.name
                    else reverse("policies-guardrails")
                )
            case "drift":
                return (
                    reverse("connection-drift", args=[about.name]) if about.name else reverse("connections")
                )
            case "failed-job" if about.name.startswith(JOB_PREFIX):
                return reverse("connections")
            case "failed-run" | "unusual-privileges" if run:
                return _report(run)
            case "unused-grants" if run:
                return reverse("analysis-table", args=[run.pk, "grants"], query=about.inside)
            case "redundant-grants" if run:
                return rows_url(run, **about.inside)
            case "policy-impact" if about.name:
                return reverse("generation-activate", args=[about.name])
            case "stale-plans" | "proposed-plans":
                return reverse("plans", query={"state": PlanState.PROPOSED})
            case "ending-access":
                return reverse("limited-access", query={"show": "soon"})
            case "expired-access":
                return reverse("limited-access", query={"show": "expired"})
        return reverse("status")

    def fix(self, about: About) -> Fix | None:
        """Return the button; None if there is none."""
        match about.kind:
            case "undeletable":
                return self._readiness_fix(about)
            case "no-admin-holder" | "one-admin-holder":
                return Fix("Grant ADMIN", self.rows_url(about))
            case "leftover-grants":
                return Fix("Clean up", reverse("plan-ghosts"), about.scope)
            case "unused-grants" if about.run:
                days = str(about.run.summary.get("days_of_the_window", ""))
                return Fix("Plan to revoke", reverse("plan-unused"), about.scope | {"since": days})
            case "redundant-grants":
                return Fix("Plan to revoke", reverse("plan-redundant"), about.scope)
            case "unusual-privileges" if about.run:
                return Fix("Select rows for a plan", rows_url(about.run))
            case "expired-access":
                return Fix("Revoke expired", reverse("plan-expired"), {})
            case "failed-run" if about.name:
                return Fix("Run again", reverse("analysis-start"), {"analysis": about.name})
            case "guardrail-violations" | "guardrail-warnings" if about.name:
                return Fix("Show violations", self.rows_url(about))
            case "drift" if about.name:
                return Fix("Show drift", self.rows_url(about))
            case "stale-plans":
                return Fix("Show plans", self.rows_url(about))
        return None

    def _ghost_rows(self, about: About) -> str:
        if run := about.run or self.ghost_run:
            state = "deleted" if about.kind == "leftover-grants" else "planned"
            return rows_url(run, state=state, **about.inside)
        return reverse("plans" if about.kind == "leftover-grants" else "analyses")

    @cached_property
    def _nearest_users(self) -> Mapping[str, dict]:
        """By namespace, its row in the report, with the user who is missing the fewest grants."""
        rows = [row for row in self.findings if row.kind == "undeletable" and row.namespace]
        run = self.runs.get(rows[0].run_id or 0) if rows else None
        return summaries_or_fault(run, [row.namespace for row in rows])[0]

    def _readiness_fix(self, about: About) -> Fix | None:
        user = self._nearest_users.get(about.name, {}).get("nearest_user")
        if not user or about.run is None:
            return None
        query = {
            "namespace": f"namespace:{about.name}",
            "user": user,
            "generation": about.run.options.get("generation", ""),
        }
        return Fix("Plan grants", reverse("plan-readiness", query=query))


def _report(run: AnalysisRun) -> str:
    return reverse("analysis", args=[run.pk])
