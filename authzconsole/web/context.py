"""What every page needs to know about the console: the rooms that this account may enter."""

from dataclasses import dataclass

from django.urls import reverse

from authzconsole.web.places import entity_url
from entities.address import instance_address


@dataclass(frozen=True, slots=True)
class Room:
    """One entry of the navigation. pages: the beginnings of the URL names that belong to it."""

    title: str
    url_name: str
    mark: str
    pages: tuple[str, ...]
    is_for_everybody: bool = True


OF_ENTITIES = ("entity", "explorer", "grant", "revoke", "lifecycle", "search", "forecast")
ROOMS = (
    Room("Overview", "home", "overview", ("home",)),
    Room("Explorer", "explorer", "namespace", OF_ENTITIES),
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
    current = next((room for room in rooms if name.startswith(room.pages)), None)
    return {"rooms": [{"title": room.title, "url": _url(room, request.user), "mark": room.mark, "is_current": room is current}
                      for room in rooms]}


def _url(room: Room, user) -> str:
    # an ordinary account does not see the instance itself
    return entity_url(instance_address()) if room.url_name == "explorer" and user.may_see_all else reverse(room.url_name)
