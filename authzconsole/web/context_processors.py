"""Add the navigation items and the notices of the signed-in account to the context of every page."""

from dataclasses import dataclass

from django.conf import settings
from django.urls import reverse

from authzconsole.web.shared.links import entity_url
from entities.address import instance_address
from grants.models import BreakGlassUse, User
from grants.roles.capabilities import Capability


@dataclass(frozen=True, slots=True)
class NavItem:
    """An item of the main navigation. The page is current if its URL name starts with one of
    `url_name_prefixes`.

    capabilities: only accounts with one of them have the item; empty for every account. unless: accounts
    with one of these capabilities do not have the item.
    """

    title: str
    url_name: str
    icon: str
    url_name_prefixes: tuple[str, ...]
    capabilities: tuple[Capability, ...] = ()
    unless: tuple[Capability, ...] = ()

    def is_for(self, user: User) -> bool:
        """Return whether the account can open the page."""
        return not self.capabilities or (user.can(*self.capabilities) and not user.can(*self.unless))


MAX_BREAK_GLASS_USES = 3
ENTITY_URL_NAMES = ("entity", "explorer", "grant", "revoke", "stewards", "lifecycle", "search", "forecast")
# the items with a badge, and the pages that return it
COUNT_URL_NAMES = {"requests": "request-count", "reviews": "review-count"}
NAV_ITEMS = (
    NavItem("Overview", "home", "overview", ("home",)),
    NavItem("Explorer", "explorer", "namespace", ENTITY_URL_NAMES),
    NavItem("Ask", "ask", "ask", ("ask",)),
    NavItem("My access", "my-access", "securekey", ("my-access",)),
    NavItem(
        "Users and groups",
        "people",
        "group",
        ("people", "person", "membership", "account", "token", "limited"),
        (Capability.READ_ALL, Capability.READ_ACCOUNTS),
    ),
    NavItem("Requests", "requests", "requests", ("request",)),
    NavItem("Plans", "plans", "plans", ("plan",), (Capability.READ_ALL,)),
    NavItem("Reviews", "reviews", "reviews", ("review",)),
    NavItem("Policies", "policies", "policies", ("policies", "generation")),
    NavItem("Analyses", "analyses", "analyses", ("analys",), (Capability.READ_REPORTS,)),
    NavItem("Journal", "journal", "journal", ("journal",), (Capability.READ_JOURNAL,)),
    # accounts that can read the journal open it from there
    NavItem(
        "Security events",
        "journal-security-events",
        "journal",
        ("journal-security",),
        (Capability.READ_SECURITY_EVENTS,),
        (Capability.READ_JOURNAL,),
    ),
    NavItem("Status", "status", "status", ("status",), (Capability.READ_REPORTS,)),
)


def navigation(request):
    """Return `nav_items` and `break_glass_uses`; an empty context for a visitor who is not signed in."""
    if not getattr(request, "user", None) or not request.user.is_authenticated:
        return {}
    items = [item for item in NAV_ITEMS if item.is_for(request.user)]
    url_name = (request.resolver_match.url_name or "") if request.resolver_match else ""
    current = next((item for item in items if url_name.startswith(item.url_name_prefixes)), None)
    nav_items = [
        {
            "title": item.title,
            "url": _url(item, request.user),
            "icon": item.icon,
            "is_current": item is current,
            "count_url": reverse(COUNT_URL_NAMES[item.url_name]) if item.url_name in COUNT_URL_NAMES else "",
        }
        for item in items
    ]
    return {"nav_items": nav_items, "break_glass_uses": _break_glass_uses(request.user)}


def _break_glass_uses(user: User) -> list[BreakGlassUse]:
    """Return the newest uses of break-glass access that are active or need a review, for accounts that can
    read the journal.

    Runs no query without BREAK_GLASS_ACCOUNTS, otherwise one.
    """
    if not settings.BREAK_GLASS_ACCOUNTS or not user.can(Capability.READ_JOURNAL):
        return []
    return list(BreakGlassUse.objects.filter(reviewed_at=None).order_by("-started_at")[:MAX_BREAK_GLASS_USES])


def _url(item: NavItem, user) -> str:
    # ordinary accounts cannot open the page of the instance
    shows_instance = item.url_name == "explorer" and user.can_see_all
    return entity_url(instance_address()) if shows_instance else reverse(item.url_name)
