"""Search everything except entities: people, groups, plans, reports and pages of the console.

Ordinary accounts find only the pages that they can open; names of people, plans and reports are not disclosed
to them.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from django.contrib.auth.models import Group
from django.db.models import Q
from django.urls import reverse

from analytics.analyses import ANALYSES
from analytics.runs.selectors import latest_finished_runs
from authzconsole.web.context_processors import NAV_ITEMS
from authzconsole.web.plans.plan_pages import plan_url
from authzconsole.web.shared.links import principal_url
from authzconsole.web.shared.paging import url_with_query
from entities.vocabulary import KINDS
from grants.models import Plan, User
from grants.roles.capabilities import Capability

# shorter texts match too much to be useful
MIN_CHARACTERS = 2


@dataclass(frozen=True, slots=True)
class SearchHit:
    """One result. note: a short text after the title. icon: the name of its icon."""

    title: str
    url: str
    icon: str
    note: str = ""


@dataclass(frozen=True, slots=True)
class HitGroup:
    """The results of one type. more_url: the list with all results of the type; empty if all are shown."""

    name: str
    title: str
    hits: list[SearchHit]
    more_url: str = ""


@dataclass(frozen=True, slots=True)
class PageEntry:
    """A page that has no item in the navigation. words: further words by which it is found.

    capabilities: only accounts with one of them can open the page; empty for every account.
    """

    title: str
    url_name: str
    words: str = ""
    capabilities: tuple[Capability, ...] = ()


PAGE_ENTRIES = (
    PageEntry(
        "Add a user or group",
        "people-add",
        "new create person onboard",
        (Capability.CHANGE_GRANTS, Capability.MANAGE_ACCOUNTS),
    ),
    PageEntry("Compare users", "people-compare", "differences alike", (Capability.READ_ALL,)),
    PageEntry("Bulk change", "plan-bulk-change", "plan many grant revoke", (Capability.CHANGE_GRANTS,)),
    PageEntry("Import changes", "plan-import", "plan file csv", (Capability.CHANGE_GRANTS,)),
    PageEntry(
        "Limited access",
        "limited-access",
        "validity period expiry expired ends begins",
        (Capability.READ_ALL,),
    ),
    PageEntry("Request access", "request-new", "new ask permission denied"),
    PageEntry("Approvers", "request-approvers", "requests group namespace", (Capability.READ_ALL,)),
    PageEntry("Delegation", "delegation-limits", "limits owners", (Capability.READ_ALL,)),
    PageEntry(
        "Start review", "review-new", "access review campaign certification", (Capability.CHANGE_GRANTS,)
    ),
    PageEntry("Evidence", "evidence-list", "auditor bundle signed", (Capability.READ_JOURNAL,)),
    PageEntry(
        "Differences", "journal-differences", "compare dates history changes", (Capability.READ_JOURNAL,)
    ),
    PageEntry("Break-glass access", "journal-break-glass", "emergency", (Capability.READ_JOURNAL,)),
    PageEntry("Verify journal", "journal-proof", "proof hash chain head", (Capability.READ_JOURNAL,)),
    PageEntry(
        "Security events", "journal-security-events", "sign-ins audit log", (Capability.READ_SECURITY_EVENTS,)
    ),
    PageEntry("Webhooks", "journal-webhooks", "events notifications", (Capability.READ_JOURNAL,)),
    PageEntry("API tokens", "tokens", "service accounts", (Capability.READ_ACCOUNTS,)),
    PageEntry("Sessions", "sessions", "signed in devices"),
    PageEntry("Password", "password", "change"),
    PageEntry("Second factor", "second-factor", "authenticator passkey recovery codes mfa"),
    PageEntry("Time zone", "time-zone", "clock local utc"),
    PageEntry("API documentation", "rest-swagger", "rest openapi swagger"),
)


def console_hits(user: User, text: str, max_hits: int) -> list[HitGroup]:
    """Return the results by type, without the types that have none, with at most `max_hits` each.

    Runs at most four queries for an account that sees everything, otherwise none.
    """
    prefix, colon, name = text.partition(":")
    only = prefix if colon and prefix in ("user", "group") else ""
    if len(text) < MIN_CHARACTERS or (colon and prefix.lower() in KINDS):
        return []
    groups = []
    if user.can_see_all:
        groups += [_people(name if only else text, max_hits)] if only != "group" else []
        groups += [_groups(name if only else text, max_hits)] if only != "user" else []
        groups += [] if only else [_plans(text, max_hits)]
    if user.can(Capability.READ_REPORTS) and not only:
        groups.append(_reports(text, max_hits))
    if not only:
        groups.append(_pages(user, text, max_hits))
    return [group for group in groups if group.hits]


def _people(text: str, max_hits: int) -> HitGroup:
    condition = Q(username__icontains=text) | Q(email__icontains=text)
    for word in text.split():
        condition |= Q(first_name__icontains=word) | Q(last_name__icontains=word)
    rows = list(User.objects.filter(condition).order_by("username")[: max_hits + 1])
    hits = [
        SearchHit(
            row.username,
            principal_url("person", f"user:{row.username}"),
            "user",
            row.get_full_name() or ("" if row.is_active else "inactive"),
        )
        for row in rows[:max_hits]
    ]
    return HitGroup(
        "people", "People", hits, url_with_query("people", {"find": text}) if len(rows) > max_hits else ""
    )


def _groups(text: str, max_hits: int) -> HitGroup:
    names = list(
        Group.objects.filter(name__icontains=text)
        .order_by("name")
        .values_list("name", flat=True)[: max_hits + 1]
    )
    hits = [SearchHit(name, principal_url("person", f"group:{name}"), "group") for name in names[:max_hits]]
    more_url = url_with_query("people", {"type": "group", "find": text}) if len(names) > max_hits else ""
    return HitGroup("groups", "Groups", hits, more_url)


def _plans(text: str, max_hits: int) -> HitGroup:
    condition, (word, _, number) = Q(title__icontains=text), text.lower().partition(" ")
    if word == "plan" and number.isascii() and number.isdigit() and len(number) < 10:
        condition |= Q(pk=int(number))
    rows = list(Plan.objects.filter(condition).order_by("-pk")[: max_hits + 1])
    hits = [
        SearchHit(row.title, plan_url(row), "plans", f"plan {row.pk}, {row.state}") for row in rows[:max_hits]
    ]
    return HitGroup("plans", "Plans", hits, reverse("plans") if len(rows) > max_hits else "")


def _reports(text: str, max_hits: int) -> HitGroup:
    """Return the newest finished run of each analysis that matches."""
    if not any(_matches(text, f"{analysis.title} {name}") for name, analysis in ANALYSES.items()):
        return HitGroup("reports", "Reports", [])
    runs = [run for run in latest_finished_runs() if _matches(text, f"{ANALYSES[run.type].title} {run.type}")]
    return HitGroup(
        "reports",
        "Reports",
        [
            SearchHit(
                ANALYSES[run.type].title,
                reverse("analysis", args=[run.pk]),
                "analyses",
                f"run {run.pk}, {run.state}",
            )
            for run in runs[:max_hits]
        ],
    )


def _pages(user: User, text: str, max_hits: int) -> HitGroup:
    hits = [
        SearchHit(title, url, icon)
        for title, url, icon, words in _pages_of(user)
        if _matches(text, f"{title} {words}")
    ]
    return HitGroup("pages", "Pages", hits[:max_hits])


def _pages_of(user: User) -> Iterator[tuple[str, str, str, str]]:
    """Yield the (title, URL, icon, further words) of each page that the account can open."""
    for item in NAV_ITEMS:
        if item.is_for(user):
            yield item.title, reverse(item.url_name), item.icon, ""
    for entry in PAGE_ENTRIES:
        if not entry.capabilities or user.can(*entry.capabilities):
            yield entry.title, reverse(entry.url_name), "console", entry.words


def _matches(text: str, words: str) -> bool:
    """Return whether each word of the text is the beginning of one of `words`."""
    known = words.lower().replace("-", " ").split()
    return all(
        any(word.startswith(start) for word in known) for start in text.lower().replace("-", " ").split()
    )
