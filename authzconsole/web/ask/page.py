"""A question from anywhere, and its whole answer: who, what, where, and by which generation."""


from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.views.decorators.http import require_safe

from authzconsole.web.ask.questions import ask_section, question_input
from authzconsole.web.shared.entity_search import SearchResult, search_visible_entities
from authzconsole.web.shared.links import address_link_to
from authzconsole.web.shared.paging import url_with, url_with_query
from authzconsole.web.shared.parameters import text_parameter
from authzconsole.web.shared.rendering import render_page, requested_section, see_other
from entities.address import AddressError, parse_address
from entities.models import Entity
from entities.selectors import entity_at
from entities.vocabulary import KINDS, Privilege, clip
from grants.active_generation import active_generation
from grants.evaluation.entity_filters import can_see
from grants.policies.catalogue import GENERATIONS
from grants.policies.policy import Generation

MOST_OFFERED = 8


@require_safe
def ask(request: HttpRequest) -> HttpResponse:
    text, generation = text_parameter(request, "entity"), active_generation()
    entity, fault = _chosen(request, text, generation)
    found = search_visible_entities(request.user, text, MOST_OFFERED) if fault else None
    if found and (meant := _called_so(found, text)):
        return see_other(url_with(request, entity=meant))
    operation_fault = _operation_fault(entity.kind, text_parameter(request, "operation")) if entity else ""
    section = ask_section(request, entity, generation, whole=True) if entity and not operation_fault else None
    is_part = requested_section(request) == "ask"
    return render_page(request, "ask/_ask.html" if is_part else "ask/page.html", {
        "ask": section or _unanswered(request, generation, fault, operation_fault),
        "is_part": is_part, "asked": text, "entity": entity,
        "address_link": address_link_to(entity, linked=True) if entity else None, "can_change": request.user.can_administer,
        "operations": KINDS[entity.kind].operations if entity else _all_operations(),
        "offered": [(row, _about(request, row)) for row in found.rows] if found else [],
        "generations": list(GENERATIONS), "url": reverse("ask"),
    })


def _unanswered(request: HttpRequest, generation: Generation, entity_fault: str, operation_fault: str) -> dict:
    """The form alone, as it was filled in."""
    given = question_input(request)
    chosen = given["generation"] if given["generation"] in GENERATIONS else generation.name
    return {"subject": given["subject"], "subject_is_fixed": not request.user.can_see_all, "operation": given["operation"],
            "privileges": list(Privilege), "generation": chosen, "active": generation.name,
            "fault": entity_fault or operation_fault, "faulty": "entity" if entity_fault else operation_fault and "operation"}


def _all_operations() -> list[str]:
    return sorted({operation for kind in KINDS.values() for operation in kind.operations})


def _chosen(request: HttpRequest, text: str, generation: Generation) -> tuple[Entity | None, str]:
    """The entity of that address, or what is wrong with it; neither for an empty text."""
    if not text:
        return None, ""
    try:
        address = parse_address(text)
    except AddressError as error:
        return None, f"{error}."
    entity = entity_at(address)
    if entity is None or not (request.user.can_see_all or can_see(request.user, entity, generation)):
        return None, f"{address} is not registered{'' if request.user.can_see_all else ', or you do not see it'}."
    return entity, ""


def _called_so(found: SearchResult, text: str) -> Entity | None:
    """The one entity with exactly this key or name; None where there are more, or where not all were looked at."""
    # who writes a colon names a kind, and of that there is none
    meant = [row for row in found.rows if ":" not in text and text in (row.key, row.address.name)]
    return meant[0] if len(meant) == 1 and found.is_all else None


def _operation_fault(kind: str, operation: str) -> str:
    known = KINDS[kind]
    if not operation or operation in known.operations or operation in Privilege.__members__:
        return ""
    return f"`{clip(operation)}` is no operation of {known.plural}; there is {', '.join(known.operations) or 'none'}."


def _about(request: HttpRequest, entity: Entity) -> str:
    """The same question about that entity."""
    return url_with_query("ask", question_input(request) | {"entity": entity})
