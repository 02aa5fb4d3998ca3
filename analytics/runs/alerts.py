"""Alerts send a notification when a figure of the nightly runs crosses a value.

A crossing leaves the journal line `alert-fire`, which webhooks receive, and a row from which e-mail is sent. An alert fires
once. It can fire again after a run with a figure within the limit. Runs with the options of the schedule and runs with the
default options fire apart, because their figures are about different things.
"""

import logging
from collections.abc import Mapping, Sequence

from django.core.exceptions import ValidationError
from django.core.validators import validate_email

from analytics.analyses import ANALYSES, Analysis, AnalysisError, analysis_by_name
from analytics.models import AnalysisRun, FigureAlert, FigureCrossing, Schedule
from analytics.runs.schedules import default_options
from analytics.runs.services import validated_options
from entities.vocabulary import clip, quantity
from grants.authority.transactions import administrator_transaction
from grants.errors import GrantError, JournalReadOnly
from grants.journal import Author, JournalEntry, append_to_journal, lock_journal
from grants.models import JournalHead
from grants.roles.capabilities import Capability

logger = logging.getLogger(__name__)

# in the journal lines of crossings; `grants.author_names` reserves it
ALERT_AUTHOR = "figure_alert"
MAX_ALERTS = 50
MAX_RECIPIENTS = 10
MAX_VALUE = 10**15


class AlertError(GrantError):
    """An alert cannot be written; the message says why. field: the invalid member."""


class UnknownAlert(AlertError):
    """There is no alert with this number."""

    status = 404


def add_alert(
    *,
    author: Author,
    analysis: str,
    figure: str,
    is_above: bool,
    value: int,
    recipients: Sequence[str] = (),
) -> FigureAlert:
    """Write an alert that fires when the figure is above, or else below, the value.

    recipients: email addresses. Raise AlertError for an unknown figure, a value out of range, or an invalid address.
    """
    known = _checked_analysis(analysis)
    if figure not in known.figures:
        raise AlertError(
            f"`{clip(figure)}` is not a figure of {known.name}; its figures are {', '.join(known.figures)}",
            field="figure",
        )
    least = 0 if is_above else 1
    if not least <= value <= MAX_VALUE:
        raise AlertError(
            f"a figure is never below 0, so enter a value from {least} to {MAX_VALUE:,}", field="value"
        )
    addresses = list(dict.fromkeys(filter(None, (address.strip() for address in recipients))))
    _check_recipients(addresses)
    with administrator_transaction(author, capability=Capability.MANAGE_SETTINGS) as head:
        if FigureAlert.objects.count() >= MAX_ALERTS:
            raise AlertError(f"there are {MAX_ALERTS} alerts already, which is the limit: delete one first")
        alert = FigureAlert.objects.create(
            analysis=known.name,
            figure=figure,
            is_above=is_above,
            value=value,
            recipients=addresses,
            created_by=author.name,
        )
        append_to_journal(head, [JournalEntry("alert-add", detail=_detail(alert))], author=author)
    return alert


def delete_alert(*, author: Author, number: int) -> None:
    """Delete an alert with its crossings. Raise UnknownAlert if there is none."""
    with administrator_transaction(author, capability=Capability.MANAGE_SETTINGS) as head:
        alert = FigureAlert.objects.filter(pk=number).first()
        if alert is None:
            raise UnknownAlert(f"there is no alert with the number {number}")
        append_to_journal(head, [JournalEntry("alert-delete", detail=_detail(alert))], author=author)
        alert.delete()


def _checked_analysis(name: str) -> Analysis:
    """Return the analysis. Raise AlertError if there is none."""
    try:
        return analysis_by_name(name)
    except AnalysisError as error:
        raise AlertError(str(error), field="analysis") from None


def _check_recipients(addresses: Sequence[str]) -> None:
    if len(addresses) > MAX_RECIPIENTS:
        raise AlertError(f"an alert has at most {MAX_RECIPIENTS} recipients", field="recipients")
    for address in addresses:
        try:
            validate_email(address)
        except ValidationError:
            raise AlertError(
                f"`{clip(address)}` is not an email address such as name@example.com", field="recipients"
            ) from None


def _detail(alert: FigureAlert) -> str:
    # without the addresses, because the journal keeps its lines for ever
    to = quantity(len(alert.recipients), "address", "addresses")
    return f"{alert}, e-mail to {to}"


class RunAlerts:
    """The alerts about the figures of a run. Create it before rows of the run are locked: it locks the journal first if an
    alert fires.
    """

    def __init__(self, run: AnalysisRun, figures: Mapping[tuple[str, str], int]):
        """Read the alerts, inside a transaction. figures: by name and subject. Runs at most three queries if no alert
        changes.
        """
        self._run, self._figures = run, figures
        self._head: JournalHead | None = None
        alerts = FigureAlert.objects.filter(analysis=run.type).order_by("pk")
        self._changed: list[FigureAlert] = []
        known = [alert for alert in alerts if self._value(alert) is not None]
        if known and is_watched(run):
            default, scheduled = _watched_options(run)
            self._options, self._kept = (scheduled if run.is_scheduled else default), (default, scheduled)
            self._changed = [alert for alert in known if self._is_changed(alert)]
        if any(map(self._begins, self._changed)):
            try:
                self._head = lock_journal()
            except JournalReadOnly as error:
                # the next run fires them
                logger.warning("the alerts about %s wait: %s", run, error)
                self._changed = [alert for alert in self._changed if not self._begins(alert)]

    def fire(self) -> None:
        """Store which alerts have crossed their value, and write the journal lines of those that begin to."""
        entries = []
        for alert in self._changed:
            locked = FigureAlert.objects.select_for_update().filter(pk=alert.pk).first()
            if locked is None or not self._is_changed(locked):
                continue
            is_crossed = self._is_crossed(locked)
            begins = self._begins(locked)
            # options that a schedule had before have no more runs that could end their state
            others = [item for item in locked.crossed_options if item in self._kept and item != self._options]
            locked.crossed_options = [*others, *([self._options] if is_crossed else [])]
            locked.save(update_fields=["crossed_options"])
            if not begins:
                continue
            value = self._figures[alert.figure, ""]
            FigureCrossing.objects.create(alert=alert, run_id=self._run.pk, value=value)
            entries.append(JournalEntry("alert-fire", detail=f"{alert}: {value:,} in run {self._run.pk}"))
        if entries and self._head is not None:
            append_to_journal(self._head, entries, author=Author(ALERT_AUTHOR))

    def _value(self, alert: FigureAlert) -> int | None:
        return self._figures.get((alert.figure, ""))

    def _is_crossed(self, alert: FigureAlert) -> bool:
        """Return whether the run crosses the value."""
        return alert.is_crossed_by(self._figures[alert.figure, ""])

    def _begins(self, alert: FigureAlert) -> bool:
        """Return whether the run crosses the value, and the one before it with these options did not."""
        return self._is_crossed(alert) and self._options not in alert.crossed_options

    def _is_changed(self, alert: FigureAlert) -> bool:
        """Return whether the state differs from that of earlier runs with these options."""
        was_crossed = self._options in alert.crossed_options
        return self._is_crossed(alert) != was_crossed or any(
            options not in self._kept for options in alert.crossed_options
        )


def _watched_options(run: AnalysisRun) -> tuple[dict[str, str], dict[str, str]]:
    """Return the options with which the analysis runs by default and in its schedule, without those that change from run
    to run, such as the newest revision.
    """
    default = default_options(ANALYSES[run.type])
    scheduled = Schedule.objects.filter(analysis=run.type).values_list("options", flat=True).first() or {}
    return default, default | scheduled


def is_watched(run: AnalysisRun) -> bool:
    """Return whether alerts are about the run: it is scheduled, or has the default options of its analysis."""
    analysis = ANALYSES[run.type]
    return run.is_scheduled or run.options == validated_options(analysis, default_options(analysis))
