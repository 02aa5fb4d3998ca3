"""Request and cancel runs. `grants.jobs` executes them."""

from collections.abc import Mapping
from datetime import date

from django.conf import settings
from django.db import transaction
from django.utils import timezone

from analytics.analyses import Analysis, analysis_by_name
from analytics.models import AnalysisRun
from analytics.options import checked_options
from entities.models import Entity, State
from grants.active_generation import active_generation
from grants.authority.transactions import administrator_transaction
from grants.jobs import cancel_job, request_job
from grants.journal import Author, JournalEntry, append_to_journal, current_revision
from grants.models import JournalLine
from grants.roles.capabilities import Capability
from grants.usage import first_day_of_use
from grants.validity import question_time


def request_run(
    *,
    analysis: str,
    options: Mapping[str, str],
    requested_by,
    is_scheduled: bool = False,
    author: Author | None = None,
) -> AnalysisRun:
    """Store a waiting run and send it to the worker when the transaction commits.

    author: the author of the journal line; None for the first run of an analysis, which has no line. Raise
    AnalysisError for an unknown analysis or invalid options, NotAdministrator if the author may not write.
    """
    known_analysis = analysis_by_name(analysis)
    valid_options = validated_options(known_analysis, options)
    with (
        administrator_transaction(author, capability=Capability.RUN_ANALYSES)
        if author
        else transaction.atomic()
    ) as head:
        run = request_job(
            AnalysisRun(
                type=known_analysis.name,
                options=valid_options,
                requested_by=requested_by,
                is_scheduled=is_scheduled,
            )
        )
        if author:
            append_to_journal(head, [JournalEntry("run-start", detail=run.description)], author=author)
    return run


def cancel_run(*, run: AnalysisRun, author: Author | None = None) -> bool:
    """Cancel a waiting run at once, and a running run within seconds. Return False if the run was already
    finished.

    author: the author of the journal line; without an author, no line is written. Raise NotAdministrator if
    the author may not write.
    """
    if author is None:
        return cancel_job(run)
    with administrator_transaction(author, capability=Capability.RUN_ANALYSES) as head:
        is_cancelled = cancel_job(run)
        if is_cancelled:
            append_to_journal(head, [JournalEntry("run-cancel", detail=run.description)], author=author)
    return is_cancelled


def validated_options(analysis: Analysis, options: Mapping[str, str]) -> dict[str, str]:
    """Return a value for every option of the analysis, with defaults for missing ones.

    Raise AnalysisError for invalid ones. Runs at most three queries.
    """
    return checked_options(analysis, options, _ConsoleFacts())


class _ConsoleFacts:
    """The facts for the checks of options, from the database."""

    usage_kept_days = property(lambda self: settings.USAGE_KEPT_DAYS)

    def today(self) -> date:
        return timezone.now().date()

    def active_generation(self) -> str:
        return active_generation().name

    def first_day_of_use(self) -> date | None:
        return first_day_of_use()

    def days_of_history(self) -> int:
        begin = JournalLine.objects.order_by("revision").values_list("at", flat=True).first()
        return max(0, (question_time() - begin).days) if begin else 0

    def newest_revision(self) -> int:
        return current_revision()

    def namespace_state(self, key: str) -> str | None:
        return Entity.objects.filter(kind="namespace", key=key).values_list("state", flat=True).first()

    def live_namespaces(self, count: int) -> list[str]:
        live = Entity.objects.filter(kind="namespace", state=State.LIVE).order_by("key")
        return list(live.values_list("key", flat=True)[:count])
