"""Read the changes and the generation that the URL or the form of an effect names."""

from django.http import Http404, HttpRequest, QueryDict

from analytics.plan_effects.stored import stored_change_effect
from grants.active_generation import active_generation
from grants.effects.preview import ChangePreview, preview_changes
from grants.effects.single_changes import UnknownChange, change_from_text
from grants.policies.catalogue import GENERATIONS

MAX_CHANGES = 100


def data_of(request: HttpRequest) -> QueryDict:
    """Return the query, or the fields of a form if the query names no change. The forms of other changes have other fields."""
    return request.GET if "change" in request.GET or request.method != "POST" else request.POST


def preview_from_url(request: HttpRequest) -> ChangePreview:
    """Return the preview of the changes, in the named generation or the active one. Raise Http404 for unknown changes."""
    data = data_of(request)
    try:
        changes = [change_from_text(text) for text in data.getlist("change")[:MAX_CHANGES]]
    except UnknownChange as error:
        raise Http404(str(error)) from None
    if not changes:
        raise Http404("there is no such change")
    name = data.get("generation", "")
    generation = GENERATIONS[name] if name in GENERATIONS else active_generation()
    return preview_changes(changes, generation, stored_change_effect)
