"""What every page needs to know about the console: the rooms that this account may enter."""

from dataclasses import dataclass

from django.urls import reverse

from authzconsole.web.places import entity_url
from entities.address import instance_address


@dataclass(frozen=True, slots=True)
class Room:
    """One entry of the navigation. pages: the beginnings of the URL names that belong to it. url_name: empty for the root of
    all entities."""

    title: str
    url_name: str
    mark: str
    pages: tuple[str, ...]
    is_for_everybody: bool = True


OF_ENTITIES = ("entity", "explorer", "grant", "revoke", "lifecycle", "search", "forecast")
ROOMS = (
    Room("Overview", "home", "overview", ("home", *OF_ENTITIES)),
    Room("Explorer", "", "namespace", OF_ENTITIES, is_for_everybody=False),
    Room("Ask", "ask", "ask", ("ask",)),
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
    rooms = [room for room in ROOMS if room.is_for_everybody or request.user.may_see_all]
    name = (request.resolver_match.url_name or "") if request.resolver_match else ""
    # the last one: the pages of entities are the overview's for whom there is no explorer
    current = next((room for room in reversed(rooms) if name.startswith(room.pages)), None)
    return {"rooms": [_shown(room, room is current) for room in rooms]}


def _shown(room: Room, is_current: bool) -> dict:
    url = reverse(room.url_name) if room.url_name else entity_url(instance_address())
    return {"title": room.title, "url": url, "mark": room.mark, "is_current": is_current}
