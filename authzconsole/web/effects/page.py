"""The list of all permissions that single changes would change, and its downloads.

The changes are in the URL.
"""

from urllib.parse import urlencode

from django.http import Http404, HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.urls import reverse
from django.views.decorators.http import require_safe

from authzconsole.lists.files import list_file
from authzconsole.lists.plans import EffectRows
from authzconsole.web.effects.run_views import preview_from_url
from authzconsole.web.effects.runs import change_run_context
from authzconsole.web.effects.section import (
    DOWNLOAD_TITLES,
    effect_at,
    effect_filter,
    filter_query,
    section_context,
)
from authzconsole.web.shared.guard import auditor_required
from authzconsole.web.shared.rendering import render_page, requested_section
from grants.change_set import (
    Activate,
    ActivateGeneration,
    Change,
    Deactivate,
    Delete,
    Grant,
    Join,
    Leave,
    MakePrincipal,
    Recreate,
    Register,
    RemovePrincipal,
    Revoke,
)


@require_safe
@auditor_required
def effect_page(request: HttpRequest) -> HttpResponse:
    """Show the effect of changes that are not made.

    URL parameters: change (see `grants.change_set.as_text`), generation.
    """
    preview = preview_from_url(request)
    generation = preview.generation
    parameters = [("change", text) for text in preview.change_set.texts]
    section = section_context(
        request,
        preview.effect,
        generation=generation,
        url=request.path,
        parameters=parameters,
        consequences=preview.consequences,
    )
    if preview.too_large is not None:
        section["run"] = change_run_context(request, preview)
    section["stranding"] = preview.strandings
    if preview.effect is not None:
        at = [("effect_at", section["time"])] if section["time"] else []
        query = [
            *parameters,
            ("generation", generation),
            *at,
            *filter_query(section["where"], "effect_").items(),
        ]
        section["downloads"] = [
            (title, f"{reverse('effect-file', args=[extension])}?{urlencode(query)}")
            for extension, title in DOWNLOAD_TITLES.items()
        ]
    context = {"permissions": section, "sentences": list(map(change_sentence, preview.change_set))}
    if requested_section(request) == "permissions":
        return render_page(request, "effects/_permissions.html", context)
    return render_page(request, "effects/page.html", context)


@require_safe
@auditor_required
def download_effect(request: HttpRequest, extension: str) -> HttpResponseBase:
    """Return the changed permissions as a file. URL parameters: those of the page."""
    if extension not in EffectRows.extensions:
        raise Http404("there is no such file")
    preview = preview_from_url(request)
    if preview.effect is None:
        return HttpResponse(f"{preview.too_large}.\n", content_type="text/plain; charset=utf-8", status=409)
    listed = EffectRows(request.user, {"where": effect_filter(request)}, effect_at(request, preview.effect))
    return list_file(listed, extension)


def change_sentence(change: Change) -> str:
    """Return what a change does, such as `Grant READ on dataset:sales.orders to user:alice`."""
    match change:
        case Grant(principal, address, privilege, validity):
            return f"Grant {privilege} on {address} to {principal} {validity.sentence}".strip()
        case Revoke(principal, address, privilege):
            return f"Revoke {privilege} on {address} from {principal}"
        case Join(user, group, validity):
            return f"Add user:{user} to group:{group} {validity.sentence}".strip()
        case Leave(user, group):
            return f"Remove user:{user} from group:{group}"
        case Activate(user):
            return f"Activate user:{user}"
        case Deactivate(user):
            return f"Deactivate user:{user}"
        case MakePrincipal(user):
            return f"Make the account user:{user} a principal"
        case ActivateGeneration(generation):
            return f"Activate generation {generation.name}"
        case Register(address, creator) | Recreate(address, creator):
            return f"Make {address} live" + (f", created by {creator}" if creator else "")
        case Delete(address):
            return f"Delete {address}"
        case RemovePrincipal(principal):
            return f"Remove {principal}"
