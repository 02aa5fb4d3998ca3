"""What pages and forms say about the run that computes an effect above the limits."""

from collections.abc import Sequence

from django.http import HttpRequest
from django.urls import reverse

from analytics.runs.selectors import run_progress
from grants.changes import Preview, can_make, newest_change_job
from grants.effects.effect import KnownEffect
from grants.errors import EffectTooLarge
from grants.models import Job
from grants.roles.capabilities import Capability

# longer lists of changes have no URL, because servers refuse long URLs
MAX_URL_CHARACTERS = 6_000


def effect_run_context(
    request: HttpRequest,
    run: Job | None,
    effect: KnownEffect | None,
    error: EffectTooLarge,
    *,
    can_make: bool,
    compute_url: str,
    cancel_url: str,
    fields: Sequence[tuple[str, str]],
) -> dict:
    """Return the context of `effects/_run.html`.

    run: the newest run; None if there was none. effect: None if the run did not compute it for the current
    data.
    can_make: whether the account may make the change. fields: of the forms that request and cancel the run,
    as (name, value).
    """
    is_running = run is not None and not run.is_finished
    context = {
        "reach": f"the change reaches more than {error.limit:,} {error.counted}",
        "run": run,
        "is_running": is_running,
        "effect": effect,
        "compute_url": compute_url,
        "cancel_url": cancel_url,
        "fields": fields,
        "can_request": can_make and bool(compute_url) and not is_running and effect is None,
        "can_cancel": is_running and request.user.can(Capability.RUN_ANALYSES),
    }
    return context | ({"details": run_progress(run)} if run is not None and is_running else {})


def change_run_context(request: HttpRequest, preview: Preview) -> dict:
    """Return the context of `effects/_run.html` for changes above the limits. Runs two queries."""
    assert preview.too_large is not None
    has_url = bool(effect_url(preview.change_set.texts))
    return effect_run_context(
        request,
        newest_change_job(preview.change_set, preview.generation),
        preview.effect,
        preview.too_large,
        can_make=can_make(request.user, preview.change_set),
        compute_url=reverse("effect-run") if has_url else "",
        cancel_url=reverse("effect-run-cancel"),
        fields=effect_parameters(preview),
    )


def effect_parameters(preview: Preview) -> list[tuple[str, str]]:
    """Return the URL parameters of the page with the effect of the changes."""
    return [*(("change", text) for text in preview.change_set.texts), ("generation", preview.generation)]


def effect_url(texts: Sequence[str]) -> str:
    """Return the URL of the page with all changed permissions; empty if it would be too long."""
    url = reverse("effect", query={"change": texts})
    return url if len(url) <= MAX_URL_CHARACTERS else ""
