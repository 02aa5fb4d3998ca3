"""The lines of the inbox: open findings by kind, and what waits for one account.

What waits for an account is not stored: its requests, its reviews, and its access that ends soon.
"""

from collections.abc import Iterable, Iterator
from itertools import groupby

from django.urls import reverse
from django.utils import timezone

from analytics.models import AnalysisRun
from analytics.runs.selectors import changes_since_each
from authzconsole.common.limited_access import MAX_COUNTED, SOON, count_text, counted_rows
from authzconsole.findings.kinds import KINDS, finding_text
from authzconsole.models import Finding, FindingState, Severity
from authzconsole.web.findings.links import About, FindingLinks, Fix
from entities.frozen import frozen
from entities.vocabulary import quantity
from grants.models import RequestState, User
from grants.plans.sources.expired import PeriodScope
from grants.requests.approvers import own_requests, requests_to_answer, requests_to_decide
from grants.reviews.shares import waiting_items

DECIDED = (RequestState.APPROVED, RequestState.DENIED, RequestState.EXPIRED)
_ORDER = {name: position for position, name in enumerate(KINDS)}


@frozen
class AttentionItem:
    """One line. url: of the finding, or of the list of several. run: the run that reported it; None if it was counted for this
    request. changes: number of changes after that run. findings: how many the line counts; 0 if it is not about findings.
    """

    severity: Severity
    text: str
    url: str
    run: AnalysisRun | None = None
    changes: int = 0
    fix: Fix | None = None
    findings: int = 0

    @property
    def level(self) -> str:
        """The level of its icon."""
        return self.severity.word

    @property
    def figure(self) -> str:
        """The number with which the text begins; empty if it begins with a word."""
        number = self.text.partition(" ")[0]
        return number if number.replace(",", "").isdigit() else ""

    @property
    def words(self) -> str:
        """The text after the figure."""
        return self.text.removeprefix(self.figure).strip()


def by_severity(items: Iterable[AttentionItem]) -> list[AttentionItem]:
    return sorted(items, key=lambda item: item.severity)


def open_items(findings: Iterable[Finding], ghost_run: AnalysisRun | None) -> list[AttentionItem]:
    """Return the open ones of these findings, in one line for each kind. The number of queries is limited."""
    rows = [row for row in findings if row.state == FindingState.OPEN]
    rows.sort(key=lambda row: (_ORDER.get(row.kind, len(_ORDER)), -row.figure, row.subject))
    links = FindingLinks(rows, ghost_run)
    changes = changes_since_each(links.runs.values())
    items = []
    for kind, group in groupby(rows, key=lambda row: row.kind):
        of_kind = list(group)
        if kind in KINDS and KINDS[kind].one:
            items.append(_item_of_kind(kind, of_kind, links, changes))
        else:
            items += [_item(row, finding_text(row), links.about(row), links, changes) for row in of_kind]
    return items


def _item_of_kind(
    kind: str, rows: list[Finding], links: FindingLinks, changes: dict[int, int]
) -> AttentionItem:
    text = KINDS[kind].text(sum(row.figure for row in rows), rows[0].note)
    about = links.about(rows[0])
    if len(rows) > 1:
        about = About(kind, "", about.run)
    return _item(rows[0], text, about, links, changes, count=len(rows))


def _item(
    row: Finding, text: str, about: About, links: FindingLinks, changes: dict[int, int], *, count: int = 1
) -> AttentionItem:
    run, is_one = about.run, count < 2
    url = reverse("finding", args=[row.pk]) if is_one else reverse("findings", query={"kind": row.kind})
    return AttentionItem(
        Severity(row.severity),
        text,
        url,
        # the time of a failure says nothing about data
        run if run and row.kind != "failed-run" else None,
        changes.get(run.pk, 0) if run else 0,
        links.fix(about) or (None if is_one else Fix("Show each", url)),
        count,
    )


def own_items(account: User) -> list[AttentionItem]:
    """Return what waits for the account, what was decided about its requests, and its access that ends soon.

    Runs the queries of `requests_to_decide` and seven more.
    """
    return by_severity(_own_items(account))


def _own_items(account: User) -> Iterator[AttentionItem]:
    decided = own_requests(account).filter(state__in=DECIDED, decided_at__gt=timezone.now() - SOON)
    to_decide, mine = (reverse("requests", query={"show": show}) for show in ("to-decide", "mine"))
    waits = ("request waits for your decision", "requests wait for your decision")
    asks = ("question about your requests to answer", "questions about your requests to answer")
    ended = ("request of yours decided in the last 7 days", "requests of yours decided in the last 7 days")
    for severity, rows, texts, url in (
        (Severity.WARNING, requests_to_decide(account), waits, to_decide),
        (Severity.WARNING, requests_to_answer(account), asks, mine),
        (Severity.INFO, decided, ended, mine),
    ):
        if total := rows.order_by()[: MAX_COUNTED + 1].count():
            yield AttentionItem(severity, count_text(total, *texts), url)
    if waiting := waiting_items(account):
        text = quantity(waiting, "review item waits for you", "review items wait for you")
        yield AttentionItem(Severity.WARNING, text, reverse("reviews"))
    if account.is_principal and (ending := counted_rows("soon", PeriodScope(f"user:{account.username}"))):
        text = count_text(
            ending,
            "of your grants and memberships ends within 7 days",
            "of your grants and memberships end within 7 days",
        )
        yield AttentionItem(Severity.WARNING, text, reverse("my-access"))
