"""The policies of one generation, or of two side by side, and the form that activates a generation."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import datetime
from functools import cached_property

from django.contrib import messages
from django.core.exceptions import ValidationError
from django.db.models import Q
from django.http import Http404, HttpRequest, HttpResponse
from django.urls import reverse
from django.utils.html import format_html
from django.views.decorators.http import require_safe

from analytics.analyses import AnalysisName
from analytics.models import AnalysisRun
from analytics.runs.selectors import changes_since
from authzconsole.common.messages import as_sentence
from authzconsole.web.accounts.reauthentication import recent_authentication_required
from authzconsole.web.effects.forms import EffectPage
from authzconsole.web.forms import (
    ConsoleForm,
    FlagField,
    FormPage,
    FormRefused,
    StrictChoiceField,
    TimeField,
    optional,
    reason_field,
)
from authzconsole.web.shared.guard import request_author
from authzconsole.web.shared.paging import url_with
from authzconsole.web.shared.parameters import choice_parameter
from authzconsole.web.shared.rendering import render_page, see_other, show_outcome
from authzconsole.web.shared.times import exact_time, zone_hint
from entities.vocabulary import KINDS, Kind, Privilege
from grants.active_generation import (
    activation_fault,
    active_generation,
    latest_proposal,
    propose_generation,
    proposed_name,
)
from grants.changes import ChangeSet, Outcome
from grants.journal import lock_journal
from grants.models import JobState, Plan, PlanState
from grants.plans.create import PlanOrigin
from grants.plans.regrants.compute import create_plan_of_regrants
from grants.plans.staleness import invalidating_line
from grants.policies.catalogue import GENERATIONS
from grants.policies.policy import Generation, mapping_of
from grants.policies.question import Question
from grants.policies.wording import kinds_in_words, requirement_in_words, rule_in_words
from grants.roles.capabilities import Capability
from grants.scheduled_activation import (
    activation_changes,
    cancel_activation,
    schedule_activation,
    scheduled_activation,
)

MAX_PLANS = 5
# the plans that can be applied with an activation
MAX_CHOICES = 50


def row_id(kind: str, operation: str) -> str:
    """Return the HTML id of the row of an operation."""
    return f"{kind}-{operation}"


def row_url(question: Question) -> str:
    """Return the URL of the policy that decides a question; empty if there is none, as for a plain privilege."""
    target = question.target
    if target is None or question.policy is None or question.operation not in KINDS[target.kind].operations:
        return ""
    return f"{reverse('policies')}?generation={question.generation}#{row_id(target.kind, question.operation)}"


@require_safe
def policies_page(request: HttpRequest) -> HttpResponse:
    """Show one generation, or two side by side. All accounts see the same page."""
    active = active_generation()
    generation = GENERATIONS[choice_parameter(request, "generation", GENERATIONS) or active.name]
    other = GENERATIONS.get(choice_parameter(request, "with", GENERATIONS))
    if other == generation:
        other = None
    displayed = [generation] if other is None else [generation, other]
    kind = choice_parameter(request, "kind", KINDS)
    only_differences = other is not None and request.GET.get("only") == "differences"
    tables = [
        _table(KINDS[name], generation, other, only_differences=only_differences)
        for name in ([kind] if kind else KINDS)
    ]
    return render_page(
        request,
        "policies/page.html",
        {
            "active": active,
            "generation": generation,
            "other_generation": other,
            "kind": kind,
            "only_differences": only_differences,
            "only_url": url_with(request, only=None if only_differences else "differences"),
            "tables": [table for table in tables if table["rows"]],
            "lifecycle": displayed,
            "mappings": [
                _permission_tables(item, [kind] if kind else list(KINDS))
                for item in displayed
                if item.platform_permissions
            ],
            "activation": scheduled_activation(),
            "can_cancel": request.user.can(Capability.MANAGE_SETTINGS),
            "can_see_guardrails": request.user.can(Capability.READ_ALL),
            "differences": sum(table["differences"] for table in tables),
            "url": reverse("policies"),
            "can_activate": [item for item in displayed if item != active]
            if request.user.can(Capability.MANAGE_SETTINGS)
            else [],
            "generations": list(GENERATIONS.values()),
            "kinds": [item for item in KINDS.values() if item.operations],
        },
    )


def _table(kind: Kind, generation: Generation, other: Generation | None, *, only_differences: bool) -> dict:
    rows = list(_rows(kind, generation, other))
    return {
        "kind": kind,
        "title": kind.plural.capitalize(),
        "differences": sum(row["differs"] for row in rows),
        "rows": [row for row in rows if row["differs"] or not only_differences],
    }


def _rows(kind: Kind, generation: Generation, other: Generation | None) -> Iterator[dict]:
    for operation in kind.operations:
        policy = generation.policy(kind.name, operation)
        other_policy = other.policy(kind.name, operation) if other else None
        yield {
            "operation": operation,
            "id": row_id(kind.name, operation),
            "cells": [
                {"policy": item, "requirement": rule_in_words(item)}
                for item in (policy, other_policy)
                if item
            ],
            "differs": other_policy is not None and policy.requirement != other_policy.requirement,
        }


def _permission_tables(generation: Generation, kinds: Sequence[str]) -> dict:
    """Return the rows of the two tables of platform permissions: what each requires, and what each privilege gives."""
    return {
        "generation": generation,
        "rows": [
            {
                "mapping": row,
                "kinds": kinds_in_words(row, generation),
                "requirement": requirement_in_words(row.requirement),
            }
            for row in generation.platform_permissions
            if any(mapping_of(generation.platform_permissions, row.permission, kind) == row for kind in kinds)
        ],
        "privileges": list(Privilege),
        "given": [
            {
                "title": KINDS[kind].title,
                "cells": [generation.given_permissions(privilege, kind) for privilege in Privilege],
            }
            for kind in kinds
        ],
    }


class ActivationForm(ConsoleForm):
    """The activation of a generation.

    propose: propose the generation to a second person.
    plan: the number of a plan that is applied with it. keep: create the plan that keeps current permissions.
    at: when it becomes active; None for now.
    from: the generation that was active when the form was shown.
    """

    id_pattern = "activation-%s"

    propose = FlagField()
    keep = FlagField()
    plan = StrictChoiceField(label=optional("Apply with it"))
    at = TimeField(label=optional("Activate later"))
    reason = reason_field()

    def __init__(self, *args, plans: Sequence[Plan] = (), **kwargs):
        super().__init__(*args, **kwargs)
        self.fields["plan"].choices = [
            ("", "No plan"),
            *((str(row.pk), f"Plan {row.pk}: {row.title}") for row in plans),
        ]
        self.fields["at"].help_text = format_html(
            "If its effect is another one by then, nothing is changed, and the overview says why. {}",
            zone_hint(),
        )

    @property
    def time(self) -> datetime | None:
        """The valid time in the form, also before it is sent; None if there is none."""
        try:
            return self.fields["at"].clean(self["at"].value() or "")
        except ValidationError:
            return None

    def clean_plan(self) -> int | None:
        return int(self.cleaned_data["plan"]) if self.cleaned_data["plan"] else None

    @property
    def active_name(self) -> str:
        return self.data.get("from", "")


class ActivationPage(EffectPage):
    """Show the impact of activating a generation, and activate or propose it."""

    capabilities = (Capability.MANAGE_SETTINGS,)
    visible_to = (Capability.READ_ALL,)
    decorators = (recent_authentication_required,)
    form_class = ActivationForm
    template_name = "policies/activate.html"

    @property
    def change_name(self) -> str:
        at = ActivationForm.sent(self.request).time
        return f"Activate generation {self.generation.name}{f' at {exact_time(at)}' if at else ''}"

    def prepare(self) -> None:
        if self.kwargs["name"] not in GENERATIONS:
            raise Http404("there is no such generation")
        self.generation = GENERATIONS[self.kwargs["name"]]

    @property
    def shows_effect(self) -> bool:
        return active_generation() != self.generation

    def get_form_kwargs(self) -> dict:
        return super().get_form_kwargs() | {"plans": self.plans}

    @cached_property
    def plans(self) -> list[Plan]:
        """The proposed plans that can be applied with the activation, those that keep permissions across it first."""
        if not self.request.user.can(Capability.CHANGE_GRANTS):
            return []
        keeps = Q(
            origin=PlanOrigin.POLICY_IMPACT,
            recipe__generation=active_generation().name,
            recipe__to_generation=self.generation.name,
        )
        rows = Plan.objects.filter(state=PlanState.PROPOSED).annotate(keeps=keeps)
        return list(rows.order_by("-keeps", "-pk")[:MAX_CHOICES])

    def change_set(self, form: ActivationForm) -> ChangeSet:
        return activation_changes(self.generation, form.cleaned_data["plan"])

    def check(self, form: ActivationForm) -> None:
        if form.cleaned_data["propose"]:
            return
        lock_journal()
        if form.active_name != active_generation().name:
            raise FormRefused(
                "nothing was changed: another generation was activated in the meantime. Review the new comparison",
                status=409,
            )

    @cached_property
    def keeping_plan(self) -> Plan | None:
        """The newest plan that keeps permissions across the activation, if it is not stale."""
        plan = next((plan for plan in self.plans if plan.keeps), None)
        return plan if plan and invalidating_line(plan) is None else None

    def perform(self, form: ActivationForm) -> HttpResponse:
        if not form.cleaned_data["keep"]:
            return super().perform(form)
        plan, _ = create_plan_of_regrants(
            author=request_author(self.request), before=active_generation(), after=self.generation
        )
        if plan is None:
            raise FormRefused("no plan was created: no grant can keep a permission without giving others")
        typed = {name: text for name in ("at", "reason") if (text := form[name].value())}
        query = {"plan": plan.pk} | typed
        return see_other(reverse("generation-activate", kwargs=self.kwargs, query=query))

    def make(self, form: ActivationForm) -> Outcome:
        author = self.author(form)
        if at := form.cleaned_data["at"]:
            return schedule_activation(
                author=author,
                generation=self.generation,
                at=at,
                shown=self.shown(form),
                plan=form.cleaned_data["plan"],
            )
        if not form.cleaned_data["propose"]:
            return super().make(form)
        return propose_generation(author=author, name=self.generation.name)

    def done(self, form: ActivationForm, outcome: Outcome) -> HttpResponse:
        if (at := form.cleaned_data["at"]) and outcome.has_changed and not form.cleaned_data["propose"]:
            # the sentence names the time in the time zone of the reader
            with_plan = f" with plan {form.cleaned_data['plan']}" if form.cleaned_data["plan"] else ""
            sentence = (
                f"`{self.generation.name}` becomes the active generation{with_plan} at {exact_time(at)}"
            )
            outcome = replace(outcome, sentence=sentence)
        show_outcome(self.request, outcome)
        plan = None if form.cleaned_data["propose"] else form.cleaned_data["plan"]
        # from there, its changes can be undone
        return see_other(reverse("plan", args=[plan]) if plan and not at else reverse("policies"))

    def get_context_data(self, **context) -> dict:
        context, generation = super().get_context_data(**context), self.generation
        second_person = activation_fault(request_author(self.request), generation.name)
        context |= {
            "second_person": second_person,
            "button": self._button(context["form"], is_proposal=bool(second_person)),
            "is_danger": not second_person,
            "back": reverse("policies"),
        }
        if self.is_part:
            return context
        active, proposal = active_generation(), latest_proposal()
        run, effect = _impact_run(active, generation), context["effect"]
        is_done, later_changes = run is not None and run.state == JobState.DONE, changes_since(run)
        differences = sum(
            _table(kind, active, generation, only_differences=True)["differences"] for kind in KINDS.values()
        )
        return context | {
            "active": active,
            "generation": generation,
            "run": run,
            "impact_analysis": AnalysisName.POLICY_IMPACT,
            "differences": differences,
            "proposal": proposal if proposal and proposed_name(proposal) == generation.name else None,
            "is_active": active == generation,
            "is_done": is_done,
            "plans": self.plans,
            "scheduled": scheduled_activation(),
            "can_cancel": self.request.user.can(Capability.MANAGE_SETTINGS),
            "keeping_plan": self.keeping_plan,
            "can_create_plan": self.request.user.can(Capability.CHANGE_GRANTS) and not self.keeping_plan,
            "changes_since": later_changes,
            # the numbers of an older report differ from those of the effect
            "shows_report": is_done
            and (not later_changes or effect is None or not effect.keys() & {"numbers", "is_loading"}),
            "plans_since": _plans_applied_since(run) if run and later_changes else [],
            "lifecycle": [active, generation],
            "compare_url": f"{reverse('policies')}?generation={active.name}&with={generation.name}&only=differences",
        }

    def _button(self, form: ActivationForm, *, is_proposal: bool) -> str:
        if is_proposal:
            return f"Propose {self.generation.name}"
        at = form.time
        if at is None:
            # only the part is loaded again when a time is filled in: without scripts the text must fit both
            return f"Activate {self.generation.name}{'' if self.is_part else ', now or at the time above'}"
        return f"Schedule {self.generation.name} for {exact_time(at)}"


class CancelActivation(FormPage):
    """Cancel the scheduled activation."""

    http_method_names = ("post",)
    capabilities = (Capability.MANAGE_SETTINGS,)
    visible_to = (Capability.READ_ALL,)
    form_class = ConsoleForm

    def perform(self, form: ConsoleForm) -> HttpResponse:
        show_outcome(self.request, cancel_activation(author=request_author(self.request)))
        return see_other(reverse("policies"))

    def refusal_response(self, form: ConsoleForm, error: Exception) -> HttpResponse:
        messages.error(self.request, as_sentence(error))
        return see_other(reverse("policies"))


def _plans_applied_since(run: AnalysisRun) -> list[Plan]:
    """Return the first plans that were created from the report of a run and applied."""
    rows = Plan.objects.filter(origin=PlanOrigin.POLICY_IMPACT, recipe__run=run.pk, state=PlanState.APPLIED)
    return list(rows.order_by("pk")[:MAX_PLANS])


def _impact_run(active: Generation, generation: Generation) -> AnalysisRun | None:
    """Return the newest finished run that compares `active` with `generation`; if there is none, the newest
    unfinished run.
    """
    runs = AnalysisRun.objects.filter(
        type=AnalysisName.POLICY_IMPACT,
        options__generation=active.name,
        options__to_generation=generation.name,
    )
    finished = runs.filter(state=JobState.DONE).order_by("-requested_at", "-pk").first()
    return (
        finished
        or runs.filter(state__in=(JobState.WAITING, JobState.RUNNING))
        .order_by("-requested_at", "-pk")
        .first()
    )
