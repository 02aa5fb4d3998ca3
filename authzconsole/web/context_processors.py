"""Add the navigation items of the signed-in account to the context of every page."""

from dataclasses import dataclass

from django.urls import reverse

from authzconsole.web.shared.links import entity_url
from entities.address import instance_address


@dataclass(frozen=True, slots=True)
class NavItem:
    """An item of the main navigation. The page is current if its URL name starts with one of `url_name_prefixes`."""

    title: str
    url_name: str
    icon: str
    url_name_prefixes: tuple[str, ...]
    is_for_every_role: bool = True


ENTITY_URL_NAMES = ("entity", "explorer", "grant", "revoke", "lifecycle", "search", "forecast")
NAV_ITEMS = (
    NavItem("Overview", "home", "overview", ("home",)),
    NavItem("Explorer", "explorer", "namespace", ENTITY_URL_NAMES),
    NavItem("Ask", "ask", "ask", ("ask",)),
    NavItem("My access", "my-access", "securekey", ("my-access",)),
    NavItem("Users and groups", "people", "group", ("people", "person", "membership", "account", "token"),
            is_for_every_role=False),
    NavItem("Plans", "plans", "plans", ("plan",), is_for_every_role=False),
    NavItem("Policies", "policies", "policies", ("policies", "generation")),
    NavItem("Analyses", "analyses", "analyses", ("analys",), is_for_every_role=False),
    NavItem("Journal", "journal", "journal", ("journal",), is_for_every_role=False),
    NavItem("Status", "status", "check", ("status",), is_for_every_role=False),
)


def navigation(request):
    """Return `nav_items`; an empty context for a visitor who is not signed in."""
    if not getattr(request, "user", None) or not request.user.is_authenticated:
        return {}
    items = [item for item in NAV_ITEMS if item.is_for_every_role or request.user.can_see_all]
    url_name = (request.resolver_match.url_name or "") if request.resolver_match else ""
    current = next((item for item in items if url_name.startswith(item.url_name_prefixes)), None)
    return {"nav_items": [{"title": item.title, "url": _url(item, request.user), "icon": item.icon, "is_current": item is current}
                          for item in items]}


def _url(item: NavItem, user) -> str:
    # ordinary accounts cannot open the page of the instance
    shows_instance = item.url_name == "explorer" and user.can_see_all
    return entity_url(instance_address()) if shows_instance else reverse(item.url_name)
