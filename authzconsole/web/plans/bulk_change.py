"""The forms that create plans for many entities at once, and for the leftover grants on deleted entities."""

from collections.abc import Mapping

from django import forms
from django.contrib import messages
from django.db.models import Count, QuerySet
from django.http import Http404, HttpRequest, HttpResponse
from django.urls import reverse

from analytics.pattern_plans import narrowings
from authzconsole.common.row_estimates import estimated_rows
from authzconsole.web.forms import (
    CODE_INPUT,
    ConsoleForm,
    FlagField,
    ForAdministrators,
    FormPage,
    PeriodForm,
    PrincipalField,
    Radios,
    TextField,
    TextsField,
    optional,
    privileges_field,
)
from authzconsole.web.plans.plan_pages import plan_url
from authzconsole.web.reports.results import run_or_404
from authzconsole.web.shared.guard import address_or_404, request_author
from authzconsole.web.shared.links import entity_url, principal_url
from authzconsole.web.shared.parameters import number_of
from authzconsole.web.shared.rendering import referring_page, render_page, requested_section, see_other
from entities.address import address_or_none, instance_address, kinds_inside, parse_address, parse_grantable
from entities.errors import Refusal
from entities.models import Entity
from entities.selectors import entities_at, entity_at, live_entities_inside
from entities.vocabulary import (
    CONTAINER_KINDS,
    KINDS,
    VocabularyError,
    privilege_by_name,
    quantity,
)
from grants.change_set import Revoke
from grants.errors import GrantError
from grants.models import PRINCIPAL_TYPES, PlanVerb
from grants.plans.create import MAX_PLAN_ITEMS, PlanSource
from grants.plans.sources.bulk import (
    MAX_SELECTED,
    BulkChange,
    changed_entities_of,
    existing_grant_count,
    parse_bulk_change,
    selection_plan,
    subtree_plan,
)
from grants.plans.sources.ghosts import ghost_plan, selected_ghost_plan
from grants.plans.sources.outliers import outlier_plan
from grants.plans.sources.patterns import narrowing_plan
from grants.plans.sources.redundant import RedundantPart, redundant_plan
from grants.plans.sources.unused import unused_plan
from grants.principal_names import format_principal

# existing grants are not counted further; the plan itself counts them all
MAX_GRANTS_COUNTED = 50_000
# by the id of the section; its template is plans/bulk/_<id>.html
SECTIONS = ("bulk-kinds", "bulk-count")
# "All" does not select them; they are changed only if they are selected by name
SECRET_KINDS = ("securekey",)
VERBS = {PlanVerb.GRANT: "Grant", PlanVerb.REVOKE: "Revoke"}


class BulkChangeForm(PeriodForm):
    """One change of many entities: those inside the container `within`, or each selected `address`.

    select, count: only show the form again, with `all` or no kinds selected (`none`), or with the number of changes.
    """

    id_pattern = "bulk-%s"

    refusal = "No plan was created"

    within = TextField(widget=forms.HiddenInput)
    address = TextsField()
    verb = TextField(
        label="Change", widget=Radios(choices=[(verb.value, title) for verb, title in VERBS.items()])
    )
    principal = PrincipalField(label="Principal", placeholder="user:NAME")
    more = TextField(
        label=optional("More principals"),
        placeholder="group:NAME",
        help_text="One per line.",
        widget=forms.Textarea(attrs={"rows": 3, **CODE_INPUT}),
    )
    privilege = privileges_field()
    kind = TextsField()
    itself = FlagField()
    selection = FlagField()
    select = TextField()
    count = TextField()

    def has_period(self) -> bool:
        return self.cleaned_data["verb"] == PlanVerb.GRANT

    def clean_verb(self) -> str:
        return self.cleaned_data["verb"] or PlanVerb.GRANT.value

    @property
    def is_selection(self) -> bool:
        return "address" in self.data or self.cleaned_data["selection"]

    def change(self) -> BulkChange:
        """Return the change. Raise GrantError or VocabularyError if it is incomplete or invalid."""
        values = self.cleaned_data
        # names may begin or end with a space; only blank lines are skipped
        names = [name for name in (values["principal"], *values["more"].splitlines()) if name.strip()]
        return parse_bulk_change(
            verb=values["verb"],
            principals=names,
            privileges=values["privilege"],
            validity=values["validity"],
        )

    def container(self) -> Entity:
        """Return the container, by default the instance. Raise Http404 if there is no such container."""
        entity = entity_at(address_or_404(self.cleaned_data["within"] or str(instance_address())))
        if entity is None or entity.kind not in CONTAINER_KINDS:
            raise Http404("there is no such container")
        return entity


class NewBulkPlan(ForAdministrators, FormPage):
    """Create a plan for all entities inside the container `within`, or for each selected `address`."""

    form_class = BulkChangeForm

    def get(self, request: HttpRequest, *args, **kwargs) -> HttpResponse:
        values = request.GET.copy()
        values.setdefault("verb", PlanVerb.GRANT.value)
        form = BulkChangeForm(values)
        form.is_valid()
        if form.is_selection and not form.cleaned_data["address"]:
            return _nothing_selected_response(request)
        return self._show_again(form)

    def post(self, request: HttpRequest, *args, **kwargs) -> HttpResponse:
        form = self.get_form()
        is_valid = form.is_valid()
        if "select" in form.data or "count" in form.data:
            return self._show_again(form)
        return super().post(request, *args, **kwargs) if is_valid else self.form_invalid(form)

    def _show_again(self, form: BulkChangeForm) -> HttpResponse:
        """Show the form with what was entered, without errors: it is not complete yet."""
        form.errors.clear()
        return self.render_to_response(self.get_context_data(form=form))

    def perform(self, form: BulkChangeForm) -> HttpResponse:
        author, values, change = request_author(self.request), form.cleaned_data, form.change()
        if form.is_selection:
            addresses = map(parse_address, values["address"])
            return see_other(plan_url(selection_plan.create(author, change=change, addresses=addresses)))
        plan = subtree_plan.create(
            author,
            change=change,
            within=form.container().address,
            kinds=values["kind"],
            itself=values["itself"],
        )
        return see_other(plan_url(plan))

    def get_template_names(self) -> list[str]:
        section = requested_section(self.request)
        return [f"plans/bulk/_{section}.html" if section in SECTIONS else "plans/bulk_change.html"]

    def get_context_data(self, **context) -> dict:
        form = context["form"]
        target = _selection(form) if form.is_selection else _subtree(form)
        return super().get_context_data(**context) | {"max_selected": MAX_SELECTED, **target}


def _nothing_selected_response(request: HttpRequest) -> HttpResponse:
    return render_page(
        request,
        "plans/nothing_selected.html",
        {"back": _entity_list_url(request), "max_selected": MAX_SELECTED},
    )


def _entity_list_url(request: HttpRequest) -> str:
    """Return the URL of the entity page from which the user came (Referer); otherwise that of the instance."""
    referrer, entities = referring_page(request), reverse("entity", args=[":"]).removesuffix(":")
    if referrer.startswith(entities):
        return f"{referrer}#children"
    return f"{entity_url(instance_address())}#children"


def _selection(form: BulkChangeForm) -> dict:
    """Return the context for the selected entities.

    Invalid addresses are kept as text, so that the user can correct the form.
    """
    rows = [(text, address_or_none(text)) for text in form.cleaned_data["address"]]
    return {"selected_rows": rows, "back": reverse("plans"), "count": _selection_count(form)}


def _subtree(form: BulkChangeForm) -> dict:
    """Return the context for a container, with the number of live entities by kind inside it."""
    container, values = form.container(), form.cleaned_data
    counts, possible = _counts_by_kind(container), kinds_inside(container.kind)
    if values["select"]:
        values["itself"] = values["select"] == "all"
        values["kind"] = [kind for kind in possible if values["itself"] and kind not in SECRET_KINDS]
    kinds = [
        {
            "name": kind,
            "title": KINDS[kind].plural.capitalize(),
            "total": None if counts is None else counts.get(kind, 0),
            "is_selected": kind in values["kind"],
        }
        for kind in possible
    ]
    return {
        "container": container,
        "kinds": kinds,
        "includes_container": values["itself"],
        "has_secret_kinds": any(kind in SECRET_KINDS for kind in possible),
        "back": entity_url(container),
        "count": _subtree_count(form, container, counts),
    }


def _counts_by_kind(container: Entity) -> dict[str, int] | None:
    """Return the number of live entities by kind; None if there are too many to count in a request."""
    if container.kind == "instance" and estimated_rows(Entity.objects.all()).is_large:
        return None
    return dict(live_entities_inside(container).order_by().values_list("kind").annotate(Count("pk")))


def _subtree_count(form: BulkChangeForm, container: Entity, counts: Mapping[str, int] | None) -> str:
    """Describe what the form selects inside a container. counts: live entities by kind; None if they are too
    many to count.
    """
    kinds, is_included = form.cleaned_data["kind"], form.cleaned_data["itself"]
    if not kinds and not is_included:
        return "Nothing is selected."
    if counts is None:
        return "The plan counts the selected entities."
    total = sum(counts.get(kind, 0) for kind in kinds) + (is_included and container.is_live)
    entities = changed_entities_of(
        container, kinds, form.cleaned_data["verb"], includes_container=is_included
    )
    return _count_text(form, total, entities)


def _selection_count(form: BulkChangeForm) -> str:
    """Describe what the form selects among addresses.

    Addresses that are invalid or not live are not counted.
    """
    addresses = map(address_or_none, form.cleaned_data["address"])
    live = [entity.pk for entity in entities_at(filter(None, addresses)).values() if entity.is_live]
    return _count_text(form, len(live), Entity.objects.filter(pk__in=live))


def _count_text(form: BulkChangeForm, total: int, entities: QuerySet[Entity]) -> str:
    selected = f"{quantity(total, 'entity', 'entities')} selected"
    try:
        change = form.change()
    except (GrantError, VocabularyError):
        return f"{selected}."
    existing = existing_grant_count(change, entities, max_counted=MAX_GRANTS_COUNTED)
    if existing >= MAX_GRANTS_COUNTED:
        return f"{selected}. The plan counts the changes."
    missing = total * len(change.principals) * len(change.privileges) - existing
    changes = missing if change.verb == PlanVerb.GRANT else existing
    limit = f" A plan can contain at most {MAX_PLAN_ITEMS:,} changes." if changes > MAX_PLAN_ITEMS else ""
    if change.verb == PlanVerb.GRANT:
        return f"{selected}: {quantity(missing, 'grant', 'grants')} to add, {existing:,} already held.{limit}"
    return f"{selected}: {quantity(existing, 'grant', 'grants')} to revoke, {missing:,} not held.{limit}"


class CleanUpForm(ConsoleForm):
    """What to take away: selected rows of a report (`selection` and `grant`), or all in a namespace. run: the number of
    the report.
    """

    refusal = "No plan was created"

    selection = TextField()
    grant = TextsField()
    namespace = TextField()
    since = TextField()
    part = TextField()
    run = TextField()
    user = TextField()

    @property
    def report_url(self) -> str:
        run = number_of(self.cleaned_data["run"])
        return "" if run is None else reverse("analysis", args=[run])

    @property
    def user_url(self) -> str:
        """The page of the user from which the form was sent; empty if there is no such user. Runs at most one query."""
        user = PRINCIPAL_TYPES["user"].find(self["user"].value() or "")
        return principal_url("person", str(user)) if user else ""


class NewCleanUpPlan(ForAdministrators, FormPage):
    """Create a plan that takes away what an analysis reports, as it is now. source: of the plan; of_selection: of the plan
    for selected rows.
    """

    http_method_names = ("post",)
    form_class = CleanUpForm
    source: PlanSource
    of_selection: PlanSource | None = None

    def inputs(self, form: CleanUpForm) -> dict:
        """Return the arguments of the source."""
        name = form.cleaned_data["namespace"]
        return {"namespace": parse_address(name if ":" in name else f"namespace:{name}") if name else None}

    def perform(self, form: CleanUpForm) -> HttpResponse:
        author = request_author(self.request)
        if self.of_selection and "selection" in form.data:
            selected = list(map(_revocation_of_row, form.cleaned_data["grant"]))
            return see_other(plan_url(self.of_selection.create(author, selected)))
        return see_other(plan_url(self.source.create(author, **self.inputs(form))))

    def refusal_response(self, form: CleanUpForm, error: Refusal) -> HttpResponse:
        messages.error(self.request, form.refusal_text(error))
        back = form.report_url or form.user_url or referring_page(self.request)
        return see_other(back or reverse("plans"))


class NewRedundantPlan(NewCleanUpPlan):
    source = redundant_plan

    def inputs(self, form: CleanUpForm) -> dict:
        return super().inputs(form) | {"part": form.cleaned_data["part"] or RedundantPart.GRANTS}


class NewUnusedPlan(NewCleanUpPlan):
    source = unused_plan

    def inputs(self, form: CleanUpForm) -> dict:
        since = number_of(form.cleaned_data["since"]) or 0
        return super().inputs(form) | {"since": since, "user": form.cleaned_data["user"]}


class NewGhostPlan(NewCleanUpPlan):
    """Create a plan that revokes selected grants of a report, or all current grants on deleted entities."""

    source, of_selection = ghost_plan, selected_ghost_plan


class NewOutlierPlan(NewCleanUpPlan):
    source = of_selection = outlier_plan

    def inputs(self, form: CleanUpForm) -> dict:
        return {"privileges": ()}


class NewPatternPlan(NewCleanUpPlan):
    """Create a plan that replaces selected grants on patterns by what is narrower in the report."""

    source = narrowing_plan

    def inputs(self, form: CleanUpForm) -> dict:
        run = run_or_404(number_of(form.cleaned_data["run"]) or 0)
        grants = list(map(_revocation_of_row, form.cleaned_data["grant"]))
        return {"run": run.pk, "narrowings": narrowings(run, grants)}


def _revocation_of_row(text: str) -> Revoke:
    """Return the revocation of a checkbox: principal, address and privilege, separated by tabs, which none of them can
    contain.
    """
    principal, address, privilege = [*text.split("\t"), "", ""][:3]
    return Revoke(format_principal(principal), parse_grantable(address), privilege_by_name(privilege))
