"""Pages on which an administrator chooses between several sets of grants, side by side, before a plan is
created.

GET shows the choices with their effect, which are loaded after the page; POST creates the plan of one of them. Nothing is
stored before that.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django_htmx.http import HttpResponseClientRedirect

from analytics.regrant_plans import regrant_choices, regrant_plan, validated_generations
from authzconsole.web.ask.questions import FIELDS, QuestionInputForm, question_from_input
from authzconsole.web.effects.forms import is_effect_requested
from authzconsole.web.forms import (
    ConsoleForm,
    ForAdministrators,
    FormPage,
    OptionalChoiceField,
    PrincipalField,
    TextField,
)
from authzconsole.web.plans.plan_pages import activation_context, plan_url
from authzconsole.web.reports.results import run_or_404
from authzconsole.web.shared.guard import address_or_404, request_author
from authzconsole.web.shared.links import entity_tab_url
from authzconsole.web.shared.paging import url_with
from authzconsole.web.shared.rendering import requested_section, see_other
from entities.address import parse_address
from entities.errors import Refusal
from grants.active_generation import active_generation
from grants.journal import Author
from grants.lifecycle import resolve_generation
from grants.models import Plan
from grants.plans.choices import PlanChoice
from grants.plans.readiness_effect import readiness_choices
from grants.plans.regrants.compute import Prefer
from grants.plans.sources.answer import answer_choices, answer_plan
from grants.plans.sources.readiness import readiness_plan
from grants.policies.question import Question

SECTION = "choices"
PREFERENCES = {
    Prefer.NARROWEST: (
        "Narrowest",
        "Gives nothing else, and leaves out what cannot be kept without giving more.",
    ),
    Prefer.FEWEST: ("Fewest", "Keeps everything with as few grants as possible, which may give more."),
}


class ReadinessForm(ConsoleForm):
    """Who deletes which namespace, and who receives the grants."""

    namespace = TextField()
    generation = TextField()
    user = PrincipalField(only="user")
    principal = PrincipalField()


class RegrantForm(ConsoleForm):
    """The permissions to keep, and how."""

    user = PrincipalField(only="user")
    group = PrincipalField(only="group")
    namespace = TextField()
    prefer = OptionalChoiceField(
        default=Prefer.NARROWEST, choices=[(str(prefer), str(prefer)) for prefer in Prefer]
    )


class AnswerPlanForm(QuestionInputForm):
    """A denied question, and the chosen grants."""

    address = TextField()
    way = TextField(strip=False)


class ChoosePlan(ForAdministrators, FormPage):
    """Choose one of several plans. If a plan cannot be computed, the page that led here shows the reason.

    field, label: of the choice in the form.
    """

    template_name = "plans/choose.html"
    field, label, refusal = "", "", "No plan was created: "

    def page_context(self, values: dict) -> dict[str, Any]:
        """Return the context of the page without the choices. values: those of the form."""
        raise NotImplementedError

    def choices(self, values: dict) -> tuple[Sequence[PlanChoice], dict[str, Any]]:
        """Return the choices with their effect, and the context that is known only with them."""
        raise NotImplementedError

    def create(self, author: Author, values: dict) -> Plan:
        """Create the plan of the choice."""
        raise NotImplementedError

    def back(self) -> str:
        """Return the URL of the page that led here."""
        raise NotImplementedError

    def get(self, request: HttpRequest, *args, **kwargs) -> HttpResponse:
        return self._respond(request)

    def post(self, request: HttpRequest, *args, **kwargs) -> HttpResponse:
        return self._respond(request)

    def _respond(self, request: HttpRequest) -> HttpResponse:
        self.values = values = self.form_class.sent(request).cleaned_data
        try:
            if request.method == "POST":
                return see_other(plan_url(self.create(request_author(request), values)))
            context = {"field": self.field, "label": self.label, "back": self.back()} | self.page_context(
                values
            )
            if not is_effect_requested(request, SECTION):
                return self.render_to_response(
                    context
                    | {
                        "is_loading": True,
                        "url": url_with(request),
                        "preview_url": url_with(request, preview="yes"),
                    }
                )
            choices, known = self.choices(values)
        except Refusal as error:
            messages.error(request, f"{self.refusal}{error}.")
            # htmx would show the page before in the section
            return HttpResponseClientRedirect(self.back()) if request.htmx else see_other(self.back())
        return self.render_to_response(
            context
            | {
                "choices": choices,
                "first": next((choice for choice in choices if not choice.fault), None),
                "has_kept": any(choice.kept is not None for choice in choices),
                **known,
            }
        )

    def get_template_names(self) -> list[str]:
        is_section = requested_section(self.request) == SECTION
        return ["plans/_choices.html"] if is_section else super().get_template_names()


class ChooseReadinessPlan(ChoosePlan):
    """Choose who receives the missing grants with which a user can delete a namespace."""

    form_class = ReadinessForm
    field, label, refusal = "principal", "Grant to", ""

    def page_context(self, values: dict) -> dict[str, Any]:
        namespace, user = parse_address(values["namespace"]), values["user"]
        generation = resolve_generation(values["generation"] or None)
        return {
            "title": f"Let {user} delete {namespace}",
            "note": f"Each choice permits the deletion in generation {generation.name}. A grant to a group also counts for its "
            f"other members. Kept: deletions of the namespace and of what is inside that {user} may do afterwards.",
            "hidden": {"namespace": values["namespace"], "generation": generation.name, "user": user},
            "back": entity_tab_url(namespace, "ask"),
            "back_title": str(namespace),
            "empty": f"{user} can already delete {namespace}.",
        }

    def choices(self, values: dict) -> tuple[Sequence[PlanChoice], dict[str, Any]]:
        generation = resolve_generation(values["generation"] or None)
        namespace = parse_address(values["namespace"])
        return readiness_choices(namespace=namespace, user=values["user"], generation=generation), {}

    def create(self, author: Author, values: dict) -> Plan:
        return readiness_plan.create(
            author,
            namespace=parse_address(values["namespace"]),
            user=values["user"],
            generation=values["generation"] or None,
            principal=values["principal"],
        )

    def back(self) -> str:
        return reverse("plans")


class ChooseImpactPlan(ChoosePlan):
    """Choose the grants that keep the permissions that a policy-impact report lists as lost."""

    form_class = RegrantForm
    field, label = "prefer", "Grants"

    def prepare(self) -> None:
        self.run = run_or_404(self.kwargs["pk"])

    def page_context(self, values: dict) -> dict[str, Any]:
        run, scope = self.run, _scope_of(values)
        limits = " and ".join(f"{name} {value}" for name, value in scope.items() if value)
        if not is_effect_requested(self.request, SECTION):
            # `regrant_choices` validates the run too
            validated_generations(run)
        before, after = (run.options.get(name, "") for name in ("generation", "to_generation"))
        return {
            "title": "Keep current permissions",
            "note": f"From {before} to {after}{f', only for {limits}' if limits else ''}. Kept: permissions of {before} that "
            "remain.",
            "hidden": scope,
            "back_title": f"Run {run.pk}",
            "empty": "Nothing is lost: no grant is needed.",
        }

    def choices(self, values: dict) -> tuple[Sequence[PlanChoice], dict[str, Any]]:
        found, activation = regrant_choices(self.run, **_scope_of(values))
        titled = []
        for choice in found:
            title, note = PREFERENCES[Prefer(choice.value)]
            titled.append(replace(choice, title=title, note="" if choice.fault else note))
        before, after = self.run.options["generation"], self.run.options["to_generation"]
        return titled, {"activation": activation_context(before, after, activation)}

    def create(self, author: Author, values: dict) -> Plan:
        return regrant_plan.create(author, run=self.run, prefer=values["prefer"], **_scope_of(values))

    def back(self) -> str:
        return reverse("analysis", args=[self.run.pk])


def _scope_of(values: dict) -> dict[str, str]:
    namespace = values["namespace"].removeprefix("namespace:")
    return {"user": values["user"], "group": values["group"], "namespace": namespace}


class ChooseAnswerPlan(ChoosePlan):
    """Choose the grants that permit a denied question.

    The form sends the question, and it is decided again.
    """

    form_class = AnswerPlanForm
    field, label = "way", "Grants"

    def _question(self, values: dict) -> Question:
        address = address_or_404(values["address"])
        return question_from_input(address, {name: values[name] for name in FIELDS}, active_generation())

    def page_context(self, values: dict) -> dict[str, Any]:
        question = self._question(values)
        return {
            "title": f"Let {question.principal} {question.operation} {question.target}",
            "note": f"Each choice permits the operation in generation {question.generation}.",
            "hidden": {name: values[name] for name in FIELDS if values[name]}
            | {"address": values["address"]},
            "back_title": str(question.target),
            "empty": "Nothing is missing that a grant could give.",
        }

    def choices(self, values: dict) -> tuple[Sequence[PlanChoice], dict[str, Any]]:
        return answer_choices(self._question(values)), {}

    def create(self, author: Author, values: dict) -> Plan:
        return answer_plan.create(author, question=self._question(values), way=values["way"])

    def back(self) -> str:
        return entity_tab_url(address_or_404(self.values["address"]), "ask")
