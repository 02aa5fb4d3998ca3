"""What every page needs to know about the console: the rooms that this account may enter."""

from dataclasses import dataclass

from django.urls import reverse

from authzconsole.web.shared.links import entity_url
from entities.address import instance_address


@dataclass(frozen=True, slots=True)
class NavItem:
    """One entry of the navigation. pages: the beginnings of the URL names that belong to it."""

    title: str
    url_name: str
    mark: str
    pages: tuple[str, ...]
    is_for_everybody: bool = True


OF_ENTITIES = ("entity", "explorer", "grant", "revoke", "lifecycle", "search", "forecast")
ROOMS = (
    NavItem("Overview", "home", "overview", ("home",)),
    NavItem("Explorer", "explorer", "namespace", OF_ENTITIES),
    NavItem("Ask", "ask", "ask", ("ask",)),
    NavItem("My access", "my-access", "securekey", ("my-access",)),
    NavItem("People", "people", "group", ("people", "person", "membership"), is_for_everybody=False),
    NavItem("Plans", "plans", "plans", ("plan",), is_for_everybody=False),
    NavItem("Policies", "policies", "policies", ("policies", "generation")),
    NavItem("Analyses", "analyses", "analyses", ("analys",), is_for_everybody=False),
    NavItem("Journal", "journal", "journal", ("journal",), is_for_everybody=False),
    NavItem("Accounts", "accounts", "user", ("account", "token"), is_for_everybody=False),
)


def console(request):
    if not getattr(request, "user", None) or not request.user.is_authenticated:
        return {}
    rooms = [room for room in ROOMS if room.is_for_everybody or request.user.may_see_all]
    name = (request.resolver_match.url_name or "") if request.resolver_match else ""
    current = next((room for room in rooms if name.startswith(room.pages)), None)
    return {"rooms": [{"title": room.title, "url": _url(room, request.user), "mark": room.mark, "is_current": room is current}
                      for room in rooms]}


def _url(room: NavItem, user) -> str:
    # an ordinary account does not see the instance itself
    return entity_url(instance_address()) if room.url_name == "explorer" and user.may_see_all else reverse(room.url_name)
