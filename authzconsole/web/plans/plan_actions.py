"""The forms that apply, discard, undo and renew a plan, and that create one from a copy."""

from collections.abc import Mapping
from urllib.parse import urlencode

from django.contrib import messages
from django.http import HttpResponse

from analytics.runs.services import cancel_run
from authzconsole.web.forms import (
    ConsoleForm,
    FlagField,
    ForAdministrators,
    FormPage,
    OptionalChoiceField,
    TextField,
)
from authzconsole.web.plans.plan_pages import (
    CopyForm,
    PlanList,
    change_phrases,
    plan_or_404,
    plan_url,
    render_plan,
    stranded_count,
)
from authzconsole.web.shared.guard import request_author
from authzconsole.web.shared.rendering import see_other
from grants.changes import Shown
from grants.errors import StaleBase
from grants.models import Plan
from grants.plans.apply import apply_plan, discard_plan, inverse_plan
from grants.plans.permission_effect import generation_of_plan, newest_plan_job, request_plan_effect
from grants.plans.renew import renew_plan
from grants.plans.sources.copy import copy_plan
from grants.policies.catalogue import GENERATIONS
from grants.roles.capabilities import Capability

UNCONFIRMED = (
    "Nothing was changed. Confirm that entities will have fewer than two administrators, or discard the plan."
)


class PlanForm(ConsoleForm):
    """What the forms on the page of a plan send: those that apply it, and those of its effect."""

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
        shown = Shown(values["effect"], accepts_beyond=values["beyond"])
        author = request_author(self.request, values["reason"])
        applied = apply_plan(author=author, plan_id=plan.pk, shown=shown)
        messages.success(self.request, f"Plan {applied.pk} is applied: {_change_summary(applied)}.")
        return see_other(plan_url(applied))


def _change_summary(plan: Plan) -> str:
    return ", ".join(change_phrases(plan)) or "all items were already in place, and nothing changed"


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


class RenewPlan(PlanAction):
    """Replace a stale plan. The reason that was entered for it is prefilled for the new plan."""

    def perform(self, form: PlanForm) -> HttpResponse:
        plan = renew_plan(author=request_author(self.request), plan_id=self.plan.pk)
        text = "This plan was renewed from the current grants. Review it before you apply it."
        messages.success(self.request, text)
        reason = form.cleaned_data["reason"]
        return see_other(f"{plan_url(plan)}?{urlencode({'reason': reason})}" if reason else plan_url(plan))


class ComputePlanEffect(PlanAction):
    """Request the run that computes the effect of a plan above the limits."""

    def perform(self, form: PlanForm) -> HttpResponse:
        generation = form.cleaned_data["generation"]
        request_plan_effect(
            plan=self.plan,
            generation=generation,
            author=request_author(self.request),
            requested_by=self.request.user,
        )
        query = f"?{urlencode({'generation': generation})}#permissions" if generation else ""
        return see_other(f"{plan_url(self.plan)}{query}")


class CancelPlanEffect(PlanAction):
    """Cancel the run that computes the effect of a plan."""

    capabilities = (Capability.RUN_ANALYSES,)

    def perform(self, form: PlanForm) -> HttpResponse:
        generation = form.cleaned_data["generation"] or generation_of_plan(self.plan).name
        run = newest_plan_job(self.plan, generation)
        if run is not None and cancel_run(run=run, author=request_author(self.request)):
            messages.info(self.request, "The computation of the effect is being cancelled.")
        else:
            messages.info(self.request, "The effect is not being computed. Nothing changed.")
        return see_other(f"{plan_url(self.plan)}?{urlencode({'generation': generation})}#permissions")


class CopyGrants(ForAdministrators, PlanList):
    """Create a plan that copies the direct grants of one principal to another."""

    http_method_names = ("post",)

    def perform(self, form: CopyForm) -> HttpResponse:
        plan = copy_plan.create(request_author(self.request), **form.cleaned_data)
        return see_other(plan_url(plan))
