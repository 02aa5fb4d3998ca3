"""The list of plans, and the page of one plan: its effect on permissions, what it does not keep, the activation for which
it is made, its items, and the forms that apply, discard, undo, renew and copy.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from itertools import islice
from urllib.parse import urlencode

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.http import require_safe

from analytics.analyses import AnalysisName
from authzconsole.common.messages import as_sentence
from authzconsole.lists.files import download_links
from authzconsole.lists.plans import EffectRows, KeptNotRows
from authzconsole.web.effects.forms import effect_reload_response, effect_url, run_context, unknown_effect
from authzconsole.web.effects.page import cancel_effect_run, filter_query, loading_section, section_context
from authzconsole.web.effects.wording import button_numbers, effect_sentence, sentence_part
from authzconsole.web.forms import (
    AddressField,
    ConsoleForm,
    FlagField,
    ForAdministrators,
    FormPage,
    NameInput,
    OptionalChoiceField,
    PeriodForm,
    PrincipalField,
    TextField,
    optional,
)
from authzconsole.web.shared.guard import capability_required, request_author
from authzconsole.web.shared.levels import side_effect_sentences
from authzconsole.web.shared.links import principal_link
from authzconsole.web.shared.paging import numbered_page, page_number, paginate_sequence
from authzconsole.web.shared.parameters import choice_parameter, text_parameter
from authzconsole.web.shared.rendering import render_page, requested_section, see_other
from entities.vocabulary import KINDS, quantity
from grants.authority.four_eyes import application_fault
from grants.change_set import ActivateGeneration, as_text
from grants.changes import Shown
from grants.effects.effect import SIDE_EFFECTS, TOO_LARGE
from grants.effects.large import Computed
from grants.errors import PlanError, StaleBase
from grants.guardrails.check import AddedViolations
from grants.jobs import redis_problem
from grants.models import JobState, Plan, PlanState, PlanVerb
from grants.plans.application import (
    cancel_application,
    large_change_count,
    newest_application,
    previewed_violations,
    request_application,
)
from grants.plans.apply import apply_plan, discard_plan, inverse_plan
from grants.plans.counts import (
    PrincipalEffect,
    PrincipalEffects,
    Tally,
    change_count,
    changing_items,
    plan_counts,
)
from grants.plans.create import PlanOrigin, period_of_recipe
from grants.plans.permission_effect import (
    computed_plan_effect,
    generation_of_plan,
    newest_plan_job,
    plan_consequences,
    planned_grant_count,
    request_plan_effect,
)
from grants.plans.regrants.kept_not import kept_not_of_plan
from grants.plans.renew import can_renew, renew_plan
from grants.plans.sources.copy import copy_plan
from grants.plans.sources.unused import with_last_use
from grants.plans.staleness import invalidating_line, line_summary
from grants.plans.stranding import stranded_entities
from grants.policies.catalogue import GENERATIONS
from grants.policies.principals import ROLE_PREFIX
from grants.policies.times import format_time
from grants.roles.capabilities import Capability
from grants.scheduled_activation import ScheduledActivation, scheduled_activation

PLANS_PER_PAGE = 25
PRINCIPALS_PER_PAGE = 20
ITEMS_PER_PAGE = 50
MAX_STRANDED = 12
# by the stored origin of a plan: why or from what it was created, after "Created"
ORIGIN_LABELS = {
    "change-set": "from a question",
    "copy": "as a copy",
    "readiness": "to make a namespace deletable",
    AnalysisName.POLICY_IMPACT: "to keep current permissions",
    "inverse": "to undo a plan",
    "subtree": "as a bulk change",
    "selection": "from selected entities",
    "ghosts": "to revoke leftover grants",
    PlanOrigin.REDUNDANT: "to take away redundant access",
    PlanOrigin.UNUSED: "to revoke unused grants",
    PlanOrigin.OUTLIERS: "to take away selected privileges",
    PlanOrigin.PATTERNS: "to narrow patterns",
    PlanOrigin.ROLE_MINING: "to replace direct grants by groups",
    "expired": "to remove expired access",
    "file": "from a file",
    "off-boarding": "to off-board",
    "like": "to give access like a colleague",
    PlanOrigin.REQUEST: "from an access request",
    PlanOrigin.REVIEW: "from an access review",
    PlanOrigin.MEMBERS: "from a list of members",
    PlanOrigin.SYNC: "from a platform",
}


class CopyForm(PeriodForm):
    """A copy of the direct grants of one principal to another."""

    source = PrincipalField(label="From", required=True)
    target = PrincipalField(label="To", required=True)
    within = AddressField(
        label=optional("Limit to namespace"), placeholder="namespace:NAME", widget=NameInput()
    )


class PlanList(FormPage):
    """List the plans, with the form that creates one from a copy."""

    http_method_names = ("get", "head")
    capabilities = (Capability.READ_ALL,)
    form_class = CopyForm
    template_name = "plans/list.html"

    def get_context_data(self, **context) -> dict:
        state = choice_parameter(self.request, "state", PlanState.values)
        rows = Plan.objects.filter(**{"state": state} if state else {}).order_by("-pk")
        page = paginate_sequence(self.request, rows, max_rows=PLANS_PER_PAGE)
        return super().get_context_data(**context) | {
            "page": page,
            "rows": [(plan, origin_label(plan)) for plan in page.rows],
            "state": state,
            "states": PlanState.values,
            "can_change": self.request.user.can_administer,
        }


def origin_label(plan: Plan) -> str:
    return ORIGIN_LABELS.get(plan.origin, plan.origin)


def plan_url(plan: Plan) -> str:
    return reverse("plan", args=[plan.pk])


def _effects(request: HttpRequest, plan: Plan) -> dict:
    page = paginate_sequence(
        request,
        PrincipalEffects(plan, plan.effect["principals"]),
        max_rows=PRINCIPALS_PER_PAGE,
        name="principals",
    )
    return {"page": page, "rows": [_effect_row(effect) for effect in page.rows]}


def _effect_row(effect: PrincipalEffect) -> dict:
    return {
        "principal": replace(principal_link(effect.principal), members=effect.members),
        "effect": effect,
        "gains": _tally_counts(effect.gains),
        "losses": _tally_counts(effect.losses),
    }


def _tally_counts(tally: Tally) -> list[tuple]:
    """Return (privilege, counts) such as (ADMIN, `3 datasets, 1 stream`), with kinds in the order of the
    vocabulary.
    """
    counts: dict[str, list[str]] = {}
    for kind in KINDS.values():
        for (kind_name, privilege), total in tally.items():
            if kind_name == kind.name:
                counts.setdefault(privilege, []).append(quantity(total, kind.title, kind.plural))
    return [(privilege, ", ".join(counts[privilege])) for privilege in sorted(counts)]


def _items(request: HttpRequest, plan: Plan) -> dict:
    rows, shows_use = plan.items.order_by("position"), plan.origin == PlanOrigin.UNUSED
    if shows_use:
        rows = with_last_use(rows)
    return {
        "page": paginate_sequence(request, rows, max_rows=ITEMS_PER_PAGE, name="items"),
        "shows_use": shows_use,
    }


@require_safe
@capability_required(Capability.READ_ALL)
def plan_page(request: HttpRequest, pk: int) -> HttpResponse:
    return render_plan(request, plan_or_404(pk))


def plan_or_404(pk: int) -> Plan:
    return get_object_or_404(Plan.objects.select_related("inverse_of", "renewal_of"), pk=pk)


def render_plan(
    request: HttpRequest, plan: Plan, form: ConsoleForm | None = None, *, status: int = 200
) -> HttpResponse:
    """Render the page of a plan, or the one section that htmx requests. form: what was sent, if it was refused."""
    name = requested_section(request)
    if name in SECTIONS:
        section = SECTIONS[name](request, plan)
        context = {"plan": plan, name: section}
        if name == "permissions" and section:
            application = SECTIONS["application"](request, plan)
            if _is_confirmable(plan, _schedule_of(plan), application):
                context["to_confirm"] = confirmation_context(plan, section)
        response = render_page(request, f"plans/_{name}.html", context)
        if name == "application" and not (section and section["is_running"]):
            # everything outside of the section may have changed
            response["HX-Refresh"] = "true"
        return response
    line = invalidating_line(plan) if plan.is_proposed else None
    stale = f"This plan is stale. Changed since it was created: {line_summary(line)}." if line else ""
    has_ended = _must_not_end(plan) and plan.items.filter(valid_until__lte=timezone.now()).exists()
    if has_ended and plan.origin == PlanOrigin.REVIEW:
        stale = stale or "A new end in this plan has passed. Renew the plan: it then revokes this access."
    sections = {name: section(request, plan) for name, section in SECTIONS.items()}
    total_stranded = stranded_count(plan)
    scheduled = _schedule_of(plan)
    counts = shown_counts(plan)
    return render_page(
        request,
        "plans/page.html",
        {
            "plan": plan,
            "origin": origin_label(plan),
            "counts": counts,
            "form": form,
            "reason": form["reason"].value() if form else text_parameter(request, "reason"),
            "can_change": request.user.can_administer,
            "second_person": application_fault(request_author(request), plan),
            "ended": has_ended and not stale,
            "stale": stale,
            "can_renew": can_renew(plan),
            "period": period_of_recipe(plan),
            "period_form": RenewalForm() if _gives_access(plan) else None,
            "changes": change_count(plan_counts(plan)),
            "large_count": large_change_count(plan) if plan.is_proposed else 0,
            "change_phrases": list(change_phrases(counts)),
            "total_stranded": total_stranded,
            "stranded": stranded_entities(plan, max_rows=MAX_STRANDED),
            "stranded_more": max(0, total_stranded - MAX_STRANDED),
            "activation": activation_of_plan(plan),
            "scheduled": scheduled,
            "undo_plan": plan.inverses.order_by("-pk").first(),
            **sections,
            "to_confirm": confirmation_context(plan, sections["permissions"])
            if _is_confirmable(plan, scheduled, sections["application"])
            else None,
        },
        status=status,
    )


def _schedule_of(plan: Plan) -> ScheduledActivation | None:
    """Return the scheduled activation with which a proposed plan is applied. Runs at most one query."""
    scheduled = scheduled_activation() if plan.is_proposed else None
    return scheduled if scheduled and scheduled.plan == plan.pk and not scheduled.refusal else None


def _is_confirmable(plan: Plan, scheduled: ScheduledActivation | None, application: Mapping | None) -> bool:
    """Return whether the page has the form that applies the plan. A job that applies it holds the lock of the journal, for
    which the computation of violations would wait. application: the section of the job.
    """
    return plan.is_proposed and not scheduled and not (application and application["is_running"])


def _gives_access(plan: Plan) -> bool:
    return (
        can_renew(plan)
        and plan.origin != PlanOrigin.INVERSE
        and bool(plan.effect["grants"] + plan.effect["joins"])
    )


def _must_not_end(plan: Plan) -> bool:
    """Return whether the plan is refused if one of its periods has ended when it is applied. A plan that
    undoes another one restores them."""
    return plan.is_proposed and plan.origin != PlanOrigin.INVERSE


def stranded_count(plan: Plan) -> int:
    """Return how many entities would have fewer than two active ADMIN holders."""
    return plan.effect["stranded_none"] + plan.effect["stranded_one"]


CHANGE_NOUNS = {
    "registrations": ("new entity", "new entities"),
    "recreations": ("recreated entity", "recreated entities"),
    "deletions": ("deleted entity", "deleted entities"),
    "users": ("new user", "new users"),
    "groups": ("new group", "new groups"),
    "roles": ("new role", "new roles"),
    "grants": ("grant", "grants"),
    "revokes": ("revocation", "revocations"),
    "joins": ("new membership", "new memberships"),
    "leaves": ("ended membership", "ended memberships"),
    "activations": ("activation", "activations"),
    "deactivations": ("deactivation", "deactivations"),
    "removals": ("removed group", "removed groups"),
    "removed_roles": ("removed role", "removed roles"),
}
# the counts of groups and of roles, by the verb of the items; the stored count is that of both
GROUP_COUNTS = {PlanVerb.ADD: ("groups", "roles"), PlanVerb.REMOVE: ("removals", "removed_roles")}


def shown_counts(plan: Plan) -> dict[str, int]:
    """Return the counts of a plan with roles apart from groups. Runs a query for added ones, and one for removed ones."""
    counts = plan_counts(plan)
    for verb, (groups, roles) in GROUP_COUNTS.items():
        if counts[groups]:
            rows = changing_items(plan).filter(verb=verb, principal_name__startswith=ROLE_PREFIX)
            counts[roles] = rows.count()
            counts[groups] -= counts[roles]
    return counts


def change_phrases(counts: Mapping[str, int]) -> Iterator[str]:
    """Yield the counts of the changes, such as `3 grants` and `1 deactivation`. counts: see `shown_counts`."""
    for name, nouns in CHANGE_NOUNS.items():
        if counts.get(name):
            yield quantity(counts[name], *nouns)


ROWS_PER_PAGE = 25


def permissions_section(request: HttpRequest, plan: Plan) -> dict | None:
    """Return the context of the section; None for a plan without a known effect.

    An applied plan has the effect that it had when it was applied, if the data before it is known.
    """
    if plan.state == PlanState.DISCARDED:
        return None
    url = plan_url(plan)
    if loading := loading_section(request, url):
        return loading
    generation = choice_parameter(request, "generation", GENERATIONS) or generation_of_plan(plan).name
    try:
        known = computed_plan_effect(plan, generation)
    except PlanError:
        return None
    if known.effect is None and not plan.is_proposed:
        return None
    query = urlencode({"generation": generation})
    run = (
        run_context(
            request,
            known,
            can_make=request.user.can_administer,
            compute_url=f"{reverse('plan-effect', args=[plan.pk])}?{query}",
            cancel_url=f"{reverse('plan-effect-cancel', args=[plan.pk])}?{query}",
        )
        if known.is_large
        else None
    )
    section = section_context(
        request, known.effect, generation=generation, url=url, consequences=plan_consequences(plan)
    )
    if plan.is_proposed and (planned := planned_grant_count(plan)):
        section["consequences"].append(
            f"{quantity(planned, 'grant is', 'grants are')} on planned addresses: nothing changes until the entities are live."
        )
    downloads = {"downloads": _downloads(plan, generation, section)} if section.get("effect") else {}
    note = "" if plan.is_proposed else "Computed with the data before the plan was applied."
    own = generation_of_plan(plan).name
    other = (
        {"other_generation": own, "other_url": f"{url}?{urlencode({'generation': own})}"}
        if own != generation
        else {}
    )
    return section | downloads | other | {"run": run, "plan": plan, "note": note}


def confirmation_context(plan: Plan, section: dict) -> dict:
    """Return the context of `effects/_actions.html` for the form that applies the plan.

    It is the effect in the generation of the plan. It names this generation if the section shows another one,
    or if it is not the active one.
    """
    if "is_loading" in section:
        return {"is_loading": True}
    effect, run, own = section.get("whole"), section["run"], generation_of_plan(plan).name
    known = Computed(effect)
    if section["generation"] != own:
        known = computed_plan_effect(plan, own)
        effect, run = known.effect, None
    if effect is None:
        return {"digest": TOO_LARGE} | unknown_effect(known, run)
    gained = effect.max_side_effects
    confirmation = f"Accept {quantity(gained, 'permission', 'permissions')} as side effects" if gained else ""
    sentence, numbers = effect_sentence(effect), button_numbers(effect.tally)
    added = previewed_violations(plan) or AddedViolations()
    if {section["generation"], section["active"]} != {own}:
        sentence, numbers = (
            f"In {own}, the plan {sentence_part(sentence)}",
            f"{numbers} in {own}" if numbers else "",
        )
    return {
        "digest": effect.digest,
        "confirmation": confirmation,
        "side_effects": side_effect_sentences(effect) if gained else [],
        "side_effects_url": f"{plan_url(plan)}?{urlencode({'generation': own, 'effect_purpose': SIDE_EFFECTS})}#permissions"
        if gained
        else "",
        "sentence": sentence,
        "numbers": numbers,
        "is_wide": bool(gained),
        # accounts that open plans see all grants
        "guardrails": list(map(as_sentence, added.sentences)),
        "is_blocked": bool(added.blocked),
    }


def _downloads(plan: Plan, generation: str, section: dict) -> list[tuple[str, str]]:
    at = {"at": format_time(section["effect"].at)} if section["time"] else {}
    query = {"generation": generation} | at | filter_query(section["where"])
    return download_links(
        EffectRows, lambda extension: reverse(f"plans_effect_rows_{extension}", args=[plan.pk], query=query)
    )


def kept_not_section(request: HttpRequest, plan: Plan) -> dict | None:
    """Return the context of the section; None if the plan kept everything when it was created.

    Only the namespaces of the rows up to the page are read.
    """
    stored = plan.recipe.get("kept_not", 0)
    if not plan.is_proposed or not stored:
        return None
    number = page_number(request, "kept_not")
    first_row = (number - 1) * ROWS_PER_PAGE
    found = list(islice(kept_not_of_plan(plan, first_row), ROWS_PER_PAGE + 1))
    page = numbered_page(
        request,
        found[:ROWS_PER_PAGE],
        number=number,
        total=max(stored, first_row + len(found)) if found else first_row,
        max_rows=ROWS_PER_PAGE,
        name="kept_not",
    )
    return {
        "page": page,
        "total": stored,
        "before": plan.recipe["generation"],
        "downloads": download_links(
            KeptNotRows, lambda extension: reverse(f"plans_kept_not_rows_{extension}", args=[plan.pk])
        ),
    }


def application_section(request: HttpRequest, plan: Plan) -> dict | None:
    """Return the context of the newest job that applies a proposed plan; None if there is none."""
    job = newest_application(plan) if plan.is_proposed else None
    if job is None:
        return None
    is_waiting = job.state == JobState.WAITING
    return {
        "job": job,
        "is_running": not job.is_finished,
        "waiting_reason": redis_problem() if is_waiting else "",
        "error": f"Nothing was changed: {job.error.removesuffix('.')}.",
        "can_cancel": request.user.can_administer and job.cancel_requested_at is None,
    }


# by the id of the section; its template is plans/_<id>.html
SECTIONS: dict[str, Callable[[HttpRequest, Plan], dict | None]] = {
    "application": application_section,
    "permissions": permissions_section,
    "kept_not": kept_not_section,
    "effects": _effects,
    "items": _items,
}


def activation_of_plan(plan: Plan) -> dict | None:
    """Return the context of `plans/_activation.html` for a plan; None if it is no plan of regrants."""
    recipe = plan.recipe
    if (
        plan.origin != PlanOrigin.POLICY_IMPACT
        or not {recipe["generation"], recipe["to_generation"]} <= GENERATIONS.keys()
    ):
        return None
    activation = activation_context(recipe["generation"], recipe["to_generation"], recipe.get("activation"))
    return activation | {"has_plan": True}


def activation_context(before: str, after: str, counts: Mapping[str, int] | None) -> dict:
    """Return the context of `plans/_activation.html`.

    before, after: names of generations. counts: `Regrants.activation`; None if it is not known, as for plans
    of older versions.
    """
    query = urlencode({"generation": before, "effect_change": "gained"})
    return {
        "before": before,
        "after": after,
        "counts": counts,
        "list_url": f"{effect_url([as_text(ActivateGeneration(GENERATIONS[after]))])}&{query}",
    }


UNCONFIRMED = (
    "Nothing was changed. Confirm that entities will have fewer than two ADMIN holders, or discard the plan."
)


class PlanForm(ConsoleForm):
    """What the forms on the page of a plan send."""

    reason = TextField()
    strand = FlagField()
    effect = TextField()
    beyond = FlagField()
    generation = OptionalChoiceField(choices=lambda: [(name, name) for name in GENERATIONS])


class PlanAction(ForAdministrators, FormPage):
    """Do something with a plan, and show a plan again."""

    http_method_names = ("post",)
    form_class = PlanForm

    def prepare(self) -> None:
        self.plan = plan_or_404(self.kwargs["pk"])

    def render_to_response(self, context: Mapping, *, status: int = 200) -> HttpResponse:
        # its state may have changed
        return render_plan(self.request, plan_or_404(self.plan.pk), context["form"], status=status)


class ApplyPlanForm(PlanForm):
    refusal = "Nothing was changed"

    def refuse(self, error: Exception) -> None:
        # the page shows what changed since a stale plan was created
        if not isinstance(error, StaleBase):
            super().refuse(error)


class ApplyPlan(PlanAction):
    form_class = ApplyPlanForm

    def perform(self, form: ApplyPlanForm) -> HttpResponse:
        values, plan = form.cleaned_data, self.plan
        if plan.is_proposed and stranded_count(plan) and not values["strand"]:
            form.add_error(None, UNCONFIRMED)
            return self.form_invalid(form)
        shown = Shown(
            values["effect"], is_required=True, accepts_beyond=values["beyond"], accepts_attached=True
        )
        author = self.author(form)
        if plan.is_proposed and large_change_count(plan):
            request_application(author=author, plan_id=plan.pk, shown=shown)
            return see_other(plan_url(plan))
        applied = apply_plan(author=author, plan_id=plan.pk, shown=shown)
        messages.success(self.request, f"Plan {applied.pk} is applied: {_change_summary(applied)}.")
        return see_other(plan_url(applied))


def _change_summary(plan: Plan) -> str:
    return (
        ", ".join(change_phrases(shown_counts(plan)))
        or "all items were already in place, and nothing changed"
    )


class CancelApplication(PlanAction):
    """Cancel the job that applies a plan."""

    def perform(self, form: PlanForm) -> HttpResponse:
        is_cancelled = cancel_application(self.plan, author=request_author(self.request))
        text = "is being cancelled" if is_cancelled else "has ended already"
        messages.info(self.request, f"The application of plan {self.plan.pk} {text}.")
        return see_other(plan_url(self.plan))


class DiscardPlan(PlanAction):
    def perform(self, form: PlanForm) -> HttpResponse:
        plan = discard_plan(author=request_author(self.request), plan_id=self.plan.pk)
        messages.success(self.request, f"Plan {plan.pk} is discarded.")
        return see_other(plan_url(plan))


class UndoPlan(PlanAction):
    def perform(self, form: PlanForm) -> HttpResponse:
        plan = inverse_plan.create(request_author(self.request), self.plan.pk)
        text = (
            f"This plan reverts the changes of plan {plan.inverse_of_id}. Nothing changes until you apply it."
        )
        messages.success(self.request, text)
        return see_other(plan_url(plan))


class RenewalForm(PeriodForm):
    """The period to which a new plan is limited; without one, the plan keeps that of the old plan."""

    reason = TextField()


class RenewPlan(PlanAction):
    """Replace a stale plan, or one that is to be limited to a period. The reason that was entered is prefilled again."""

    form_class = RenewalForm

    def perform(self, form: RenewalForm) -> HttpResponse:
        period = None if form.is_period_empty else form.cleaned_data["validity"]
        plan = renew_plan(author=request_author(self.request), plan_id=self.plan.pk, period=period)
        text = (
            "This plan was renewed from the current grants. Review it before you apply it."
            if period is None
            else "This plan gives the same access, limited to the period."
        )
        messages.success(self.request, text)
        reason = form.cleaned_data["reason"]
        return see_other(f"{plan_url(plan)}?{urlencode({'reason': reason})}" if reason else plan_url(plan))


class PlanEffectAction(PlanAction):
    """Do something with the run that computes the effect of a plan. The generation is in the URL, or in the form."""

    def generation(self, form: PlanForm) -> str:
        named = choice_parameter(self.request, "generation", GENERATIONS) or form.cleaned_data["generation"]
        return named or generation_of_plan(self.plan).name

    def updated_page(self, generation: str) -> HttpResponse:
        if self.request.htmx:
            return effect_reload_response()
        query = urlencode({"generation": generation, "preview": "yes"})
        return see_other(f"{plan_url(self.plan)}?{query}#permissions")


class ComputePlanEffect(PlanEffectAction):
    """Request the run that computes the effect of a plan above the limits."""

    def perform(self, form: PlanForm) -> HttpResponse:
        generation = self.generation(form)
        request_plan_effect(
            plan=self.plan,
            generation=generation,
            author=request_author(self.request),
            requested_by=self.request.user,
        )
        return self.updated_page(generation)


class CancelPlanEffect(PlanEffectAction):
    """Cancel the run that computes the effect of a plan."""

    capabilities = (Capability.RUN_ANALYSES,)

    def perform(self, form: PlanForm) -> HttpResponse:
        generation = self.generation(form)
        cancel_effect_run(self.request, newest_plan_job(self.plan, generation))
        return self.updated_page(generation)


class CopyGrants(ForAdministrators, PlanList):
    """Create a plan that copies the direct grants of one principal to another."""

    http_method_names = ("post",)

    def perform(self, form: CopyForm) -> HttpResponse:
        values = form.cleaned_data
        names = {name: values[name] for name in ("source", "target", "within")}
        plan = copy_plan.create(request_author(self.request), period=values["validity"], **names)
        return see_other(plan_url(plan))
