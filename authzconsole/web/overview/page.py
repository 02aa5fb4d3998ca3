"""The first page: the visible namespaces and, for administrators and auditors, the overview of the tenant."""

from collections.abc import Iterator
from datetime import timedelta

from django.contrib.auth.models import Group
from django.db.models import Q, QuerySet, Subquery
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.http import require_safe

from analytics.analyses import AnalysisName
from analytics.models import AnalysisRun
from analytics.runs.selectors import changes_since
from authzconsole.common.row_estimates import RowEstimate, estimated_rows
from authzconsole.findings.sources import Situation
from authzconsole.web.findings.items import own_items
from authzconsole.web.journal.page import FOLDED
from authzconsole.web.journal.rows import journal_rows
from authzconsole.web.overview.attention import attention_section
from authzconsole.web.reports.charts.namespace_treemap import COLORINGS, namespace_chart
from authzconsole.web.reports.charts.report_charts import reach_bars
from authzconsole.web.reports.charts.trends import overview_trends, trend_days
from authzconsole.web.reports.check_again import REPORT_AGE, report_age_section
from authzconsole.web.reports.results import REPORT_ERRORS, report_fault, summaries_or_fault
from authzconsole.web.shared.entity_counts import holder_counts, kind_counts_inside
from authzconsole.web.shared.links import entity_url
from authzconsole.web.shared.paging import ADDRESS_ORDER, keyset_page
from authzconsole.web.shared.parameters import choice_parameter, text_parameter
from authzconsole.web.shared.privilege_cells import privilege_cells
from authzconsole.web.shared.rendering import render_page, requested_section
from entities.address import instance_address
from entities.models import Entity
from grants.active_generation import active_generation
from grants.authority.stewards import stewarded_condition
from grants.evaluation.visibility import FULL_VISIBILITY, visibility_of
from grants.journal_queries import MAX_LINES_SEARCHED, journal_lines
from grants.models import GroupGrant, JournalHead, JournalLine, User, UserGrant
from grants.policies.policy import Generation
from grants.roles.capabilities import Capability
from grants.scheduled_activation import scheduled_activation

ROWS_PER_PAGE = 25
MAX_LINES = 5
MAX_PEOPLE = 5
WEEK = timedelta(days=7)
DEFAULT_COLORING = "readiness"
# actions that the overview leaves out: one check of the reports writes more lines than it shows
WORK_ACTIONS = ("run-start", "run-cancel", "finding-open", "events-seal", "seal")


@require_safe
def home(request: HttpRequest) -> HttpResponse:
    """Show the overview, or one of its sections. The number of queries is limited. In a large tenant, beyond
    `row_estimates.MAX_COUNTED` entities, totals are estimates.
    """
    sees_all, section_name = _sees_overview(request), requested_section(request)
    if section_name == REPORT_AGE and sees_all:
        return report_age_section(request)
    generation = active_generation()
    entities = estimated_rows(Entity.objects.all())
    situation = Situation.now(generation=generation, is_large=entities.is_large) if sees_all else None
    run = situation.reports.get(AnalysisName.DELETE_READINESS) if situation else None
    section = namespaces_section(request, generation, run, has_counts=not entities.is_large)
    colour = choice_parameter(request, "colour", COLORINGS)
    context = {
        "namespaces": section,
        "generation": generation,
        "can_change": request.user.can_administer,
        "can_start": request.user.can(Capability.RUN_ANALYSES),
        "sees_all": sees_all,
        "instance": instance_address(),
        "url": request.path,
        "colour": colour,
        "readiness_analysis": AnalysisName.DELETE_READINESS,
    }
    if section_name == "namespaces":
        return render_page(request, "overview/_namespaces.html", context)
    if situation is None:
        context["problems"] = own_items(request.user)
    elif not section["is_empty"]:
        coloring = COLORINGS[colour or DEFAULT_COLORING]
        context["chart"] = namespace_chart(coloring, generation, run, is_large=entities.is_large)
        context["colorings"] = COLORINGS.values()
        if section_name == "chart":
            return render_page(request, "overview/_chart.html", context)
        context |= attention_section(request.user, situation)
        context["figures"] = list(_figures(entities))
        context["lines"] = journal_rows(_latest_changes())
        if section_name == "attention":
            response = render_page(request, "overview/_attention_block.html", context)
            if context["first_runs"] is None:
                # the reports change every section
                response["HX-Refresh"] = "true"
            return response
        context["reach"] = _broadest_access(situation.reports.get(AnalysisName.BLAST_RADIUS))
        context["activation"] = scheduled_activation()
        context["trends"] = overview_trends()
        context["trend_days"] = trend_days(context["trends"])
    return render_page(request, "overview/page.html", context)


def _latest_changes() -> QuerySet[JournalLine]:
    """Return the newest lines, without runs, seals and findings, and without the grants of a plan, which has a line itself."""
    newest = Subquery(JournalHead.objects.filter(pk=1).values("revision"))
    recent = journal_lines().filter(place__gt=newest - MAX_LINES_SEARCHED)
    return recent.exclude(FOLDED).exclude(action__in=WORK_ACTIONS)[:MAX_LINES]


def _broadest_access(run: AnalysisRun | None) -> dict:
    """Return the users who could damage the most. run: of the newest report on it. Runs at most three queries."""
    section = {"run": run, "analysis": AnalysisName.BLAST_RADIUS, "changes_since": changes_since(run)}
    try:
        return section | {"chart": reach_bars(run, MAX_PEOPLE) if run else None}
    except REPORT_ERRORS as error:
        return section | {"fault": report_fault(run, error)}


def namespaces_section(
    request: HttpRequest, generation: Generation, run: AnalysisRun | None, *, has_counts: bool
) -> dict:
    """Return a page of the visible namespaces.

    run: the newest report on delete readiness. has_counts: whether to count the contents and holders of each
    namespace.
    """
    text = text_parameter(request, "find", max_characters=200)
    visibility = (
        FULL_VISIBILITY
        if request.user.can_see_all
        else visibility_of(request.user, generation, operations=("list",))
    )
    stewarded = stewarded_condition(request.user)
    is_visible = visibility.all_rows | stewarded
    # `first_rows` is faster than `all_rows` here, because a tenant has few namespaces and many grants inside
    # them
    rows = Entity.objects.filter(visibility.first_rows | stewarded, kind="namespace")
    if text:
        rows = rows.filter(Q(key__icontains=text) | Q(description__icontains=text))
    total = rows.count()
    page = keyset_page(request, rows, *ADDRESS_ORDER, max_rows=ROWS_PER_PAGE, total=total)
    if _sees_overview(request):
        rows_context = _rows_with_report(page.rows, is_visible, run, has_counts=has_counts)
    else:
        rows_context = _rows_with_own_privileges(request, page.rows, is_visible, has_counts=has_counts)
    return {
        "page": page,
        "total": total,
        "find": text,
        "is_empty": not total and not text,
        "has_counts": has_counts,
        **rows_context,
    }


def _sees_overview(request: HttpRequest) -> bool:
    """Return whether the account sees the overview of the tenant, which shows reports and the journal."""
    return request.user.can_see_all and request.user.can_read_journal


def _rows_with_report(
    entities: list[Entity], is_visible: Q, run: AnalysisRun | None, *, has_counts: bool
) -> dict:
    ids = [entity.pk for entity in entities]
    reports, fault = summaries_or_fault(run, [entity.key for entity in entities])
    inside, holders = (
        (kind_counts_inside(ids, is_visible), holder_counts("namespace", ids)) if has_counts else ({}, {})
    )
    return {
        "run": run,
        "changes_since": changes_since(run),
        "report_fault": fault,
        "rows": [
            {
                "entity": entity,
                "inside": inside.get(entity.pk, []),
                "report": reports.get(entity.key),
                "users": holders.get(entity.pk, {}).get("users", 0),
                "groups": holders.get(entity.pk, {}).get("groups", 0),
            }
            for entity in entities
        ],
    }


def _rows_with_own_privileges(
    request: HttpRequest, entities: list[Entity], is_visible: Q, *, has_counts: bool
) -> dict:
    ids = [entity.pk for entity in entities]
    inside = kind_counts_inside(ids, is_visible) if has_counts else {}
    cells = privilege_cells(request.user, entities)
    return {
        "rows": [
            {
                "entity": entity,
                "inside": inside.get(entity.pk, []),
                "cells": cells[entity.pk],
            }
            for entity in entities
        ]
    }


def _figures(entities: RowEstimate) -> Iterator[tuple[int, str, str, int]]:
    """Yield the totals as (figure, unit, URL of the page with the rows, rows of the last WEEK).

    The last number is 0 if it is not counted: for groups, which have no date, and in a large tenant. Runs at most two queries
    for each total, and three for the rows of the last week.
    """
    since = timezone.now() - WEEK
    grants = estimated_rows(UserGrant.objects.all()) + estimated_rows(GroupGrant.objects.all())
    users, groups = estimated_rows(User.objects.principals()), estimated_rows(Group.objects.all())
    instance = entity_url(instance_address())
    for size, singular, plural, url, recent in (
        (entities, "address", "addresses", instance, [Entity.objects.filter(created_at__gte=since)]),
        (
            users,
            "user",
            "users",
            reverse("people"),
            [User.objects.principals().filter(date_joined__gte=since)],
        ),
        (groups, "group", "groups", reverse("people", query={"type": "group"}), []),
        (
            grants,
            "grant",
            "grants",
            instance,
            [model.objects.filter(granted_at__gte=since) for model in (UserGrant, GroupGrant)],
        ),
    ):
        yield (
            size.figure,
            f"{singular if size.figure == 1 else plural}{'' if size.is_exact else ' (estimated)'}",
            url,
            sum(rows.order_by().count() for rows in recent)
            if not (entities.is_large or size.is_large)
            else 0,
        )
