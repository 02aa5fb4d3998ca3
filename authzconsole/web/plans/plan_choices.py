"""Pages on which an administrator chooses between several sets of grants, side by side, before a plan is
created.

GET shows the choices with their effect; POST creates the plan of one of them. Nothing is stored before that.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.views.decorators.http import require_http_methods

from analytics.analyses import AnalysisError
from analytics.regrant_plans import RegrantWay, create_regrant_plan, regrant_ways
from analytics.storage import StorageError
from authzconsole.web.ask.questions import FIELDS, QuestionInputForm, question_from_input
from authzconsole.web.forms import ConsoleForm, OptionalChoiceField, PrincipalField, TextField
from authzconsole.web.plans.plan_pages import plan_url
from authzconsole.web.plans.sections import activation_context
from authzconsole.web.reports.run_details import run_or_404
from authzconsole.web.shared.guard import address_or_404, capability_required, request_author
from authzconsole.web.shared.links import entity_tab_url
from authzconsole.web.shared.rendering import render_page, see_other
from entities.address import AddressError, parse_address
from grants.active_generation import active_generation
from grants.errors import GrantError
from grants.lifecycle.forecast import resolve_generation
from grants.plans.readiness_effect import ReadinessWay, readiness_ways
from grants.plans.regrants.compute import Prefer
from grants.plans.sources.answer import Alternative, create_plan_from_answer, ways_of
from grants.plans.sources.readiness import create_readiness_plan
from grants.policies.catalogue import UnknownGeneration
from grants.policies.question import QuestionError
from grants.roles.capabilities import Capability

PREFERENCES = {
    Prefer.NARROWEST: (
        "Narrowest",
        "Gives nothing else, and leaves out what cannot be kept without giving more.",
    ),
    Prefer.FEWEST: ("Fewest", "Keeps everything with as few grants as possible, which may give more."),
}


@dataclass(frozen=True, slots=True)
class PlanChoice:
    """One row of the page. value: of the form field. Counts are None if they are not known.

    given, taken: what an activation after the plan gives and takes. fault: why it cannot be chosen; otherwise
    empty.
    """

    value: str
    title: str
    note: str = ""
    grants: int | None = None
    kept: int | None = None
    kept_not: int | None = None
    gained: int | None = None
    lost: int | None = None
    given: int | None = None
    taken: int | None = None
    fault: str = ""


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

    def scope(self) -> dict[str, str]:
        values = self.cleaned_data
        namespace = values["namespace"].removeprefix("namespace:")
        return {"user": values["user"], "group": values["group"], "namespace": namespace}


class AnswerPlanForm(QuestionInputForm):
    """A denied question, and the chosen grants."""

    address = TextField()
    way = TextField(strip=False)


@require_http_methods(["GET", "HEAD", "POST"])
@capability_required(Capability.CHANGE_GRANTS, visible_to=[Capability.READ_ALL])
def choose_readiness_plan(request: HttpRequest) -> HttpResponse:
    """Choose who receives the missing grants with which a user can delete a namespace."""
    form = dict(ReadinessForm.sent(request).cleaned_data)
    principal = form.pop("principal")
    try:
        namespace, generation = (
            parse_address(form["namespace"]),
            resolve_generation(form["generation"] or None),
        )
        if request.method == "POST":
            return see_other(
                plan_url(
                    create_readiness_plan(
                        author=request_author(request),
                        namespace=namespace,
                        user=form["user"],
                        generation=generation,
                        principal=principal,
                    )
                )
            )
        ways = readiness_ways(namespace=namespace, user=form["user"], generation=generation)
    except (GrantError, AddressError, UnknownGeneration) as error:
        messages.error(request, f"{error}.")
        return see_other(reverse("plans"))
    return _choice_page(
        request,
        _readiness_choices(ways),
        title=f"Let {form['user']} delete {namespace}",
        field="principal",
        label="Grant to",
        note=f"Each choice permits the deletion in generation {generation.name}. A grant to a group also counts for its other "
        f"members. Kept: deletions of the namespace and of what is inside that {form['user']} may do afterwards.",
        hidden=form | {"generation": generation.name},
        back=entity_tab_url(namespace, "ask"),
        back_title=str(namespace),
        empty=f"{form['user']} can already delete {namespace}.",
    )


@require_http_methods(["GET", "HEAD", "POST"])
@capability_required(Capability.CHANGE_GRANTS, visible_to=[Capability.READ_ALL])
def choose_impact_plan(request: HttpRequest, pk: int) -> HttpResponse:
    """Choose the grants that keep the permissions that a policy-impact report lists as lost."""
    run, form = run_or_404(pk), RegrantForm.sent(request)
    scope, prefer = form.scope(), Prefer(form.cleaned_data["prefer"])
    try:
        if request.method == "POST":
            return see_other(
                plan_url(create_regrant_plan(author=request_author(request), run=run, prefer=prefer, **scope))
            )
        ways = regrant_ways(run, **scope)
    except (GrantError, AnalysisError, StorageError) as error:
        messages.error(request, f"No plan was created: {error}.")
        return see_other(reverse("analysis", args=[run.pk]))
    limits = " and ".join(f"{name} {value}" for name, value in scope.items() if value)
    only = f", only for {limits}" if limits else ""
    return _choice_page(
        request,
        _regrant_choices(ways),
        title="Keep current permissions",
        field="prefer",
        label="Grants",
        note=f"From {run.options['generation']} to {run.options['to_generation']}{only}. Kept: permissions of "
        f"{run.options['generation']} that remain.",
        hidden=scope,
        back=reverse("analysis", args=[run.pk]),
        back_title=f"Run {run.pk}",
        empty="Nothing is lost: no grant is needed.",
        activation=activation_context(
            run.options["generation"],
            run.options["to_generation"],
            next((way.effect.activation for way in ways if way.effect), None),
        ),
    )


@require_http_methods(["GET", "HEAD", "POST"])
@capability_required(Capability.CHANGE_GRANTS, visible_to=[Capability.READ_ALL])
def choose_answer_plan(request: HttpRequest) -> HttpResponse:
    """Choose the grants that permit a denied question.

    The form sends the question, and it is decided again.
    """
    values = AnswerPlanForm.sent(request).cleaned_data
    address = address_or_404(values["address"])
    form = {name: values[name] for name in FIELDS}
    try:
        question = question_from_input(address, form, active_generation())
        if request.method == "POST":
            return see_other(
                plan_url(
                    create_plan_from_answer(
                        author=request_author(request), question=question, way=values["way"]
                    )
                )
            )
        ways = ways_of(question)
    except (GrantError, QuestionError) as error:
        messages.error(request, f"No plan was created: {error}.")
        return see_other(entity_tab_url(address, "ask"))
    return _choice_page(
        request,
        _answer_choices(ways),
        title=f"Let {question.principal} {question.operation} {question.target}",
        field="way",
        label="Grants",
        note=f"Each choice permits the operation in generation {question.generation}.",
        hidden={name: value for name, value in form.items() if value} | {"address": str(address)},
        back=entity_tab_url(address, "ask"),
        back_title=str(address),
        empty="Nothing is missing that a grant could give.",
    )


def _choice_page(request: HttpRequest, choices: list[PlanChoice], **context) -> HttpResponse:
    first = next((choice for choice in choices if not choice.fault), None)
    return render_page(
        request,
        "plans/choose.html",
        context
        | {
            "choices": choices,
            "first": first,
            "url": request.path,
            "hidden": list(context["hidden"].items()),
            "has_kept": any(choice.kept is not None for choice in choices),
        },
    )


def _readiness_choices(ways: Iterable[ReadinessWay]) -> list[PlanChoice]:
    return [
        PlanChoice(
            way.principal,
            way.principal,
            grants=way.grants,
            kept=way.kept,
            kept_not=way.kept_not,
            gained=way.gained,
            lost=way.lost,
        )
        for way in ways
    ]


def _regrant_choices(ways: Iterable[RegrantWay]) -> list[PlanChoice]:
    choices = []
    for way in ways:
        title, note = PREFERENCES[way.prefer]
        effect = way.effect
        if effect is None:
            choices.append(PlanChoice(str(way.prefer), title, note, fault=way.fault))
        elif effect.grants:
            choices.append(
                PlanChoice(
                    str(way.prefer),
                    title,
                    note,
                    len(effect.grants),
                    effect.kept,
                    effect.kept_not,
                    effect.beyond_gained,
                    effect.beyond_lost,
                    effect.given_with_plan,
                    effect.taken_with_plan,
                )
            )
    return choices


def _answer_choices(ways: Iterable[Alternative]) -> list[PlanChoice]:
    # one way needs no choice
    return [
        PlanChoice(
            way.words if way.is_choice else "",
            way.short_words,
            grants=len(way.grants),
            gained=way.beyond,
            lost=None if way.beyond is None else 0,
        )
        for way in ways
    ]
