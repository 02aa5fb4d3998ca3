"""Read the changes and the generation that the URL or the form of an effect names."""

from django.http import Http404, HttpRequest, QueryDict

from grants.active_generation import active_generation
from grants.change_set import UnknownChange, change_from_text
from grants.changes import ChangeSet, Preview, preview
from grants.effects.changes import MAX_CHANGES
from grants.policies.catalogue import GENERATIONS


def data_of(request: HttpRequest) -> QueryDict:
    """Return the query, or the fields of a form if the query names no change.

    The forms of other changes have other fields.
    """
    return request.GET if "change" in request.GET or request.method != "POST" else request.POST


def preview_from_url(request: HttpRequest) -> Preview:
    """Return the preview of the changes, in the named generation or the active one.

    Raise Http404 for unknown changes, and for none or too many.
    """
    data = data_of(request)
    texts = data.getlist("change")
    if not 0 < len(texts) <= MAX_CHANGES:
        raise Http404(f"there must be from 1 to {MAX_CHANGES} changes")
    try:
        change_set = ChangeSet.of(*map(change_from_text, texts))
    except UnknownChange as error:
        raise Http404(str(error)) from None
    name = data.get("generation", "")
    generation = GENERATIONS[name] if name in GENERATIONS else active_generation()
    return preview(change_set, generation)
