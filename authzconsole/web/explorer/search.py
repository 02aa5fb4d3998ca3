"""The search page, which also finds people, groups, plans, reports and pages and starts actions, and suggestions for form
fields with addresses and principals.

Ordinary accounts find only the pages that they can open, and the actions that they can start on what they see; names of
people, plans and reports are not disclosed to them.
"""

from collections.abc import Callable
from typing import Any

from django.contrib.auth.models import Group
from django.db.models import Q, QuerySet
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.views.decorators.http import require_safe

from analytics.analyses import ANALYSES, Analysis
from analytics.models import AnalysisRun
from analytics.runs.selectors import latest_finished_runs
from authzconsole.web.page_registry import ACTIONS, PAGES, Action, Target
from authzconsole.web.plans.plan_pages import plan_url
from authzconsole.web.shared.entity_search import parse_search, search_visible_entities
from authzconsole.web.shared.guard import capability_required
from authzconsole.web.shared.links import address_url, principal_url
from authzconsole.web.shared.paging import url_with_query
from authzconsole.web.shared.parameters import text_parameter
from authzconsole.web.shared.rendering import render_page, requested_section
from entities.address import Address, address_or_none, parse_grantable
from entities.frozen import frozen
from entities.vocabulary import KINDS
from grants.authority.rights import can_change_some_grants
from grants.models import PRINCIPAL_TYPES, Plan, User
from grants.policies.principals import group_text, principal_text, type_and_name
from grants.querysets import groups_of
from grants.roles.capabilities import Capability

# shorter texts match too much to be useful
MIN_CHARACTERS = 2


@frozen
class SearchHit:
    """One result.

    note: a short text after the title. icon: the name of its icon. fill: the text that a search field with scripts gets
    in place of opening the URL; empty to open it.
    """

    title: str
    url: str
    icon: str
    note: str = ""
    fill: str = ""


@frozen
class HitGroup:
    """The results of one type. more_url: the list with all results of the type; empty if all are shown."""

    name: str
    title: str
    hits: list[SearchHit]
    more_url: str = ""


def console_hits(user: User, text: str, max_hits: int) -> list[HitGroup]:
    """Return the results by type, without the types that have none, with at most `max_hits` each.

    Runs at most four queries for an account that sees everything, otherwise none.
    """
    prefix, colon, _ = text.partition(":")
    only, name = type_and_name(text)
    only = only if only in PRINCIPAL_TYPES else ""
    if len(text) < MIN_CHARACTERS:
        return []
    if colon and prefix.lower() in KINDS:
        return _patterns(text) if user.can_see_all else []
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


def action_hits(user: User, text: str, max_hits: int) -> HitGroup:
    """Return the actions that the text starts with its targets, or could start; all actions for an empty text.

    Runs the queries of `search_visible_entities` and one for each of `max_hits` entities, or one query for users and groups,
    for each action of which the text has the verb and a target.
    """
    hits = []
    for action in (action for action in ACTIONS if action.is_for(user)):
        target = action.target_text(text)
        if target:
            hits += [
                SearchHit(
                    action.title.format(name.removeprefix("user:")), _action_url(action, name), "chevron"
                )
                for name in _action_targets(user, action, target, max_hits)
            ]
        elif (target == "" or action.is_begun_by(text)) and (
            action.target is not Target.GRANTABLE or user.can_administer
        ):
            hits.append(_start_hit(action))
    return HitGroup("actions", "Actions", hits)


def _start_hit(action: Action) -> SearchHit:
    urls = {Target.USER: reverse("people"), Target.GROUP: url_with_query("people", {"type": "group"})}
    url = urls.get(action.target, reverse("explorer"))
    return SearchHit(
        action.title.format("…"),
        reverse("grant-target") if action.url_name == "grant" else url,
        "chevron",
        f"{action.verbs[0]} {action.target.value}",
        f"{action.verbs[0]} ",
    )


def _action_url(action: Action, target: str) -> str:
    if action.parameter:
        return url_with_query(action.url_name, {action.parameter: target})
    is_entity = action.target in (Target.ENTITY, Target.GRANTABLE)
    return (address_url if is_entity else principal_url)(action.url_name, target)


def _action_targets(user: User, action: Action, text: str, max_hits: int) -> list[str]:
    """Return the best matching addresses, or users or groups, that the account may see and do this with."""
    if action.target in (Target.USER, Target.GROUP):
        type_ = action.target.name.lower()
        name = text.removeprefix(f"{type_}:")
        return _matching_principals(user, {type_}, name)[:max_hits] if user.can_see_all else []
    is_limited = action.target is Target.GRANTABLE
    if is_limited and user.can_administer and (pattern := _pattern(text)):
        return [str(pattern)]
    rows = search_visible_entities(user, text, max_hits).rows
    return [str(row) for row in rows if not is_limited or can_change_some_grants(user, row)]


def _pattern(text: str) -> Address | None:
    """Return the pattern; None if the text is none."""
    address = address_or_none(text.strip(), parse_grantable)
    return address if address and address.is_pattern else None


def _patterns(text: str) -> list[HitGroup]:
    """Return the page of a pattern, which no list of entities contains."""
    if (pattern := _pattern(text)) is None:
        return []
    hit = SearchHit(str(pattern), address_url("entity", pattern), "entity", "what it matches, and its grants")
    return [HitGroup("patterns", "Patterns", [hit])]


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
        lambda row: SearchHit(row.name, principal_url("person", group_text(row.name)), "group"),
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
    """Return the newest finished run of each analysis that matches, or the page that starts one."""
    found = [
        analysis
        for analysis in ANALYSES.values()
        if _matches(text, f"{analysis.title} {analysis.name} {analysis.words}")
    ]
    runs = {run.type: run for run in latest_finished_runs()} if found else {}
    return HitGroup(
        "reports",
        "Reports",
        [_report_hit(analysis, runs.get(analysis.name)) for analysis in found[:max_hits]],
    )


def _report_hit(analysis: Analysis, run: AnalysisRun | None) -> SearchHit:
    if run is None:
        return SearchHit(analysis.title, reverse("analyses"), "analyses", "not analyzed yet")
    return SearchHit(
        analysis.title, reverse("analysis", args=[run.pk]), "analyses", f"run {run.pk}, {run.state}"
    )


def _pages(user: User, text: str, max_hits: int) -> HitGroup:
    hits = [
        SearchHit(page.title, reverse(page.url_name), page.icon)
        for page in PAGES
        if page.is_for(user) and _matches(text, f"{page.title} {page.words}")
    ]
    return HitGroup("pages", "Pages", hits[:max_hits])


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


@frozen
class SuggestionList:
    """The suggestion list of a search field.

    field: query parameter with the text. kind: the only kind that the field accepts, or empty.
    opens: whether selecting a suggestion opens its page instead of filling the field. takes_patterns: whether the field accepts
    patterns.
    """

    field: str
    kind: str = ""
    opens: bool = False
    takes_patterns: bool = False


# by the id of the list in the page; other lists suggest addresses of every kind
SUGGESTION_LISTS = {
    "search-suggestions": SuggestionList("q", opens=True),
    "grant-target-entity-suggestions": SuggestionList("entity", takes_patterns=True),
    "review-namespace-suggestions": SuggestionList("namespace", "namespace"),
    "id_without-suggestions": SuggestionList("without", "namespace"),
    "ask-artifact-suggestions": SuggestionList("artifact", "artifact"),
    "ask-dataset_type-suggestions": SuggestionList("dataset_type", "dataset_type"),
    "ask-owner-suggestions": SuggestionList("owner", "kerberosprincipal"),
}


@require_safe
def search_page(request: HttpRequest) -> HttpResponse:
    """Render the search results as a page, or the first of them as options of a suggestion list."""
    suggestion_list = _requested_list(request)
    text = text_parameter(request, suggestion_list.field if suggestion_list else "q")
    groups, actions = [], None
    if suggestion_list is None or suggestion_list.opens:
        actions = action_hits(request.user, text, MAX_HITS_LISTED)
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
            "is_pattern": suggestion_list and suggestion_list.takes_patterns and _pattern(text),
            "actions": actions if actions and actions.hits else None,
            "groups": groups,
            "total_found": len(result.rows)
            + sum(len(group.hits) for group in (*groups, *filter(None, [actions]))),
            "is_cut": result.total > len(result.rows) or not result.is_all,
        },
    )


def _requested_list(request: HttpRequest) -> SuggestionList | None:
    """Return the suggestion list that the request updates; None for a page. A field sends only its own value."""
    list_id = requested_section(request)
    if list_id in SUGGESTION_LISTS or not list_id.endswith("-suggestions"):
        return SUGGESTION_LISTS.get(list_id)
    return SuggestionList(next(iter(request.GET), ""))


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
    type_, name = type_and_name(text)
    has_type, only_type = type_ in PRINCIPAL_TYPES, NAME_FIELDS.get(field)
    types = {only_type} if only_type else {type_} if has_type else {"user", "group"}
    names = _matching_principals(request.user, types, name if has_type else text)
    options = [
        {"type": type_, "value": name if only_type else f"{kept}{principal_text(type_, name)}"}
        for type_, name in map(type_and_name, names)
    ]
    return render_page(
        request,
        "shared/forms/options.html",
        {"options": options, "searched": text, "list_id": requested_section(request)},
    )


def _has_several(field: str) -> bool:
    """Return whether a form field takes several principals, separated by commas."""
    return field == "stranded_to" or field.startswith(HEIR_FIELD_PREFIXES)


def _matching_principals(account: User, types: set[str], text: str) -> list[str]:
    """Return the written names of users, and of the groups that the account may list."""
    users = (
        User.objects.filter(username__icontains=text).order_by("username")
        if "user" in types
        else User.objects.none()
    )
    listed = Group.objects.order_by("name") if account.can_see_all else groups_of(account)
    groups = listed.filter(name__icontains=text) if "group" in types else Group.objects.none()
    result = [f"user:{name}" for name in users.values_list("username", flat=True)[:MAX_OPTIONS]]
    return result + [group_text(name) for name in groups.values_list("name", flat=True)[:MAX_OPTIONS]]
