"""The overview for administrators and auditors: totals, open problems and the latest changes."""

from collections.abc import Iterator

from django.contrib.auth.models import Group
from django.urls import reverse

from analytics.models import AnalysisRun
from authzconsole.web.journal.rows import journal_rows
from authzconsole.web.reports.attention import attention_section
from authzconsole.web.shared.links import entity_url
from authzconsole.web.shared.row_estimates import RowEstimate, estimated_rows
from entities.address import instance_address
from entities.models import Entity
from grants.journal_queries import journal_lines
from grants.models import GroupGrant, User, UserGrant
from grants.policies.policy import Generation

MAX_LINES = 5


def overview_sections(generation: Generation, entities: RowEstimate, readiness: AnalysisRun | None) -> dict:
    """Return the sections around the chart of the namespaces.

    entities: the number of registered addresses. readiness: the newest report on delete readiness.
    The number of queries is limited. Beyond `row_estimates.MAX_COUNTED` entities, totals are estimates.
    """
    return {
        "figures": list(_figures(entities)),
        "attention": attention_section(generation, readiness, is_large=entities.is_large),
        "lines": journal_rows(journal_lines()[:MAX_LINES]),
    }


def estimated_entities() -> RowEstimate:
    """Return the number of registered addresses, estimated in a large tenant."""
    return estimated_rows(Entity.objects.all())


def _figures(entities: RowEstimate) -> Iterator[tuple[int, str, str]]:
    """Yield the totals as (figure, unit, URL of the page with the rows)."""
    grants = estimated_rows(UserGrant.objects.all()) + estimated_rows(GroupGrant.objects.all())
    users, groups = estimated_rows(User.objects.principals()), estimated_rows(Group.objects.all())
    instance = entity_url(instance_address())
    for size, singular, plural, url in (
        (entities, "address", "addresses", instance),
        (users, "user", "users", reverse("people")),
        (groups, "group", "groups", reverse("people", query={"type": "group"})),
        (grants, "grant", "grants", instance),
    ):
        yield (
            size.figure,
            f"{singular if size.figure == 1 else plural}{'' if size.is_exact else ' (estimated)'}",
            url,
        )
