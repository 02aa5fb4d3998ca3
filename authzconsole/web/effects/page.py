"""The list of all permissions that single changes would change, its downloads, and the run that computes it above the
limits: request and cancel it, and show it in the form that makes the changes.

The changes are in the URL, or in the form.
"""

from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.urls import reverse
from django.views.decorators.http import require_POST, require_safe

from analytics.runs.services import cancel_run
from authzconsole.common.messages import read_only_message
from authzconsole.lists.files import list_file
from authzconsole.lists.plans import EffectRows
from authzconsole.web.effects.forms import change_run_context, effect_context, effect_parameters
from authzconsole.web.effects.section import (
    DOWNLOAD_TITLES,
    effect_at,
    effect_filter,
    filter_query,
    section_context,
)
from authzconsole.web.forms import ConsoleForm, OptionalChoiceField, TextField
from authzconsole.web.shared.guard import auditor_required, capability_required, request_author
from authzconsole.web.shared.rendering import render_page, requested_section, see_other
from grants.active_generation import active_generation
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
    UnknownChange,
    change_from_text,
)
from grants.changes import (
    ChangeSet,
    Preview,
    can_make,
    capability_to_make,
    newest_change_job,
    preview,
    request_change_effect,
)
from grants.effects.changes import MAX_CHANGES
from grants.errors import GrantError
from grants.policies.catalogue import GENERATIONS
from grants.roles.capabilities import Capability


class EffectForm(ConsoleForm):
    """The changes of which the effect is shown. forecast: see `effect_context`."""

    generation = OptionalChoiceField(choices=lambda: [(name, name) for name in GENERATIONS])
    forecast = TextField()


def effect_form(request: HttpRequest) -> EffectForm:
    """Return the form in the query, or in the body if the query names no change: the forms of other changes have other
    fields.
    """
    if "change" not in request.GET:
        return EffectForm.sent(request)
    form = EffectForm(request.GET)
    form.is_valid()
    return form


def preview_from_url(request: HttpRequest) -> Preview:
    """Return the preview of the changes, in the named generation or the active one.

    Raise Http404 for unknown changes, and for none or too many.
    """
    form = effect_form(request)
    texts, name = form.data.getlist("change"), form.cleaned_data["generation"]
    if not 0 < len(texts) <= MAX_CHANGES:
        raise Http404(f"there must be from 1 to {MAX_CHANGES} changes")
    try:
        change_set = ChangeSet.of(*map(change_from_text, texts))
    except UnknownChange as error:
        raise Http404(str(error)) from None
    generation = GENERATIONS[name] if name else active_generation()
    return preview(change_set, generation)


@require_POST
@auditor_required
def compute_effect_view(request: HttpRequest) -> HttpResponse:
    """Request the run for the changes that the form names.

    Accounts that may make the changes may request it.
    """
    shown = preview_from_url(request)
    if not can_make(request.user, shown.change_set):
        raise PermissionDenied(read_only_message(*map(capability_to_make, shown.change_set)))
    if shown.too_large is not None and shown.effect is None:
        try:
            request_change_effect(
                changes=shown.change_set,
                generation=shown.generation,
                author=request_author(request),
                requested_by=request.user,
            )
        except GrantError as error:
            messages.error(request, f"{error}.")
    return _form_part(request, shown) if request.htmx else _page_of(shown)


@require_POST
@capability_required(Capability.RUN_ANALYSES, visible_to=[Capability.READ_ALL])
def cancel_effect_view(request: HttpRequest) -> HttpResponse:
    shown = preview_from_url(request)
    run = newest_change_job(shown.change_set, shown.generation)
    if run is not None and cancel_run(run=run, author=request_author(request)):
        messages.info(request, "The computation of the effect is being cancelled.")
    else:
        messages.info(request, "The effect is not being computed. Nothing changed.")
    return _page_of(shown)


@require_safe
@auditor_required
def effect_form_part(request: HttpRequest) -> HttpResponse:
    """Return the part of a form that shows the effect, while a run computes it and afterwards.

    URL parameters: those of the page with the effect, and `forecast` (see `effect_context`).
    """
    return _form_part(request, preview_from_url(request))


def _form_part(request: HttpRequest, shown: Preview) -> HttpResponse:
    effect = effect_context(request, shown, has_forecast=effect_form(request).cleaned_data["forecast"] == "1")
    return render_page(request, "effects/_form_update.html", {"effect": effect})


def _page_of(shown: Preview) -> HttpResponse:
    return see_other(reverse("effect", query=effect_parameters(shown)))


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
            (title, reverse("effect-file", args=[extension], query=query))
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
