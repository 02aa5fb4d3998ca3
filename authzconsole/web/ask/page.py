"""The Ask page: a form for a question about any entity, and the answer in every generation."""

from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.views.decorators.http import require_safe

from authzconsole.web.ask.questions import ask_section, form_context, question_input
from authzconsole.web.shared.entity_search import SearchResult, search_visible_entities
from authzconsole.web.shared.guard import visible_entity_at
from authzconsole.web.shared.levels import operations_in_groups
from authzconsole.web.shared.paging import url_with, url_with_query
from authzconsole.web.shared.parameters import text_parameter
from authzconsole.web.shared.past import shows_past, shows_time
from authzconsole.web.shared.rendering import render_page, requested_section, see_other
from entities.address import AddressError, address_or_none, parse_address
from entities.models import Entity, State
from entities.vocabulary import KINDS, Privilege, clip
from grants.active_generation import active_generation
from grants.evaluation.entity_filters import can_see
from grants.models import User, UserGrant
from grants.policies.catalogue import GENERATIONS
from grants.policies.policy import Generation
from grants.validity import in_force

MAX_SUGGESTIONS = 8


@require_safe
@shows_past(lambda: None)
@shows_time
def ask_page(request: HttpRequest) -> HttpResponse:
    """Answer the question in the URL.

    If the entity is given as a unique name, redirect to the URL with its address.
    """
    text, generation = text_parameter(request, "entity"), active_generation()
    entity, fault = _entity_from_input(request, text)
    search_result = search_visible_entities(request.user, text, MAX_SUGGESTIONS) if fault else None
    named_entity = _entity_with_name(search_result, text) if search_result else None
    if requested_section(request) == "operation":
        return _operation_options_response(request, entity or named_entity, generation)
    if named_entity:
        return see_other(url_with(request, entity=named_entity))
    operation_fault = _operation_fault(entity.kind, text_parameter(request, "operation")) if entity else ""
    section = (
        ask_section(request, entity, generation, is_whole_page=True)
        if entity and not operation_fault
        else None
    )
    is_section = requested_section(request) == "ask"
    return render_page(
        request,
        "ask/_ask.html" if is_section else "ask/page.html",
        {
            "ask": section or _form_without_answer(request, generation, fault, operation_fault),
            "is_section": is_section,
            "entity_text": text,
            "entity": entity,
            "can_change": request.user.can_administer,
            "operations": _operation_groups(request, entity, generation),
            # keep the operation of a link in the form until the entity is corrected
            "has_unknown_operation": bool(operation_fault)
            or (not entity and _is_no_privilege(text_parameter(request, "operation"))),
            "examples": [] if text else example_questions(request.user, generation),
            "suggestions": [(row, _question_url(request, row)) for row in search_result.rows]
            if search_result
            else [],
            "url": reverse("ask"),
        },
    )


def _form_without_answer(
    request: HttpRequest, generation: Generation, entity_fault: str, operation_fault: str
) -> dict:
    """Return the context of the form with its input, without an answer."""
    return form_context(request, question_input(request), generation) | {
        "fault": entity_fault or operation_fault,
        "request_url": _request_url(request) if entity_fault else "",
        "invalid_field": "entity" if entity_fault else "operation" if operation_fault else "",
    }


def _request_url(request: HttpRequest) -> str:
    """Return the URL that requests access to an address that the account does not see; empty for a text that
    is not an address."""
    address = address_or_none(text_parameter(request, "entity"))
    if address is None or request.user.can_see_all:
        return ""
    return url_with_query(
        "request-new", {"entity": address, "operation": text_parameter(request, "operation")}
    )


def _operation_groups(
    request: HttpRequest, entity: Entity | None, active: Generation
) -> list[tuple[str, list[str]]]:
    """Return the operations of an entity by access level, in the generation of the form."""
    name = text_parameter(request, "generation")
    return operations_in_groups(GENERATIONS.get(name, active), entity.kind) if entity else []


def _operation_options_response(
    request: HttpRequest, entity: Entity | None, generation: Generation
) -> HttpResponse:
    """Render the options of the field with the operations of an entity that is just being selected."""
    operations, form = (
        _operation_groups(request, entity, generation),
        _form_without_answer(request, generation, "", ""),
    )
    return render_page(
        request, "ask/_operation_options.html", {"ask": form, "entity": entity, "operations": operations}
    )


def _is_no_privilege(operation: str) -> bool:
    return bool(operation) and operation not in Privilege.__members__


def _entity_from_input(request: HttpRequest, text: str) -> tuple[Entity | None, str]:
    """Return the entity at the address and an empty message, or None and an error message; for empty text
    None and no message.
    """
    if not text:
        return None, ""
    try:
        address = parse_address(text)
    except AddressError as error:
        return None, f"{error}."
    entity = visible_entity_at(request.user, address)
    if entity is None:
        return (
            None,
            f"{address} is not registered{'' if request.user.can_see_all else ', or you may not see it'}.",
        )
    return entity, ""


def _entity_with_name(search_result: SearchResult, text: str) -> Entity | None:
    """Return the only entity with exactly this key or name; None if several match, or if not all matches were
    ranked.
    """
    # text with a colon is an address, and no entity is registered at it
    matches = [row for row in search_result.rows if ":" not in text and text in (row.key, row.address.name)]
    return matches[0] if len(matches) == 1 and search_result.is_all else None


def _operation_fault(kind: str, operation: str) -> str:
    """Return the error message for an operation that the kind does not have; empty for every other operation
    or privilege.
    """
    operations, plural = KINDS[kind].operations, KINDS[kind].plural.capitalize()
    if not operation or operation in operations or operation in Privilege.__members__:
        return ""
    if not operations:
        return f"{plural} have no operations; try a privilege: {', '.join(Privilege)}."
    return f"{plural} have no operation `{clip(operation)}`. Try {', '.join(operations)}."


def _question_url(request: HttpRequest, entity: Entity) -> str:
    """Return the URL of the same question about another entity."""
    return url_with_query("ask", question_input(request) | {"entity": entity})


MAX_EXAMPLES = 3
# the latest grants among which examples are searched; a bound, because a tenant can have millions
MAX_GRANTS_READ = 50
# the operation of an example: the first of these that the kind has
OPERATIONS = ("read", "start", "delete", "deploy", "update", "get")


def example_questions(user: User, generation: Generation) -> list[tuple[str, str]]:
    """Return the text and URL of questions about the entities of the latest grants, one for each kind. Ordinary accounts ask
    about their own grants.

    Runs one query for an account that sees everything, and a fixed number for others.
    """
    live = UserGrant.objects.filter(content_object__state=State.LIVE, user__is_active=True, **in_force())
    grants = live.order_by("-pk")
    if not user.can_see_all:
        # without an order, because the database could otherwise read all grants in that order to find a few
        grants = grants.filter(user=user).order_by()
    by_kind: dict[str, UserGrant] = {}
    for grant in grants.select_related("user", "content_object")[:MAX_GRANTS_READ]:
        by_kind.setdefault(grant.content_object.kind, grant)
    rows = [grant for grant in by_kind.values() if KINDS[grant.content_object.kind].operations][:MAX_EXAMPLES]
    visible = [grant for grant in rows if user.can_see_all or can_see(user, grant.content_object, generation)]
    return [_example(user, grant.user.username, grant.content_object) for grant in visible]


def _example(user: User, subject: str, entity: Entity) -> tuple[str, str]:
    operations = KINDS[entity.kind].operations
    operation = next((name for name in OPERATIONS if name in operations), operations[0])
    if not user.can_see_all:
        query = {"operation": operation, "entity": entity}
        return f"May I {operation} {entity}?", url_with_query("ask", query)
    query = {"subject": f"user:{subject}", "operation": operation, "entity": entity}
    return f"May user:{subject} {operation} {entity}?", url_with_query("ask", query)
