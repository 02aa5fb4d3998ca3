"""What a report says before its rows: what the analysis found, what that means, and what to do next."""

from collections.abc import Callable, Mapping
from datetime import date, timedelta

from django.urls import reverse
from django.utils import timezone

from analytics.analyses import DRIFT_DAYS, ROLES_OF_TEAMS, AnalysisName
from analytics.models import AnalysisRun
from authzconsole.web.shared.links import principal_url
from authzconsole.web.shared.times import day_text
from entities.frozen import frozen
from entities.vocabulary import quantity
from grants.usage import first_day_of_use


@frozen
class UseCoverage:
    """What the records of use let a report of unused access say.

    first_day: with a recorded use, now. covered, window: the days with records, and those of the window, when the analysis
    ran.
    """

    first_day: date | None
    covered: int
    window: int
    ran_on: date

    @property
    def is_known(self) -> bool:
        """Whether anything is known to be unused."""
        return self.first_day is not None and self.window > 0

    @property
    def sentence(self) -> str:
        if self.first_day is None:
            return "No use is recorded, so nothing is known to be unused."
        if not self.window:
            return (
                "When the analysis ran, no full day of use was recorded, so it knows nothing to be unused. Uses are recorded "
                f"since {day_text(self.first_day)}: run it again."
            )
        since = self.ran_on - timedelta(days=self.covered)
        return (
            f"Unused means: without a recorded use in the last {quantity(self.window, 'day', 'days')}. Uses are recorded "
            f"since {day_text(since)} ({quantity(self.covered, 'day', 'days')}); earlier use is unknown."
        )


def use_coverage(run: AnalysisRun) -> UseCoverage:
    """Return what the report of a finished run of `unused` can say. Runs one query."""
    covered, window = (
        run.summary.get(name, 0) for name in ("days_with_records_of_use", "days_of_the_window")
    )
    ran_at = run.started_at or run.finished_at or timezone.now()
    return UseCoverage(first_day_of_use(), max(covered, window), window, ran_at.date())


@frozen
class Summary:
    """found: a sentence. meaning: what it means and what to do. next_step: the label and the URL of a button; empty if the
    page has none.
    """

    found: str
    meaning: str = ""
    next_step: tuple[str, str] | tuple[()] = ()


def report_summary(run: AnalysisRun, chart: dict | None) -> Summary | None:
    """Return the summary of a finished run; None if its analysis has none, or if it needs a chart that the page does not have.

    chart: that of the page.
    """
    make = SUMMARIES.get(run.type)
    return make(run, run.summary, chart or {}) if make else None


Figures = Mapping[str, int]
# that a sentence says
HIDDEN_FIGURES = ("days_with_records_of_use", "days_of_the_window")


def _unused_access(run: AnalysisRun, figures: Figures, chart: dict) -> Summary:
    users = figures.get("users_with_unused_privileges", 0)
    if not users:
        return Summary("Every user used all that they hold.")
    return Summary(
        f"{quantity(users, 'user', 'users')} did not use {quantity(figures['unused_privileges'], 'privilege', 'privileges')} "
        f"that they hold; {quantity(figures['grants_that_nobody_used'], 'grant has', 'grants have')} no recorded use.",
        "The plan below revokes the grants without a recorded use. The menu on a user's page revokes what this user does not use.",
    )


def _blast_radius(run: AnalysisRun, figures: Figures, chart: dict) -> Summary | None:
    if user := chart.get("user"):
        row = chart["total"]
        found = (
            f"{user} can change {row['changeable']:,} of {quantity(row['entities'], 'live entity', 'live entities')} that the "
            f"user reaches."
        )
        meaning = (
            "A user reaches an entity by holding a privilege on it. The page of the user counts the entities on which an operation "
            "is permitted instead, so its numbers can differ. It shows the groups and grants that give this, and its menu More can "
            "revoke what the user does not use."
        )
        return Summary(found, meaning, (f"Open {user}", principal_url("person", f"user:{user}")))
    if not chart.get("bars"):
        has_rows = bool(figures.get("users_with_privileges"))
        return None if has_rows else Summary("No active user holds a privilege on a live entity.")
    row = chart["bars"][0]["row"]
    return Summary(
        f"{row['user']} could damage the most: {row['changeable']:,} of {quantity(row['entities'], 'live entity', 'live entities')} "
        f"that the user reaches can be changed with this account, in {quantity(row['namespaces'], 'namespace', 'namespaces')}.",
        "A stolen account can do what its user can. Start with the first bars: open one to see where the access is.",
        (f"Show what {row['user']} reaches", chart["bars"][0]["url"]),
    )


def _outliers(run: AnalysisRun, figures: Figures, chart: dict) -> Summary:
    users, share = figures.get("users_who_differ", 0), float(run.options.get("share") or 0)
    limit = f"at most {share:.0%} of the members of a group"
    if not users:
        return Summary(f"Nobody holds anything that {limit} hold.")
    return Summary(
        f"{quantity(users, 'user holds', 'users hold')} {quantity(figures['unusual_privileges'], 'privilege', 'privileges')} that "
        f"{limit} hold.",
        "Such access often remains from an earlier job. Open a user to see which grants and groups give it, and select rows for a "
        "plan that takes away what is no longer needed.",
    )


def _patterns(run: AnalysisRun, figures: Figures, chart: dict) -> Summary:
    grants, unused = (
        figures.get("grants_on_patterns", 0),
        figures.get("grants_on_patterns_with_unused_entities", 0),
    )
    if not grants:
        return Summary("Nobody holds a grant on a pattern.")
    nothing = figures["grants_on_patterns_that_match_nothing"]
    return Summary(
        f"Of {quantity(grants, 'grant on a pattern', 'grants on patterns')}, {unused:,} {'gives' if unused == 1 else 'give'} something "
        f"that nobody used, and {nothing:,} {'matches' if nothing == 1 else 'match'} nothing.",
        "Select rows for a plan that keeps what was used. It lists every permission that is lost.",
        ("Show narrower patterns", reverse("analysis-table", args=[run.pk, "narrower"])),
    )


def _drift(run: AnalysisRun, figures: Figures, chart: dict) -> Summary:
    first, last = (run.options.get(name) for name in ("from_revision", "to_revision"))
    start = f"Since revision {int(first):,}" if first else f"In the {DRIFT_DAYS} days before the data"
    period = f"{start}, up to revision {int(last):,}," if last else f"{start},"
    users = figures.get("users_with_changes", 0)
    if not users:
        return Summary(
            f"{period} no active user gained or lost a privilege.",
            "Compare with an earlier revision: start the analysis with another one under Analyses.",
            ("Choose revisions", f"{reverse('analyses')}?analysis={run.type}"),
        )
    return Summary(
        f"{period} {quantity(users, 'user', 'users')} gained {figures['privileges_gained']:,} and lost "
        f"{quantity(figures['privileges_lost'], 'privilege', 'privileges')}.",
        "The journal lines say who changed it and why.",
        ("Show the journal lines", reverse("analysis-table", args=[run.pk, "lines"])),
    )


def _role_mining(run: AnalysisRun, figures: Figures, chart: dict) -> Summary:
    roles, shared = figures.get("roles", 0), figures.get("roles_of_several_users", 0)
    if run.options.get("prefer") == ROLES_OF_TEAMS:
        return Summary(
            f"{quantity(roles, 'role', 'roles')} would replace "
            f"{quantity(figures.get('grants_that_roles_cover', 0), 'direct grant', 'direct grants')}; the others remain direct."
            if roles
            else "No users share enough direct grants for a group."
        )
    if not roles:
        return Summary(
            "No active user holds a direct grant on a live entity, so there is nothing to replace."
        )
    found = f"{quantity(roles, 'role', 'roles')} would give exactly what the direct grants give; "
    if not shared:
        return Summary(
            f"{found}no role has several users.",
            "Each of these roles replaces the grants of one user. Roles that people would define also find what several users share.",
            ("Prefer such roles", f"{reverse('analyses')}?analysis={run.type}&prefer={ROLES_OF_TEAMS}"),
        )
    return Summary(
        f"{found}{shared:,} of them {'has' if shared == 1 else 'have'} several users.",
        "Roles with several users are worth a group.",
    )


def _guardrails(run: AnalysisRun, figures: Figures, chart: dict) -> Summary:
    rules, violated = figures.get("guardrails", 0), figures.get("guardrails_violated", 0)
    if not rules:
        return Summary(
            "No guardrail is defined, so nothing can be violated.",
            "A guardrail is a rule such as: contractors never hold ADMIN in finance.",
            ("Guardrails", reverse("policies-guardrails")),
        )
    if not violated:
        return Summary(f"The grants violate none of {quantity(rules, 'guardrail', 'guardrails')}.")
    return Summary(
        f"{violated:,} of {quantity(rules, 'guardrail is', 'guardrails are')} violated, "
        f"{quantity(figures['guardrail_violations'], 'time', 'times')} in all.",
        "Revoke the grants of the rows below, or give them an exception with a reason and an end on the page of the guardrail.",
        ("Guardrails", reverse("policies-guardrails")),
    )


SUMMARIES: Mapping[str, Callable[[AnalysisRun, Figures, dict], Summary | None]] = {
    AnalysisName.UNUSED: _unused_access,
    AnalysisName.BLAST_RADIUS: _blast_radius,
    AnalysisName.OUTLIERS: _outliers,
    AnalysisName.PATTERNS: _patterns,
    AnalysisName.DRIFT: _drift,
    AnalysisName.ROLE_MINING: _role_mining,
    AnalysisName.GUARDRAILS: _guardrails,
}
