"""The section with an effect on permissions: totals, the most affected people, entities and operations, and every
change. The page with the effect of single changes, its downloads, and the run that computes it above the limits: request
and cancel it.

The changes are in the URL, or in the form.
"""

from collections.abc import Iterable
from dataclasses import asdict
from itertools import islice
from urllib.parse import urlencode

from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.urls import reverse
from django.views.decorators.http import require_POST, require_safe

from analytics.runs.services import cancel_run
from authzconsole.common.messages import read_only_message
from authzconsole.lists.files import download_links, list_file
from authzconsole.lists.plans import EffectRows
from authzconsole.web.effects.forms import (
    change_run_context,
    effect_parameters,
    effect_reload_response,
    is_effect_requested,
    top_lists,
)
from authzconsole.web.effects.wording import (
    consequence_sentences,
    effect_sentence,
    filtered_sentence,
    later_beginnings_sentence,
    time_title,
)
from authzconsole.web.forms import ConsoleForm, OptionalChoiceField
from authzconsole.web.shared.guard import auditor_required, capability_required, request_author
from authzconsole.web.shared.levels import effect_table
from authzconsole.web.shared.paging import numbered_page, page_number
from authzconsole.web.shared.parameters import choice_parameter, text_parameter
from authzconsole.web.shared.rendering import render_page, requested_section, see_other
from grants.active_generation import active_generation
from grants.change_set import (
    Activate,
    ActivateGeneration,
    AddGroup,
    AddUser,
    ApplyPlan,
    Change,
    Deactivate,
    Delete,
    DeleteGuardrail,
    EndException,
    Exclude,
    Grant,
    Include,
    Join,
    Leave,
    MakePrincipal,
    Recreate,
    Register,
    RemovePrincipal,
    Rename,
    Revoke,
    SetException,
    SetGuardrail,
    UnknownChange,
    change_from_text,
)
from grants.changes import (
    ChangeSet,
    can_make,
    capability_to_make,
    newest_change_job,
    preview,
    request_change_effect,
)
from grants.effects.changes import MAX_CHANGES
from grants.effects.consequences import Consequences
from grants.effects.effect import SIDE_EFFECTS, KnownEffect, RowFilter
from grants.errors import GrantError, PlanError
from grants.models import Job
from grants.plan_items import proposed_plan
from grants.policies.catalogue import GENERATIONS
from grants.policies.policy import Generation
from grants.policies.principals import group_text
from grants.policies.times import format_time
from grants.roles.capabilities import Capability

ROWS_PER_PAGE = 50
SECTION = "permissions"
# the value of the URL parameter `effect_at` for the present
PRESENT = "now"
MAX_TOP = 8
PURPOSES = {"for": "Intended", SIDE_EFFECTS: "Side effects", "beyond": "Beyond the purpose"}
CHANGES = {"gained": "Gained", "lost": "Lost"}


def loading_section(request: HttpRequest, url: str) -> dict | None:
    """Return the context of `effects/_permissions.html` that loads the section; None if the response contains the section.

    url: of the page.
    """
    if is_effect_requested(request, SECTION):
        return None
    query = request.GET.copy()
    query["preview"] = "yes"
    return {
        "is_loading": True,
        "url": f"{url}?{request.GET.urlencode()}",
        "preview_url": f"{url}?{query.urlencode()}#{SECTION}",
    }


def section_context(
    request: HttpRequest,
    effect: KnownEffect | None,
    *,
    generation: str,
    url: str,
    parameters: Iterable[tuple[str, str]] = (),
    consequences: Consequences | None,
) -> dict:
    """Return the context of `effects/_permissions.html`, except its downloads. `whole` in it is the effect at
    all times.

    effect: None if it is not known. generation: in which it was evaluated. url: of the
    page.
    parameters: of the URL of the page, without those of the section. consequences: what the changes do
    besides permissions.
    """
    parameters = list(parameters)
    if "preview" in request.GET:
        # the links of a second page lead to second pages
        parameters.append(("preview", "yes"))
    context = {
        "generation": generation,
        "generations": list(GENERATIONS),
        "active": active_generation().name,
        "url": url,
        "poll_url": f"{url}?{urlencode([*parameters, ('generation', generation)])}",
        "parameters": parameters,
        "is_open": any(name in request.GET for name in ("changes", "generation")),
        "clear_url": f"{url}?{urlencode(parameters)}" if parameters else url,
        "consequences": list(consequence_sentences(consequences)) if consequences else [],
    }
    if effect is None:
        return context
    where, whole = effect_filter(request), effect
    effect = effect_at(request, whole)
    query = [*parameters, ("generation", generation), *filter_query(where, "effect_").items()]
    total = effect.row_count(where)
    is_filtered = where != RowFilter()
    selected = effect.filtered_effect(where) if is_filtered else effect
    number = min(page_number(request, "changes"), max(1, -(-total // ROWS_PER_PAGE)))
    rows = list(islice(effect.rows(where, (number - 1) * ROWS_PER_PAGE), ROWS_PER_PAGE)) if total else []
    page = numbered_page(
        request,
        rows,
        number=number,
        total=total,
        max_rows=ROWS_PER_PAGE,
        name="changes",
    )
    return context | {
        "effect": effect,
        "page": page,
        "attached": set(filter(effect.is_attached, rows)),
        "where": where,
        "is_filtered": is_filtered,
        "is_open": context["is_open"] or is_filtered,
        "operations": effect.operation_names,
        "purposes": PURPOSES,
        "changes": CHANGES,
        "table": effect_table(selected or effect),
        "tops": top_lists((selected or effect).with_attached_intended, MAX_TOP),
        "whole": whole,
        "sentence": filtered_sentence(effect, selected) if is_filtered else effect_sentence(effect),
        "times": [
            {
                "title": time_title(number, one),
                "sentence": effect_sentence(one),
                "is_shown": one.at == effect.at,
                "url": f"{url}?{urlencode([*query, ('effect_at', _time_key(number, one))])}",
            }
            for number, one in enumerate(whole.times)
        ],
        "time": requested_time(request, whole),
        "later": later_beginnings_sentence(whole),
    }


def effect_at(request: HttpRequest, effect: KnownEffect) -> KnownEffect:
    """Return the effect at the time that the URL parameter `effect_at` names; by default, the effect itself."""
    key = requested_time(request, effect)
    return next(
        (one for number, one in enumerate(effect.times) if key and _time_key(number, one) == key), effect
    )


def requested_time(request: HttpRequest, effect: KnownEffect) -> str:
    """Return the URL parameter `effect_at` if the effect was evaluated at that time, otherwise an empty text."""
    return choice_parameter(
        request, "effect_at", [_time_key(number, one) for number, one in enumerate(effect.times)]
    )


def _time_key(number: int, effect: KnownEffect) -> str:
    return format_time(effect.at) if number else PRESENT


def effect_filter(request: HttpRequest) -> RowFilter:
    """Return which changes the filters of the section select."""
    texts = {name: text_parameter(request, f"effect_{name}") for name in ("user", "entity", "operation")}
    return RowFilter(
        **texts,
        change=choice_parameter(request, "effect_change", CHANGES),
        purpose=choice_parameter(request, "effect_purpose", PURPOSES),
    )


def filter_query(where: RowFilter, prefix: str = "") -> dict[str, str]:
    """Return the parameters of a URL for a filter."""
    return {f"{prefix}{name}": value for name, value in asdict(where).items() if value}


class EffectForm(ConsoleForm):
    """The changes of which the effect is shown."""

    generation = OptionalChoiceField(choices=lambda: [(name, name) for name in GENERATIONS])


def effect_form(request: HttpRequest) -> EffectForm:
    """Return the form in the query, or in the body if the query names no change: the forms of other changes have other
    fields.
    """
    if "change" not in request.GET:
        return EffectForm.sent(request)
    form = EffectForm(request.GET)
    form.is_valid()
    return form


def changes_from_url(request: HttpRequest) -> tuple[ChangeSet, Generation]:
    """Return the changes, and the named generation or the active one.

    Raise Http404 for unknown changes, and for none or too many.
    """
    form = effect_form(request)
    texts, name = form.data.getlist("change"), form.cleaned_data["generation"]
    if not 0 < len(texts) <= MAX_CHANGES:
        raise Http404(f"there must be from 1 to {MAX_CHANGES} changes")
    try:
        change_set = ChangeSet.of(*map(change_from_text, texts))
        for change in change_set:
            if isinstance(change, ApplyPlan):
                proposed_plan(change.plan)
    except (UnknownChange, PlanError) as error:
        raise Http404(str(error)) from None
    return change_set, GENERATIONS[name] if name else active_generation()


@require_POST
@auditor_required
def compute_effect_view(request: HttpRequest) -> HttpResponse:
    """Request the run for the changes that the form names.

    Accounts that may make the changes may request it.
    """
    change_set, generation = changes_from_url(request)
    if not can_make(request.user, change_set):
        raise PermissionDenied(read_only_message(*map(capability_to_make, change_set)))
    if preview(change_set, generation).effect is None:
        try:
            request_change_effect(
                changes=change_set,
                generation=generation.name,
                author=request_author(request),
                requested_by=request.user,
            )
        except GrantError as error:
            messages.error(request, f"{error}.")
    return effect_reload_response() if request.htmx else _page_of(change_set, generation)


@require_POST
@capability_required(Capability.RUN_ANALYSES, visible_to=[Capability.READ_ALL])
def cancel_effect_view(request: HttpRequest) -> HttpResponse:
    change_set, generation = changes_from_url(request)
    cancel_effect_run(request, newest_change_job(change_set, generation.name))
    return effect_reload_response() if request.htmx else _page_of(change_set, generation)


def cancel_effect_run(request: HttpRequest, run: Job | None) -> None:
    """Cancel the run that computes an effect. The next page says what was done; for htmx, the part of this page does."""
    is_cancelled = run is not None and cancel_run(run=run, author=request_author(request))
    if not request.htmx:
        messages.info(
            request,
            "The computation of the effect is being cancelled."
            if is_cancelled
            else "The effect is not being computed. Nothing changed.",
        )


def _page_of(change_set: ChangeSet, generation: Generation) -> HttpResponse:
    parameters = [*effect_parameters(change_set, generation.name), ("preview", "yes")]
    return see_other(f"{reverse('effect')}?{urlencode(parameters)}")


@require_safe
@auditor_required
def effect_page(request: HttpRequest) -> HttpResponse:
    """Show the effect of changes that are not made.

    URL parameters: change (see `grants.change_set.as_text`), generation.
    """
    change_set, generation = changes_from_url(request)
    section = loading_section(request, request.path) or _change_section(request, change_set, generation)
    context = {"permissions": section, "sentences": list(map(change_sentence, change_set))}
    if requested_section(request) == SECTION:
        return render_page(request, "effects/_permissions.html", context)
    return render_page(request, "effects/page.html", context)


def _change_section(request: HttpRequest, change_set: ChangeSet, generation: Generation) -> dict:
    """Return the context of the section with the effect of changes."""
    shown = preview(change_set, generation)
    parameters = [("change", text) for text in change_set.texts]
    section = section_context(
        request,
        shown.effect,
        generation=generation.name,
        url=request.path,
        parameters=parameters,
        consequences=shown.consequences,
    )
    if shown.computed.is_large:
        section["run"] = change_run_context(request, shown)
    section["stranding"] = shown.strandings
    # the page shows nothing else
    section["is_open"] = True
    if shown.effect is not None:
        at = [("effect_at", section["time"])] if section["time"] else []
        query = [
            *parameters,
            ("generation", generation.name),
            *at,
            *filter_query(section["where"], "effect_").items(),
        ]
        section["downloads"] = download_links(
            EffectRows, lambda extension: reverse("effect-file", args=[extension], query=query)
        )
    return section


@require_safe
@auditor_required
def download_effect(request: HttpRequest, extension: str) -> HttpResponseBase:
    """Return the changed permissions as a file. URL parameters: those of the page."""
    if extension not in EffectRows.extensions:
        raise Http404("there is no such file")
    shown = preview(*changes_from_url(request))
    if shown.effect is None:
        reason = shown.computed.too_large or "the effect is being computed"
        return HttpResponse(f"{reason}.\n", content_type="text/plain; charset=utf-8", status=409)
    listed = EffectRows(request.user, {"where": effect_filter(request)}, effect_at(request, shown.effect))
    return list_file(listed, extension)


def change_sentence(change: Change) -> str:
    """Return what a change does, such as `Grant READ on dataset:sales.orders to user:alice`."""
    match change:
        case Grant(principal, address, privilege, validity):
            return f"Grant {privilege} on {address} to {principal} {validity.sentence}".strip()
        case Revoke(principal, address, privilege):
            return f"Revoke {privilege} on {address} from {principal}"
        case Join(user, group, validity):
            return f"Add user:{user} to {group_text(group)} {validity.sentence}".strip()
        case Leave(user, group):
            return f"Remove user:{user} from {group_text(group)}"
        case Include(group, role, validity):
            return f"Add {group_text(group)} to {group_text(role)} {validity.sentence}".strip()
        case Exclude(group, role):
            return f"Remove {group_text(group)} from {group_text(role)}"
        case AddUser() | AddGroup():
            return f"Add {change}"
        case Activate(user):
            return f"Activate user:{user}"
        case Deactivate(user):
            return f"Deactivate user:{user}"
        case MakePrincipal(user):
            return f"Make the account user:{user} a principal"
        case SetGuardrail(guardrail):
            return f"Write guardrail {guardrail}"
        case DeleteGuardrail(guardrail):
            return f"Delete guardrail {guardrail}"
        case SetException() | EndException():
            return f"{'Make' if isinstance(change, SetException) else 'End'} {change}"
        case ActivateGeneration(generation):
            return f"Activate generation {generation.name}"
        case ApplyPlan():
            return f"Apply {change}"
        case Register(address, creator) | Recreate(address, creator):
            return f"Make {address} live" + (f", created by {creator}" if creator else "")
        case Delete(address):
            return f"Delete {address}"
        case RemovePrincipal(principal):
            return f"Remove {principal}"
        case Rename(principal, new_name):
            return f"Rename {principal} to {new_name}"
