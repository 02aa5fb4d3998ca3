"""The tabs of the page of an entity. Each tab has a URL and contains some sections of the page."""

from dataclasses import dataclass

from django.http import HttpRequest

from authzconsole.web.ask.questions import FIELDS
from authzconsole.web.entities.access import PARAMETERS
from authzconsole.web.shared.paging import url_with
from entities.models import Entity
from entities.vocabulary import child_kinds
from grants.authority.rights import can_read_history


@dataclass(frozen=True, slots=True)
class Tab:
    """A tab. name: value of the query parameter `tab`, and its template `entities/tabs/<name>.html`.

    sections: ids of the sections in it. parameters: query parameters of its forms. They select the tab if the
    URL does not name one, so that forms work without scripts and links do not need to name the tab.
    """

    name: str
    title: str
    sections: tuple[str, ...]
    parameters: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class TabLink:
    """The link to a tab.

    It keeps the other query parameters, so that a tab keeps its filters and its question.
    """

    name: str
    title: str
    url: str
    is_current: bool


INSIDE = Tab("inside", "Inside", ("children",))
ACCESS = Tab(
    "access", "Access", ("access", "holders", "stewards"), ("holder", "order", "holders", *PARAMETERS)
)
ASK = Tab("ask", "Ask", ("ask", "readiness"), (*FIELDS, "deleter"))
HISTORY = Tab("history", "History", ("history",))


def tabs_of(request: HttpRequest, entity: Entity) -> list[Tab]:
    """Return the tabs of an entity: Inside only if it can have children, History only if the account can read
    its lines.
    """
    inside = [INSIDE] if child_kinds(entity.kind) else []
    return [*inside, ACCESS, ASK, *([HISTORY] if can_read_history(request.user, entity) else [])]


def current_tab(request: HttpRequest, tabs: list[Tab]) -> Tab:
    """Return the tab that the URL names, or else the last one that its parameters belong to, or else the
    first.

    The last tab is preferred because a question is the most specific: the URL of a question may also contain
    a page of holders.
    """
    by_name = {tab.name: tab for tab in tabs}
    if (name := request.GET.get("tab", "")) in by_name:
        return by_name[name]
    return next(
        (tab for tab in reversed(tabs) if any(parameter in request.GET for parameter in tab.parameters)),
        tabs[0],
    )


def tab_links(request: HttpRequest, tabs: list[Tab], current: Tab) -> list[TabLink]:
    return [TabLink(tab.name, tab.title, url_with(request, tab=tab.name), tab is current) for tab in tabs]
