"""A question from anywhere: who, what and where; the page of the entity then answers it."""

from urllib.parse import urlencode

from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_safe

from authzconsole.web.finding import found_by
from authzconsole.web.parameters import text_of
from authzconsole.web.places import entity_url
from authzconsole.web.rendering import render_page, see_other
from entities.address import AddressError, parse_address
from entities.models import Entity
from entities.selectors import entity_at
from entities.vocabulary import KINDS, Privilege, clip
from grants.active import active_generation
from grants.listing import may_see
from grants.policies.catalogue import GENERATIONS

FIELDS = ("subject", "operation", "generation")
MOST_OFFERED = 8


@require_safe
def ask(request: HttpRequest) -> HttpResponse:
    given = {name: text_of(request, name) for name in (*FIELDS, "entity")}
    entity, fault = _chosen(request, given["entity"])
    if entity is not None:
        fault = _operation_fault(entity.kind, given["operation"])
        if not fault:
            asked = urlencode({name: given[name] for name in FIELDS if given[name]}, safe=":")
            return see_other(f"{entity_url(entity)}{'?' if asked else ''}{asked}#ask")
    return render_page(request, "entities/question.html", {
        "given": given, "fault": fault, "offered": _offered(request, given) if fault and entity is None else [],
        "subject_is_fixed": not request.user.may_see_all, "privileges": list(Privilege),
        "operations": sorted({operation for kind in KINDS.values() for operation in kind.operations}),
        "generations": list(GENERATIONS), "chosen": given["generation"] or active_generation().name,
        "active": active_generation().name,
    })


def _chosen(request: HttpRequest, text: str) -> tuple[Entity | None, str]:
    """The entity of that address, or what is wrong with it; neither for an empty text."""
    if not text:
        return None, ""
    try:
        address = parse_address(text)
    except AddressError as error:
        return None, f"`{clip(text)}` is no address: {error}."
    entity = entity_at(address)
    if entity is None or not (request.user.may_see_all or may_see(request.user, entity, active_generation())):
        return None, f"{address} is not registered{'' if request.user.may_see_all else ', or you do not see it'}."
    return entity, ""


def _operation_fault(kind: str, operation: str) -> str:
    known = KINDS[kind]
    if not operation or operation in known.operations or operation in Privilege.__members__:
        return ""
    return f"`{clip(operation)}` is no operation of {known.plural}; there is {', '.join(known.operations) or 'none'}."


def _offered(request: HttpRequest, given: dict) -> list[tuple[str, str]]:
    """Addresses that hold the text, each with the URL of the same question about it; first those that are it but for the
    kind."""
    found = found_by(request.user, given["entity"])
    rows = [*found.filter(kind__in=KINDS, key=given["entity"])[:MOST_OFFERED], *found[:MOST_OFFERED]]
    addresses = list(dict.fromkeys(map(str, rows)))[:MOST_OFFERED]
    return [(address, f"{request.path}?{urlencode(given | {'entity': address}, safe=':')}") for address in addresses]
