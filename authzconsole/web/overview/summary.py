"""What administrators and auditors see first: how much there is, the namespaces as a picture, what needs attention."""

from collections.abc import Iterator

from django.contrib.auth.models import Group

from analytics.models import AnalysisRun
from authzconsole.web.journal.rows import journal_row
from authzconsole.web.reports.attention import attention
from authzconsole.web.shared.row_estimates import RowEstimate, estimated_rows
from entities.models import Entity
from grants.journal_queries import journal_lines
from grants.models import GroupGrant, User, UserGrant
from grants.policies.policy import Generation

MAX_LINES = 5


def overview_sections(generation: Generation, entities: RowEstimate, readiness: AnalysisRun | None) -> dict:
    """Beside the picture of the namespaces. entities: how many addresses there are.

    The same number of queries whatever there is; past `row_estimates.MAX_COUNTED` entities nothing is counted one by one.
    """
    return {"figures": list(_figures(entities)),
            "attention": attention(generation, readiness, is_large=entities.is_large),
            "lines": [journal_row(line) for line in journal_lines()[:MAX_LINES]]}


def size_of_tenant() -> RowEstimate:
    return estimated_rows(Entity.objects.all())


def _figures(entities: RowEstimate) -> Iterator[tuple[int, str]]:
    """(figure, unit)"""
    grants = estimated_rows(UserGrant.objects.all()) + estimated_rows(GroupGrant.objects.all())
    people, groups = estimated_rows(User.objects.filter(is_principal=True)), estimated_rows(Group.objects.all())
    for size, one, many in ((entities, "address", "addresses of entities"), (people, "person", "people"),
                            (groups, "group", "groups"), (grants, "grant", "grants")):
        yield size.figure, f"{one if size.figure == 1 else many}{'' if size.is_exact else ', by estimate'}"
