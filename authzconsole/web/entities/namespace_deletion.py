"""Forecast a namespace deletion by a user: which entities are deleted, which remain, and which grants are
missing.
"""

from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_safe

from authzconsole.web.shared.guard import capability_required, entity_or_404
from authzconsole.web.shared.links import address_url, entity_tab_url
from authzconsole.web.shared.paging import ADDRESS_ORDER, keyset_page
from authzconsole.web.shared.parameters import choice_parameter, name_parameter
from authzconsole.web.shared.principal_input import name_from_input
from authzconsole.web.shared.rendering import render_page, requested_section
from entities.models import Entity
from entities.vocabulary import KINDS, quantity
from grants.active_generation import active_generation
from grants.errors import GrantError
from grants.lifecycle import (
    DeletionStep,
    StepOutcome,
    deletion_forecast,
    namespace_readiness,
    undeletable_entities,
)
from grants.models import User
from grants.policies.catalogue import GENERATIONS
from grants.policies.policy import Generation
from grants.policies.principals import group_text
from grants.querysets import groups_of
from grants.roles.capabilities import Capability

ENTITIES_PER_PAGE = 25
SECTION = "undeletable"
STEP_RESULTS = {
    StepOutcome.DELETED: "all deleted",
    StepOutcome.NOT_REACHED: "not reached",
    StepOutcome.PARTLY_DELETED: "an error for each of {0.missing:,}",
    StepOutcome.STOPS: "stops here: {0.missing:,} cannot be deleted",
}


@require_safe
@capability_required(Capability.READ_ALL)
def forecast_page(request: HttpRequest, address: str) -> HttpResponse:
    entity = entity_or_404(request, address)
    name = name_from_input(name_parameter(request, "deleter"), "user")
    generation_name = choice_parameter(request, "generation", GENERATIONS)
    generation = GENERATIONS[generation_name] if generation_name else active_generation()
    context = {
        "target": entity,
        "deleter": name,
        "generation": generation,
        "generations": list(GENERATIONS),
        "url": address_url("forecast", entity),
        "back": f"{entity_tab_url(entity, 'ask')}#readiness",
        "can_change": request.user.can_administer,
    }
    try:
        context |= _forecast_context(request, entity, name, generation) if name else {}
    except GrantError as error:
        context["fault"] = f"{error}."
    is_section = requested_section(request) == SECTION and SECTION in context
    template = f"_{SECTION}.html" if is_section else "forecast.html"
    return render_page(request, f"entities/deletion/{template}", context)


def _forecast_context(request: HttpRequest, entity: Entity, name: str, generation: Generation) -> dict:
    forecast = deletion_forecast(entity.address, name, generation)
    page = keyset_page(
        request,
        undeletable_entities(entity.address, name, generation),
        *ADDRESS_ORDER,
        max_rows=ENTITIES_PER_PAGE,
        total=forecast.missing,
    )
    user = User.objects.filter(username=name, is_active=True).first()
    return {
        "forecast": forecast,
        "rows": [_step_row(step) for step in forecast.steps if step.live],
        "more_ghost_grants": max(0, forecast.grants_kept - len(forecast.ghosts)),
        SECTION: {"page": page, "total": forecast.missing},
        "receivers": _receivers(user)
        if user and not namespace_readiness(entity.address, user, generation, max_listed=0).is_ready
        else [],
    }


def _receivers(user: User) -> list[str]:
    """Return the principals to which the missing grants can be granted: the user and its groups."""
    return [str(user), *(group_text(name) for name in groups_of(user).values_list("name", flat=True))]


def _step_row(step: DeletionStep) -> dict:
    """Return the row of the kinds that one step deletes. level: good, bad, or empty for a step that is not
    reached.
    """
    kinds = ", ".join(quantity(total, KINDS[kind].title, KINDS[kind].plural) for kind, total in step.kinds)
    levels = {StepOutcome.DELETED: "good", StepOutcome.NOT_REACHED: ""}
    return {
        "icon": step.kinds[0][0],
        "title": kinds,
        "level": levels.get(step.outcome, "bad"),
        "result": STEP_RESULTS[step.outcome].format(step),
        "deleted": step.gone,
        "remaining": step.remains,
    }
