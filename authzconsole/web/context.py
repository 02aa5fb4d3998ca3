"""What every page needs to know about the console: the rooms that this account may enter."""

from dataclasses import dataclass

from django.urls import reverse


@dataclass(frozen=True, slots=True)
class Room:
    """One entry of the navigation. pages: the beginnings of the URL names that belong to it."""

    title: str
    url_name: str
    mark: str
    pages: tuple[str, ...]
    is_for_everybody: bool = True


ROOMS = (
    Room("Overview", "home", "namespace", ("home", "entity", "grant", "revoke", "lifecycle", "search", "forecast")),
    Room("My access", "my-access", "securekey", ("my-access",)),
    Room("People", "people", "group", ("people", "person", "membership"), is_for_everybody=False),
    Room("Plans", "plans", "plans", ("plan",), is_for_everybody=False),
    Room("Policies", "policies", "policies", ("policies", "generation")),
    Room("Analyses", "analyses", "analyses", ("analys",), is_for_everybody=False),
    Room("Journal", "journal", "journal", ("journal",), is_for_everybody=False),
    Room("Accounts", "accounts", "user", ("account", "token"), is_for_everybody=False),
)


def console(request):
    if not getattr(request, "user", None) or not request.user.is_authenticated:
        return {}
    return {"rooms": [_shown(room, request) for room in ROOMS if room.is_for_everybody or request.user.may_see_all]}


def _shown(room: Room, request) -> dict:
    match = request.resolver_match
    is_current = match is not None and (match.url_name or "").startswith(room.pages)
    return {"title": room.title, "url": reverse(room.url_name), "mark": room.mark, "is_current": is_current}
