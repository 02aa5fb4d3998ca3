"""The effect in the forms that make a change: what it shows, and how a form makes the change only as it was
shown.

A page with such a form is an EffectPage. Its template renders `effects/_change_effect.html` with `effect` inside the
form. `effect_run_context` is about the run that computes an effect above the limits.
"""

from collections.abc import Sequence
from itertools import groupby
from urllib.parse import urlencode

from django.db import transaction
from django.http import HttpRequest, HttpResponse, QueryDict
from django.urls import reverse

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
from authzconsole.web.shared.guard import request_author
from entities.errors import Refusal
from grants.administrators import Strandings
from grants.change_set import Change, principals_of
from grants.changes import ChangeSet, Outcome, Preview, Shown, apply, can_make, newest_change_job, preview
from grants.effects.effect import KnownEffect, RowFilter
from grants.errors import EffectChanged, EffectNotShown, EffectTooLarge
from grants.grant_attributes import GrantAttributes
from grants.models import Job
from grants.principal_names import principals_by_name
from grants.principals.administrator_loss import AdministratorLoss
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


MAX_LINES = 4
# operations in one line
MAX_OPERATIONS = 6
MAX_TOP = 5


def effect_context(
    request: HttpRequest,
    changes: ChangeSet | Preview,
    stranding: AdministratorLoss | Strandings | None = None,
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
    }
    if shown.too_large is not None and request.user.can_see_all:
        query = urlencode([*effect_parameters(shown), *([("forecast", "1")] if has_forecast else [])])
        context["run"] = change_run_context(request, shown) | {"query": query}
    if shown.effect is None:
        is_known_to_run = "run" in context and context["run"]["compute_url"]
        sentence = (
            f"The effect is not known: {context['run']['reach']}" if is_known_to_run else str(shown.too_large)
        )
        return context | {"is_wide": True, "sentence": as_sentence(sentence)}
    context |= {
        "sentence": effect_sentence(shown.effect),
        "later": later_beginnings_sentence(shown.effect),
        "is_wide": any(effect.tally.beyond for effect in shown.effect.times or [shown.effect]),
        "times": [
            (time_title(number, effect), effect_sentence(effect))
            for number, effect in enumerate(shown.effect.times)
        ],
        "numbers": button_numbers(shown.effect.tally),
    }
    if not request.user.can_see_all:
        return context
    # the rows of a run are in files; the most affected people and entities are in its summary
    lines = _first_lines(shown.effect) if shown.too_large is None else []
    listed = sum(len(line["operations"]) + line["more"] for line in lines)
    return context | {
        "total": shown.effect.tally.total,
        "lines": lines,
        "has_more": shown.effect.tally.total > listed,
        "tops": top_lists(shown.effect, MAX_TOP),
        "url": effect_url(shown.change_set.texts),
    }


def _named_principals(change: Change) -> tuple[str, ...]:
    """Return the principals that must exist, so that the effect of the change is known."""
    creator = getattr(change, "creator", "")
    return (creator,) if creator else principals_of(change)


class EffectPage(FormPage):
    """A form that makes a change set: fill it in, see the effect, confirm.

    GET shows the form with the effect of the values in the URL, as POST with `preview` does with those of the form. POST
    makes the change, if its effect is the one that the form showed; otherwise it shows the form with the new effect.

    shows_effect: whether the account sees the effect, and must confirm it. has_forecast: see `effect_context`.
    """

    has_forecast = False

    @property
    def shows_effect(self) -> bool:
        return True

    def change_set(self, form: ConsoleForm) -> ChangeSet:
        """Return the changes of a valid form. Raise the errors of the services."""
        raise NotImplementedError

    def check(self, form: ConsoleForm) -> None:
        """Raise FormRefused if the form was made for other data. Called in the transaction of the change."""

    def attributes(self, form: ConsoleForm) -> GrantAttributes | None:
        """Return the attributes of new grants; None for the reason alone."""
        return None

    def make(self, form: ConsoleForm) -> Outcome:
        """Make the changes of a valid form, if their effect is the one that it showed."""
        effect = Shown(form.data.get("effect", ""), form.data.get("effect_of"), is_required=True)
        return apply(
            self.change_set(form),
            author=request_author(self.request, form.cleaned_data["reason"]),
            shown=effect if self.shows_effect else None,
            attributes=self.attributes(form),
        )

    def done(self, form: ConsoleForm, outcome: Outcome) -> HttpResponse:
        """Return the response after the change was made."""
        raise NotImplementedError

    def stranding(self, form: ConsoleForm) -> AdministratorLoss | Strandings | None:
        """Return the entities that lose administrators; None if none can."""
        return None

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
        """Show the form, and the effect of the values if they describe a change."""
        filled = self.get_form_class()(**self.get_form_kwargs() | {"data": values})
        effect = self.effect(filled) if self.shows_effect and filled.is_valid() else None
        return self.render_to_response(self.get_context_data(form=form, effect=effect))

    def effect(self, form: ConsoleForm) -> dict | None:
        """Return the context of the effect of a valid form; None if it names unknown principals."""
        try:
            change_set = self.change_set(form)
            names = {name for change in change_set for name in _named_principals(change)}
            is_known = len(principals_by_name(names)) == len(names)
        except Refusal:
            return None
        return self.effect_context(form, change_set) if is_known else None

    def effect_context(self, form: ConsoleForm, changes: ChangeSet | Preview) -> dict:
        return effect_context(self.request, changes, self.stranding(form), has_forecast=self.has_forecast)

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
        return super().get_context_data(**{"effect": None} | context)


def _first_lines(effect: KnownEffect) -> list[dict]:
    """Return the first changed permissions, those beyond the purpose first: one line for each user and
    entity.
    """
    rows = (row for purpose in ("beyond", "for") for row in effect.rows(RowFilter(purpose=purpose)))
    lines = []
    for (user, entity, is_gain, is_intended), group in groupby(
        rows, lambda row: (row.user, row.entity, row.after, row.intended)
    ):
        if len(lines) == MAX_LINES:
            break
        operations = [row.operation for row in group]
        lines.append(
            {
                "principal": f"user:{user}",
                "is_gain": is_gain,
                "is_intended": is_intended,
                "entity": entity,
                "operations": operations[:MAX_OPERATIONS],
                "more": max(0, len(operations) - MAX_OPERATIONS),
            }
        )
    return lines


def top_lists(effect: KnownEffect, max_rows: int) -> dict:
    """Return the most affected people, entities and operations, each with its tally, and the number of others."""
    counts = {
        "people": effect.people_count,
        "entities": effect.entity_count,
        "operations": len(effect.operations),
    }
    rows = {name: getattr(effect, name)[:max_rows] for name in counts}
    return rows | {f"{name}_more": max(0, count - max_rows) for name, count in counts.items()}
