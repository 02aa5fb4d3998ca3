"""Request and cancel the run that computes the effect of single changes, and show it in the form that makes
them.
"""

from urllib.parse import urlencode

from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.views.decorators.http import require_POST, require_safe

from analytics.plan_effects.stored import latest_change_run
from analytics.runs.services import cancel_run, request_change_effect
from authzconsole.common.messages import read_only_message
from authzconsole.web.effects.forms import effect_context
from authzconsole.web.effects.runs import effect_parameters
from authzconsole.web.effects.url_changes import data_of, preview_from_url
from authzconsole.web.shared.guard import auditor_required, capability_required, request_author
from authzconsole.web.shared.rendering import render_page, see_other
from grants.changes import Preview, can_make, capability_to_make
from grants.errors import GrantError
from grants.roles.capabilities import Capability


@require_POST
@auditor_required
def compute_effect_view(request: HttpRequest) -> HttpResponse:
    """Request the run for the changes that the form names.

    Accounts that may make the changes may request it.
    """
    preview = preview_from_url(request)
    if not can_make(request.user, preview.change_set):
        raise PermissionDenied(read_only_message(*map(capability_to_make, preview.change_set)))
    if preview.too_large is not None and preview.effect is None:
        try:
            request_change_effect(
                changes=preview.change_set,
                generation=preview.generation,
                author=request_author(request),
                requested_by=request.user,
            )
        except GrantError as error:
            messages.error(request, f"{error}.")
    return _form_part(request, preview) if request.htmx else _page_of(preview)


@require_POST
@capability_required(Capability.RUN_ANALYSES, visible_to=[Capability.READ_ALL])
def cancel_effect_view(request: HttpRequest) -> HttpResponse:
    preview = preview_from_url(request)
    run = latest_change_run(preview.change_set.texts, preview.generation)
    if run is not None and cancel_run(run=run, author=request_author(request)):
        messages.info(request, "The computation of the effect is being cancelled.")
    else:
        messages.info(request, "The effect is not being computed. Nothing changed.")
    return _page_of(preview)


@require_safe
@auditor_required
def effect_form_part(request: HttpRequest) -> HttpResponse:
    """Return the part of a form that shows the effect, while a run computes it and afterwards.

    URL parameters: those of the page with the effect, and `forecast` (see `effect_context`).
    """
    return _form_part(request, preview_from_url(request))


def _form_part(request: HttpRequest, preview: Preview) -> HttpResponse:
    effect = effect_context(request, preview, has_forecast=data_of(request).get("forecast") == "1")
    return render_page(request, "effects/_form_update.html", {"effect": effect})


def _page_of(preview: Preview) -> HttpResponse:
    return see_other(f"{reverse('effect')}?{urlencode(effect_parameters(preview))}")
