"""The effect on the pages that make a change: how a page loads what the change does, and how a form makes the change only
as it was shown.

INVARIANT: no page waits for an effect. A page appears with the place of its effect, `effects/_loading.html`; htmx then
requests the part of the page with the effect from the URL of the page, so the checks of the page apply. Browsers without
scripts request a second page with the parameter `preview`. Above the limits, a job computes the effect, and the part
shows its progress.

A page with a form that makes a change is an EffectPage; its part is `effects/_actions.html`, with the button that
confirms. Other pages load a section (`is_effect_requested`). `run_context` is about the job.
"""

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from urllib.parse import urlencode

from django.db import transaction
from django.http import HttpRequest, HttpResponse, QueryDict
from django.urls import reverse
from django.utils import timezone
from django.utils.encoding import escape_uri_path

from analytics.runs.selectors import run_progress
from authzconsole.common.messages import as_sentence
from authzconsole.web.effects.wording import (
    button_numbers,
    consequence_sentences,
    effect_sentence,
    later_beginnings_sentence,
    time_title,
)
from authzconsole.web.forms import ConsoleForm, FormPage
from authzconsole.web.shared.levels import effect_sentences, effect_table
from authzconsole.web.shared.rendering import requested_section
from entities.errors import Refusal
from grants.administrators import Strandings
from grants.change_set import Change, principals_of
from grants.changes import ChangeSet, Outcome, Preview, Shown, apply, can_make, preview
from grants.effects.effect import TOO_LARGE, KnownEffect
from grants.effects.large import Computed, has_unfinished_effect_job
from grants.errors import EffectChanged, EffectNotShown
from grants.grant_attributes import GrantAttributes
from grants.guardrails.check import AddedViolations
from grants.models import Job
from grants.principal_names import principals_by_name
from grants.roles.capabilities import Capability

# longer lists of changes have no URL, because servers refuse long URLs
MAX_URL_CHARACTERS = 6_000
# the event that loads the part with an effect again, after its job was requested or cancelled
EFFECT_CHANGED = "effect-changed"
UNKNOWN_EFFECT = "Make the change although its effect is not known"
# a job that ended less than this ago is repeated only on request, so that a page does not start jobs one after another
REPEAT_AFTER = timedelta(minutes=1)


def is_effect_requested(request: HttpRequest, part: str, values: QueryDict | None = None) -> bool:
    """Return whether the response contains the effect: htmx requests the part of the page with it, or a browser without
    scripts the second page.

    values: of the form; by default those in the URL.
    """
    return requested_section(request) == part or "preview" in (request.GET if values is None else values)


def run_context(
    request: HttpRequest,
    known: Computed,
    *,
    can_make: bool,
    compute_url: str,
    cancel_url: str,
) -> dict:
    """Return the context of `effects/_run.html`. Runs one query if the job can be requested.

    can_make: whether the account may make the change. compute_url, cancel_url: that request and cancel the job; empty if
    it cannot be requested.
    """
    run = known.job
    is_running = run is not None and not run.is_finished
    can_request = can_make and bool(compute_url) and not is_running and known.effect is None
    context = {
        "reach": known.too_large.reach if known.too_large else "",
        "run": run,
        "is_running": is_running,
        "effect": known.effect,
        "compute_url": compute_url,
        "cancel_url": cancel_url,
        "can_request": can_request,
        "starts_at_once": can_request and _starts_at_once(request, run),
        "can_cancel": is_running and request.user.can(Capability.RUN_ANALYSES),
    }
    return context | ({"details": run_progress(run)} if run is not None and is_running else {})


def _starts_at_once(request: HttpRequest, run: Job | None) -> bool:
    """Return whether the page requests the job itself. A page from a link of another site can request one job at most."""
    is_recent = run is not None and run.finished_at and run.finished_at > timezone.now() - REPEAT_AFTER
    return not is_recent and not has_unfinished_effect_job(request.user)


def change_run_context(request: HttpRequest, preview: Preview) -> dict:
    """Return the context of `effects/_run.html` for changes."""
    query = urlencode(effect_parameters(preview.change_set, preview.generation))
    has_url = bool(effect_url(preview.change_set.texts))
    return run_context(
        request,
        preview.computed,
        can_make=can_make(request.user, preview.change_set),
        compute_url=f"{reverse('effect-run')}?{query}" if has_url else "",
        cancel_url=f"{reverse('effect-run-cancel')}?{query}",
    )


def effect_parameters(change_set: ChangeSet, generation: str) -> list[tuple[str, str]]:
    """Return the URL parameters of the page with the effect of the changes."""
    return [*(("change", text) for text in change_set.texts), ("generation", generation)]


def effect_url(texts: Sequence[str]) -> str:
    """Return the URL of the page with all changed permissions; empty if it would be too long."""
    url = reverse("effect", query={"change": texts})
    return url if len(url) <= MAX_URL_CHARACTERS else ""


def effect_reload_response() -> HttpResponse:
    """Return the response to htmx after a job was requested or cancelled: the page loads its part again."""
    return HttpResponse(status=204, headers={"HX-Trigger": EFFECT_CHANGED})


MAX_TOP = 5
# the sentences of more people are collapsed
MAX_OPEN = 3


def effect_context(
    request: HttpRequest,
    changes: ChangeSet | Preview,
    stranding: Strandings | None = None,
    *,
    has_forecast: bool = False,
) -> dict:
    """Return the context of `effects/_change_effect.html` for changes that are not made yet.

    changes: the changes, or their preview if it is known. stranding: the entities that lose administrators;
    None if none can.
    has_forecast: whether the form itself names leftover grants and the sessions and tokens that end.
    Accounts that do not see everything get the numbers without names.
    """
    shown = changes if isinstance(changes, Preview) else preview(changes)
    context = {
        "digest": shown.digest,
        "identity": shown.change_set.identity,
        "stranding": stranding,
        "consequences": [] if has_forecast else list(consequence_sentences(shown.consequences)),
        "guardrails": guardrail_sentences(request, shown.added),
        "is_blocked": bool(shown.added.blocked),
    }
    if shown.computed.is_large and request.user.can_see_all:
        context["run"] = change_run_context(request, shown)
    if shown.effect is None:
        return context | unknown_effect(shown.computed, context.get("run"))
    context |= {
        "sentence": effect_sentence(shown.effect),
        "later": later_beginnings_sentence(shown.effect),
        "is_wide": any(
            effect.with_attached_intended.tally.beyond for effect in shown.effect.times or [shown.effect]
        ),
        "times": [
            (time_title(number, effect), effect_sentence(effect))
            for number, effect in enumerate(shown.effect.times)
        ],
        "numbers": button_numbers(shown.effect.tally),
    }
    if not request.user.can_see_all:
        return context
    people = effect_sentences(shown.effect)
    return context | {
        "total": shown.effect.tally.total,
        "people": people,
        "is_collapsed": len(people) > MAX_OPEN,
        "people_more": max(0, shown.effect.people_count - len(people)),
        # a job keeps the numbers of its summary only
        "table": None if people else effect_table(shown.effect),
        "tops": top_lists(shown.effect.with_attached_intended, MAX_TOP),
        "url": effect_url(shown.change_set.texts),
    }


def guardrail_sentences(request: HttpRequest, added: AddedViolations) -> list[str]:
    """Return what changes would violate. Accounts that do not see everything get the names of guardrails only."""
    disclosed = replace(added, is_disclosed=request.user.can_see_all)
    return [as_sentence(sentence) for sentence in disclosed.sentences]


def unknown_effect(known: Computed, run: dict | None) -> dict:
    """Return what a form says about an effect that is not known. run: see `run_context`; None if it shows none."""
    is_computing = run is not None and run["is_running"]
    is_refused = run is None or not (is_computing or run["compute_url"])
    sentence = str(known.too_large) if is_refused and known.too_large else "The effect is not known yet."
    return {
        "is_wide": True,
        "is_computing": is_computing,
        "sentence": as_sentence(sentence),
        "confirmation": "" if is_computing else UNKNOWN_EFFECT,
    }


def _named_principals(change: Change) -> tuple[str, ...]:
    """Return the principals that must exist, so that the effect of the change is known."""
    creator = getattr(change, "creator", "")
    return (creator,) if creator else principals_of(change)


class EffectPage(FormPage):
    """A form that makes a change set: fill it in, see the effect, confirm.

    GET shows the form with the values in the URL. If they describe a change, the part with the effect and the buttons
    (`effects/_actions.html`) is loaded after the page, and again when a field in an element of the class `effect-fields`
    changes. POST with `preview` shows the form with its effect, for browsers without scripts. POST makes the change, if
    its effect is the one that the form showed; otherwise it shows the form with the new effect.

    shows_effect: whether the account sees the effect, and must confirm it. effect_id: the HTML id of the part.
    has_forecast: see `effect_context`. stranding_url: the page with all entities that lose administrators. The context of
    the templates has `action`, the URL of the form, `button`, the text of the button that confirms, `is_danger`, and
    `back`, the URL of the page before.
    """

    has_forecast = False
    effect_id = "change-effect"
    stranding_url = ""

    @property
    def shows_effect(self) -> bool:
        return True

    @property
    def is_part(self) -> bool:
        """Whether htmx requests only the part with the effect and the buttons."""
        return requested_section(self.request) == self.effect_id

    def change_set(self, form: ConsoleForm) -> ChangeSet:
        """Return the changes of a valid form. Raise the errors of the services."""
        raise NotImplementedError

    def check(self, form: ConsoleForm) -> None:
        """Raise FormRefused if the form was made for other data. Called in the transaction of the change."""

    def attributes(self, form: ConsoleForm) -> GrantAttributes | None:
        """Return the attributes of new grants; None for the reason alone."""
        return None

    def shown(self, form: ConsoleForm) -> Shown:
        """Return the effect that a form showed."""
        digest = form.data.get("effect", "")
        if digest == TOO_LARGE and "beyond" not in form.data:
            # an effect that is not known counts as shown only if this was accepted
            digest = ""
        return Shown(digest, form.data.get("effect_of"), is_required=True)

    def make(self, form: ConsoleForm) -> Outcome:
        """Make the changes of a valid form, if their effect is the one that it showed."""
        return apply(
            self.change_set(form),
            author=self.author(form),
            shown=self.shown(form) if self.shows_effect else None,
            attributes=self.attributes(form),
        )

    def done(self, form: ConsoleForm, outcome: Outcome) -> HttpResponse:
        """Return the response after the change was made."""
        raise NotImplementedError

    def stranding(self, form: ConsoleForm) -> Strandings | None:
        """Return the entities that lose administrators; None if none can."""
        return None

    def get_template_names(self) -> list[str]:
        return ["effects/_actions.html"] if self.is_part else super().get_template_names()

    def get(self, request: HttpRequest, *args, **kwargs) -> HttpResponse:
        return self.show_effect(self.get_form(), request.GET)

    def post(self, request: HttpRequest, *args, **kwargs) -> HttpResponse:
        sent = self.get_form()
        if "preview" not in sent.data:
            return super().post(request, *args, **kwargs)
        options = self.get_form_kwargs() | {"data": None, "files": None}
        options["initial"] = self.get_initial() | self.form_class.initial_from(sent.data)
        return self.show_effect(self.get_form_class()(**options), sent.data)

    def show_effect(self, form: ConsoleForm, values: QueryDict) -> HttpResponse:
        """Show the form, and the effect of the values or its place, if they describe a change."""
        return self.render_to_response(self.get_context_data(form=form, effect=self.effect(values)))

    def effect(self, values: QueryDict) -> dict | None:
        """Return the context of the effect of the values of a form, or of its place; None if they describe no change, or
        name unknown principals.
        """
        form = self.get_form_class()(**self.get_form_kwargs() | {"data": values})
        if not self.shows_effect or not form.is_valid():
            return None
        try:
            change_set = self.change_set(form)
            names = {name for change in change_set for name in _named_principals(change)}
            if len(principals_by_name(names)) != len(names):
                return None
        except Refusal:
            return None
        if not is_effect_requested(self.request, self.effect_id, values):
            return {"is_loading": True}
        return self.effect_context(form, change_set)

    def effect_context(self, form: ConsoleForm, changes: ChangeSet | Preview) -> dict:
        context = effect_context(self.request, changes, self.stranding(form), has_forecast=self.has_forecast)
        return context | {"stranding_url": self.stranding_url}

    def perform(self, form: ConsoleForm) -> HttpResponse:
        try:
            with transaction.atomic():
                self.check(form)
                outcome = self.make(form)
        except (EffectChanged, EffectNotShown) as error:
            status = 200
            if isinstance(error, EffectChanged):
                form.add_error(None, f"Nothing was changed: {error}.")
                status = 409
            context = self.get_context_data(form=form, effect=self.effect_context(form, error.preview))
            return self.render_to_response(context, status=status)
        return self.done(form, outcome)

    def get_context_data(self, **context) -> dict:
        if "effect" not in context:
            # the form was refused
            context["effect"] = self.effect(context["form"].data)
        return super().get_context_data(**context) | {
            "effect_id": self.effect_id,
            "shows_effect": self.shows_effect,
            # the path is decoded, and names may contain `?` and `#`
            "action": escape_uri_path(self.request.path),
        }


def top_lists(effect: KnownEffect, max_rows: int) -> dict:
    """Return the most affected entities and operations, each with its tally, and the number of others."""
    counts = {
        "entities": effect.entity_count,
        "operations": len(effect.operations),
    }
    rows = {name: getattr(effect, name)[:max_rows] for name in counts}
    return rows | {f"{name}_more": max(0, count - max_rows) for name, count in counts.items()}
