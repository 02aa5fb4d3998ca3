"""The search page, which also finds people, groups, plans, reports and pages, and suggestions for form fields with addresses
and principals.

Ordinary accounts find only the pages that they can open; names of people, plans and reports are not disclosed
to them.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from django.contrib.auth.models import Group
from django.db.models import Q, QuerySet
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.views.decorators.http import require_safe

from analytics.analyses import ANALYSES
from analytics.runs.selectors import latest_finished_runs
from authzconsole.web.context_processors import NAV_ITEMS
from authzconsole.web.plans.plan_pages import plan_url
from authzconsole.web.shared.entity_search import parse_search, search_visible_entities
from authzconsole.web.shared.guard import capability_required
from authzconsole.web.shared.links import principal_url
from authzconsole.web.shared.paging import url_with_query
from authzconsole.web.shared.parameters import text_parameter
from authzconsole.web.shared.rendering import render_page, requested_section
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


def _first_hits(
    name: str, title: str, rows: QuerySet, hit: Callable[[Any], SearchHit], max_hits: int, more_url: str
) -> HitGroup:
    """Return the first rows as results. hit: returns the result of a row. more_url: used if there are more rows."""
    found = list(rows[: max_hits + 1])
    return HitGroup(
        name, title, [hit(row) for row in found[:max_hits]], more_url if len(found) > max_hits else ""
    )


def _people(text: str, max_hits: int) -> HitGroup:
    condition = Q(username__icontains=text) | Q(email__icontains=text)
    for word in text.split():
        condition |= Q(first_name__icontains=word) | Q(last_name__icontains=word)
    return _first_hits(
        "people",
        "People",
        User.objects.filter(condition).order_by("username"),
        lambda row: SearchHit(
            row.username,
            principal_url("person", f"user:{row.username}"),
            "user",
            row.get_full_name() or ("" if row.is_active else "inactive"),
        ),
        max_hits,
        url_with_query("people", {"find": text}),
    )


def _groups(text: str, max_hits: int) -> HitGroup:
    return _first_hits(
        "groups",
        "Groups",
        Group.objects.filter(name__icontains=text).order_by("name"),
        lambda row: SearchHit(row.name, principal_url("person", f"group:{row.name}"), "group"),
        max_hits,
        url_with_query("people", {"type": "group", "find": text}),
    )


def _plans(text: str, max_hits: int) -> HitGroup:
    condition, (word, _, number) = Q(title__icontains=text), text.lower().partition(" ")
    if word == "plan" and number.isascii() and number.isdigit() and len(number) < 10:
        condition |= Q(pk=int(number))
    return _first_hits(
        "plans",
        "Plans",
        Plan.objects.filter(condition).order_by("-pk"),
        lambda row: SearchHit(row.title, plan_url(row), "plans", f"plan {row.pk}, {row.state}"),
        max_hits,
        reverse("plans"),
    )


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


MAX_RESULTS_LISTED = 8
# results of each other type: in the suggestion list, and on the page
MAX_HITS_LISTED, MAX_HITS_SHOWN = 3, 10
# if there are also results of other types
MAX_ENTITIES_LISTED = 5
MAX_OPTIONS = 10
# form fields that take `user:NAME` or `group:NAME`
PRINCIPAL_FIELDS = ("principal", "subject", "creator", "source", "target")
# form fields for several principals, separated by commas; their names go on with an address
HEIR_FIELD_PREFIXES = ("entity-", "inside-")
# form fields that take the name of one type of principal
NAME_FIELDS = {
    "deleter": "user",
    "user": "user",
    "owner": "user",
    "one": "user",
    "other": "user",
    "like": "user",
    "group": "group",
}


@dataclass(frozen=True, slots=True)
class SuggestionList:
    """The suggestion list of a search field.

    field: query parameter with the text. kind: the only kind that the field accepts, or empty.
    opens: whether selecting a suggestion opens its page instead of filling the field.
    """

    field: str
    kind: str = ""
    opens: bool = False


# by the id of the list in the page
SUGGESTION_LISTS = {
    "search-suggestions": SuggestionList("q", opens=True),
    "entity-suggestions": SuggestionList("entity"),
    "review-namespace-suggestions": SuggestionList("namespace", "namespace"),
    "ask-artifact-suggestions": SuggestionList("artifact", "artifact"),
    "ask-dataset_type-suggestions": SuggestionList("dataset_type", "dataset_type"),
    "ask-owner-suggestions": SuggestionList("owner", "kerberosprincipal"),
}


@require_safe
def search_page(request: HttpRequest) -> HttpResponse:
    """Render the search results as a page, or the first of them as options of a suggestion list."""
    suggestion_list = SUGGESTION_LISTS.get(requested_section(request))
    text = text_parameter(request, suggestion_list.field if suggestion_list else "q")
    groups = []
    if suggestion_list is None or suggestion_list.opens:
        groups = console_hits(request.user, text, MAX_HITS_LISTED if suggestion_list else MAX_HITS_SHOWN)
    max_listed = MAX_ENTITIES_LISTED if groups else MAX_RESULTS_LISTED
    result = (
        search_visible_entities(request.user, text, max_listed, only=suggestion_list.kind)
        if suggestion_list
        else search_visible_entities(request.user, text)
    )
    return render_page(
        request,
        "shared/forms/search_results.html" if suggestion_list else "explorer/search.html",
        {
            "searched": text,
            "result": result,
            "rows": result.rows,
            "suggestion_list": suggestion_list,
            "list_id": requested_section(request),
            "is_short": parse_search(text).is_short,
            "groups": groups,
            "total_found": len(result.rows) + sum(len(group.hits) for group in groups),
            "is_cut": result.total > len(result.rows) or not result.is_all,
        },
    )


@require_safe
@capability_required(Capability.READ_ALL, Capability.READ_ACCOUNTS)
def suggest_principals(request: HttpRequest) -> HttpResponse:
    """Render the options of a principal field. Ordinary accounts get 404, because they may not list names."""
    field = next(
        (
            name
            for name in request.GET
            if name in PRINCIPAL_FIELDS or name in NAME_FIELDS or _has_several(name)
        ),
        "",
    )
    text, kept = text_parameter(request, field, max_characters=1_000), ""
    if _has_several(field) and "," in text:
        kept, _, text = text.rpartition(",")
        kept, text = f"{kept}, ", text.lstrip()
    text = text[:150]
    type_, colon, name = text.partition(":")
    has_type, only_type = bool(colon) and type_ in ("user", "group"), NAME_FIELDS.get(field)
    types = {only_type} if only_type else {type_} if has_type else {"user", "group"}
    names = _matching_principals(types, name if has_type else f"{type_}{colon}{name}")
    options = [
        {"type": name.partition(":")[0], "value": name.partition(":")[2] if only_type else f"{kept}{name}"}
        for name in names
    ]
    return render_page(
        request,
        "shared/forms/options.html",
        {"options": options, "searched": text, "list_id": requested_section(request)},
    )


def _has_several(field: str) -> bool:
    """Return whether a form field takes several principals, separated by commas."""
    return field == "stranded_to" or field.startswith(HEIR_FIELD_PREFIXES)


def _matching_principals(types: set[str], text: str) -> list[str]:
    users = (
        User.objects.filter(username__icontains=text).order_by("username")
        if "user" in types
        else User.objects.none()
    )
    groups = (
        Group.objects.filter(name__icontains=text).order_by("name")
        if "group" in types
        else Group.objects.none()
    )
    result = [f"user:{name}" for name in users.values_list("username", flat=True)[:MAX_OPTIONS]]
    return result + [f"group:{name}" for name in groups.values_list("name", flat=True)[:MAX_OPTIONS]]
