"""The tree of the hierarchy: beside the page of an entity, and as a page where there is no room beside it."""

from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_safe

from authzconsole.web.explorer.tree import Level, Narrowing, Tree
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
    """Open as far as the entity that the URL names as `at`."""
    at, tree = _container(request, "at"), _tree_of(request)
    is_part = requested_section(request) == "explorer"
    return render_page(request, "explorer/_tree.html" if is_part else "explorer/page.html", {
        "tree": Level([tree.root(at)]), "at": at, "narrowing": tree.narrowing, "is_page": not is_part or _is_page(request),
        "kinds": [kind for kind in KINDS.values() if kind.parent], "states": State.values, "url": request.path,
    })


@require_safe
def explorer_inside(request: HttpRequest) -> HttpResponse:
    """What lies in one entity, all kinds or one, as further lines of the tree."""
    container, tree, kind = _container(request, "in"), _tree_of(request), choice_parameter(request, "of", KINDS)
    beyond = {name: name_parameter(request, name) for name in ("after", "before")}
    level = tree.entities(container, kind, **beyond) if kind else tree.inside(container)
    return render_page(request, "explorer/_level.html", {"level": level})


def _is_page(request: HttpRequest) -> bool:
    """Whether the tree that is asked for anew is the page itself, whose address then says what it is narrowed to."""
    return (request.htmx.current_url_abs_path or "").partition("?")[0] == request.path


def _tree_of(request: HttpRequest) -> Tree:
    narrowing = Narrowing(choice_parameter(request, "kind", KINDS), choice_parameter(request, "state", State.values))
    return Tree(request, active_generation(), narrowing)


def _container(request: HttpRequest, name: str) -> Entity:
    """The entity that the URL names, the instance where it names none. Whoever sees nothing of it finds it empty."""
    address = address_or_404(text_parameter(request, name) or str(instance_address()))
    root = entity_at(address) if address == instance_address() else None
    return root or entity_or_404(request, str(address))
