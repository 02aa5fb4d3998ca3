"""Add the navigation items and the notices of the signed-in account to the context of every page."""

from django.conf import settings
from django.urls import reverse

from authzconsole.web.page_registry import PAGES, Destination
from authzconsole.web.shared.links import entity_url
from entities.address import instance_address
from grants.models import BreakGlassUse, User
from grants.roles.capabilities import Capability

MAX_BREAK_GLASS_USES = 3


def navigation(request):
    """Return `nav_items` and `break_glass_uses`; an empty context for a visitor who is not signed in."""
    if not getattr(request, "user", None) or not request.user.is_authenticated:
        return {}
    items = [page for page in PAGES if page.is_in_navigation_of(request.user)]
    url_name = (request.resolver_match.url_name or "") if request.resolver_match else ""
    current = next((item for item in items if url_name.startswith(item.url_name_prefixes)), None)
    nav_items = [
        {
            "title": item.title,
            "url": _url(item, request.user),
            "icon": item.icon,
            "is_current": item is current,
            "count_url": reverse(item.count_url_name) if item.count_url_name else "",
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


def _url(item: Destination, user: User) -> str:
    # ordinary accounts cannot open the page of the instance
    shows_instance = item.url_name == "explorer" and user.can_see_all
    return entity_url(instance_address()) if shows_instance else reverse(item.url_name)
