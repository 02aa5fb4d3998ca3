"""The figures of done runs: store them, read them as series, and delete old ones.

A run stores one row for each figure of its report and of its work, and for each figure by namespace at most
`analytics.results.database.MAX_SUBJECTS` rows. The rows remain when the report is removed, for FIGURES_KEPT_DAYS.
"""

from collections.abc import Collection, Mapping
from datetime import datetime, timedelta

from django.conf import settings
from django.db.models import F, Max, Q, QuerySet, Window
from django.db.models.functions import RowNumber, TruncDate
from django.utils import timezone

from analytics.analyses import ANALYSES
from analytics.models import AnalysisRun, Figure

# of runs over all namespaces: other runs have a series of their own
_EVERY_NAMESPACE = Q(options__namespace="") | Q(options__namespace__isnull=True)
ROWS_AT_ONCE = 50_000

# by name and subject
Figures = Mapping[tuple[str, str], int]


def record_figures(
    run: AnalysisRun, figures: Figures, *, finished_at: datetime | None = None
) -> list[Figure]:
    """Store the figures of a run, and replace those of an earlier attempt. Return the rows.

    finished_at: by default now. Runs two statements.
    """
    Figure.objects.filter(run_id=run.pk).delete()
    return Figure.objects.bulk_create(
        Figure(
            analysis=run.type,
            options=run.options,
            run_id=run.pk,
            finished_at=finished_at or timezone.now(),
            name=name,
            subject=subject,
            value=value,
        )
        for (name, subject), value in figures.items()
    )


def report_figures(run: AnalysisRun, summary: Mapping) -> dict[tuple[str, str], int]:
    """Return the figures of the report among the members of a summary."""
    return {(name, ""): summary[name] for name in ANALYSES[run.type].figures if name in summary}


def work_of_run(run: AnalysisRun) -> dict[str, int]:
    """Return the figures of a run that its report does not have: of its work, by name. Runs one query."""
    rows = Figure.objects.filter(run_id=run.pk, subject="").exclude(name__in=ANALYSES[run.type].figures)
    return dict(rows.order_by("pk").values_list("name", "value"))


def figures_of_series(run: AnalysisRun, names: Collection[str], *, runs: int) -> list[Figure]:
    """Return figures of the newest runs with the same options, up to this one, the oldest first. Runs one query.

    runs: how many runs.
    """
    rows = Figure.objects.filter(
        analysis=run.type, options=run.options, name__in=names, subject="", finished_at__lte=run.finished_at
    )
    return list(reversed(rows.order_by("-finished_at", "-pk")[: runs * len(names)]))


def daily_figures(names: Mapping[str, Collection[str]], *, days: int) -> list[Figure]:
    """Return the last figure of each day (UTC), the oldest first, of runs over all namespaces.

    names: of figures, by analysis. days: how many, up to today. Each analysis has the options of its newest run.
    Runs one query, and reads at most one row for each day, figure and choice of options.
    """
    wanted = Q(pk__in=())
    for analysis, some in names.items():
        wanted |= Q(analysis=analysis, name__in=some)
    return _newest_series(_last_of_days(Figure.objects.filter(wanted, subject=""), days))


def daily_figures_by_subject(analysis: str, name: str, *, days: int, subjects: int) -> list[Figure]:
    """Return the last figures of each day as `daily_figures` does, of the subjects with the largest value in the
    period. Runs two queries.
    """
    rows = Figure.objects.filter(analysis=analysis, name=name).exclude(subject="")
    in_period = rows.filter(_EVERY_NAMESPACE, finished_at__gte=_first_moment(days))
    largest = in_period.order_by().values("subject").annotate(largest=Max("value"))
    names = [row["subject"] for row in largest.order_by("-largest", "subject")[:subjects]]
    return _newest_series(_last_of_days(rows.filter(subject__in=names), days)) if names else []


def _last_of_days(rows: QuerySet[Figure], days: int) -> QuerySet[Figure]:
    rank = Window(
        RowNumber(),
        partition_by=["analysis", "options", "name", "subject", TruncDate("finished_at")],
        order_by=[F("finished_at").desc(), F("pk").desc()],
    )
    in_period = rows.filter(_EVERY_NAMESPACE, finished_at__gte=_first_moment(days))
    return in_period.annotate(rank=rank).filter(rank=1).order_by("finished_at", "pk")


def _first_moment(days: int) -> datetime:
    return timezone.now() - timedelta(days=days)


def _newest_series(rows: QuerySet[Figure]) -> list[Figure]:
    """Return the rows with the options of the newest row of their analysis."""
    found = list(rows)
    options = {row.analysis: row.options for row in found}
    return [row for row in found if row.options == options[row.analysis]]


def delete_old_figures() -> int:
    """Delete the figures that are older than FIGURES_KEPT_DAYS, at most ROWS_AT_ONCE. Return their number."""
    before = timezone.now() - timedelta(days=settings.FIGURES_KEPT_DAYS)
    old = Figure.objects.filter(finished_at__lt=before).order_by("finished_at").values("pk")[:ROWS_AT_ONCE]
    return Figure.objects.filter(pk__in=old).delete()[0]
