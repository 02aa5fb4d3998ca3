"""The Explorer: the tree of entities.

Wide windows display it next to an entity; in narrow windows it is a separate page.
"""

from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_safe

from authzconsole.web.explorer.tree import Level, Tree, TreeFilter
from authzconsole.web.shared.guard import address_or_404, entity_or_404
from authzconsole.web.shared.parameters import choice_parameter, name_parameter, text_parameter
from authzconsole.web.shared.rendering import render_page, requested_section
from entities.address import instance_address
from entities.models import Entity, State
from entities.selectors import entity_at
from entities.vocabulary import KINDS
from grants.active_generation import active_generation


@require_safe
def explorer(request: HttpRequest) -> HttpResponse:
    """Render the tree, expanded down to the entity in the query parameter `at`."""
    at, tree = _container(request, "at"), _tree(request)
    is_section = requested_section(request) == "explorer"
    return render_page(
        request,
        "explorer/_tree.html" if is_section else "explorer/page.html",
        {
            "tree": Level([tree.root(at)]),
            "at": at,
            "tree_filter": tree.tree_filter,
            "is_page": not is_section or _is_page(request),
            "kinds": [kind for kind in KINDS.values() if kind.parent],
            "states": State.values,
            "url": request.path,
        },
    )


@require_safe
def explorer_inside(request: HttpRequest) -> HttpResponse:
    """Render the children of an entity, of one kind or of all kinds, as tree rows that htmx inserts."""
    container, tree, kind = _container(request, "in"), _tree(request), choice_parameter(request, "of", KINDS)
    cursors = {name: name_parameter(request, name) for name in ("after", "before")}
    level = tree.entities(container, kind, **cursors) if kind else tree.inside(container)
    return render_page(request, "explorer/_level.html", {"level": level})


def _is_page(request: HttpRequest) -> bool:
    """Return whether htmx reloads the tree on the Explorer page.

    Only the URL of this page contains the filter.
    """
    return (request.htmx.current_url_abs_path or "").partition("?")[0] == request.path


def _tree(request: HttpRequest) -> Tree:
    tree_filter = TreeFilter(
        choice_parameter(request, "kind", KINDS), choice_parameter(request, "state", State.values)
    )
    return Tree(request, active_generation(), tree_filter)


def _container(request: HttpRequest, name: str) -> Entity:
    """Return the entity in the URL, by default the instance.

    The instance is never 404: for an account without visible entities its tree is empty.
    """
    address = address_or_404(text_parameter(request, name) or str(instance_address()))
    root = entity_at(address) if address == instance_address() else None
    return root or entity_or_404(request, str(address))
