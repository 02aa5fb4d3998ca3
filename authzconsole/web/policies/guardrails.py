"""The guardrails: their list, the form that writes one with the violations that it has now, and the page of one with
its violations and exceptions.
"""

from collections.abc import Iterator
from itertools import islice
from typing import Any

from django import forms
from django.db.models import Count
from django.http import Http404, HttpRequest, HttpResponse
from django.urls import reverse
from django.views.decorators.http import require_safe

from authzconsole.common.messages import as_sentence
from authzconsole.web.forms import (
    AddressField,
    ConsoleForm,
    FormPage,
    LastDayField,
    NameInput,
    NumberField,
    OptionalChoiceField,
    PrincipalField,
    Radios,
    TextField,
    optional,
    privileges_field,
    reason_field,
)
from authzconsole.web.shared.guard import capability_required
from authzconsole.web.shared.paging import paginate_sequence
from authzconsole.web.shared.parameters import number_of
from authzconsole.web.shared.principal_input import with_default_type
from authzconsole.web.shared.rendering import render_page, requested_section, see_other, show_outcome
from entities.address import Address
from entities.errors import Refusal
from entities.vocabulary import KINDS, Privilege
from grants.change_set import DeleteGuardrail, EndException, SetException, SetGuardrail
from grants.changes import ChangeSet, Outcome, Shown, apply
from grants.errors import GuardrailError
from grants.guardrails.evaluation import Violation
from grants.guardrails.exceptions import draft_violations, open_violations
from grants.guardrails.rules import Rule, rule_from_members, rule_of, with_rules
from grants.guardrails.storage import reasons_for_no_match
from grants.models import Enforcement, Form, Guardrail
from grants.policies.principals import group_text, type_and_name, written_subject
from grants.policies.times import format_time
from grants.roles.capabilities import Capability

ROWS_PER_PAGE = 25
COLUMNS = ("Name", "Rule", "New violations", "Exceptions", "Violations now")
MAX_VIOLATIONS = 200
MAX_EXAMPLES = 5
FORM_TITLES = {
    Form.FORBID: "Forbid privileges",
    Form.FORBID_BOTH: "Forbid two together",
    Form.REQUIRE: "Require holders",
    Form.EXPECT: "Expect a decision",
}


class PlaceField(AddressField):
    """An address; the plain name of a namespace stands for it."""

    def to_python(self, value: str | None) -> Address | None:
        text = (value or "").strip()
        return super().to_python(f"namespace:{text}" if text and ":" not in text else text)


@require_safe
@capability_required(Capability.READ_ALL)
def guardrail_list(request: HttpRequest) -> HttpResponse:
    """List the guardrails. The violations are counted in a second request, so that no page waits for them."""
    guardrails = with_rules(Guardrail.objects.annotate(exception_count=Count("exceptions")).order_by("name"))
    page = paginate_sequence(request, guardrails, max_rows=ROWS_PER_PAGE)
    is_section = requested_section(request) == "guardrails"
    is_counted = is_section or "count" in request.GET
    context = {
        "page": page,
        "columns": COLUMNS,
        "rows": [
            {
                "guardrail": guardrail,
                "rule": rule_of(guardrail),
                "violations": sum(1 for _ in open_violations(guardrail)) if is_counted else None,
            }
            for guardrail in page.rows
        ],
        "is_counted": is_counted,
        "can_change": request.user.can(Capability.MANAGE_SETTINGS),
    }
    return render_page(request, f"policies/guardrails/{'_rows' if is_section else 'list'}.html", context)


def privilege_field(label: str = "Privilege") -> forms.ChoiceField:
    return OptionalChoiceField(label=label, choices=[(str(name), str(name)) for name in Privilege])


class _RuleForm(ConsoleForm):
    """A form whose refusals are shown beside their field, and do not name the member of a document."""

    def refusal_text(self, error: Refusal) -> str:
        return as_sentence(error.reason) if isinstance(error, GuardrailError) else super().refusal_text(error)


class GuardrailForm(_RuleForm):
    """One guardrail of any form; each form uses some of the fields. accepted: how many violations were shown."""

    id_pattern = "guardrail-%s"
    error_fields = {
        "forbid.members_of": "group",
        "forbid.privileges": "privileges",
        "forbid.within": "within",
        "forbid_both[0].privilege": "privilege",
        "forbid_both[0].within": "within",
        "forbid_both.within": "within",
        "forbid_both[1].privilege": "other_privilege",
        "forbid_both[1].within": "other_within",
        "forbid_both[1]": "other_within",
        "require.privilege": "privilege",
        "require.on": "kind",
        "require.at_least": "at_least",
        "expect.subject": "subject",
        "expect": "operation",
        "reason": "policy",
        "guardrail": "name",
    }

    name = TextField(
        label="Name",
        required=True,
        max_characters=100,
        placeholder="contractors-finance",
        widget=NameInput(),
        help_text="Letters, digits, dots, hyphens and underscores, without spaces.",
    )
    group = PrincipalField(label=optional("Members of group"), only="group")
    privileges = privileges_field()
    privilege = privilege_field()
    within = PlaceField(label="Within", required=True, placeholder="namespace:NAME")
    other_privilege = privilege_field("Together with")
    other_within = PlaceField(label="Within", required=True, placeholder="namespace:NAME")
    kind = OptionalChoiceField(
        label="On each", default="namespace", choices=[(name, kind.title) for name, kind in KINDS.items()]
    )
    at_least = NumberField(label="At least this many people", max_characters=4)
    subject = PrincipalField(label="User or group", required=True)
    operation = TextField(
        label="Operation or privilege", required=True, placeholder="read", widget=NameInput()
    )
    resource = AddressField(label="On", required=True)
    decision = OptionalChoiceField(
        label="Decision", default="yes", choices=[("yes", "permitted"), ("no", "denied")], widget=Radios
    )
    level = OptionalChoiceField(
        label="A change that adds a violation",
        default=str(Enforcement.BLOCK),
        choices=[(str(Enforcement.BLOCK), "is refused"), (str(Enforcement.WARN), "is made with a warning")],
        widget=Radios,
    )
    policy = TextField(label=optional("Why the guardrail exists"), placeholder="policy 4.2")
    reason = reason_field(label=optional("Reason of this change"))

    FIELDS = {
        Form.FORBID: ("group", "privileges", "within"),
        Form.FORBID_BOTH: ("privilege", "within", "other_privilege", "other_within"),
        Form.REQUIRE: ("privilege", "kind", "at_least"),
        Form.EXPECT: ("subject", "operation", "resource", "decision"),
    }

    def __init__(self, *args, form: Form, **kwargs):
        super().__init__(*args, **kwargs)
        self.form = form
        for names in self.FIELDS.values():
            for name in names:
                if name not in self.FIELDS[form]:
                    self.fields.pop(name, None)

    @property
    def rule_fields(self) -> list[forms.BoundField]:
        return [self[name] for name in self.FIELDS[self.form]]

    @property
    def rule(self) -> Rule:
        """The rule of a valid form. Raise GuardrailError."""
        values = self.cleaned_data
        members: dict[str, Any] = {str(self.form): self._value(values), "level": values["level"]}
        if self.form == Form.EXPECT:
            members["decision"] = values["decision"] == "yes"
        if values["policy"]:
            members["reason"] = values["policy"]
        return rule_from_members(members)

    def _value(self, values: dict[str, Any]) -> object:
        match self.form:
            case Form.FORBID:
                group = {"members_of": group_text(values["group"])} if values["group"] else {}
                return {**group, "privileges": values["privileges"], "within": _text(values["within"])}
            case Form.FORBID_BOTH:
                return [
                    {"privilege": values[f"{prefix}privilege"], "within": _text(values[f"{prefix}within"])}
                    for prefix in ("", "other_")
                ]
            case Form.REQUIRE:
                return {
                    "privilege": values["privilege"],
                    "on": f"kind:{values['kind']}",
                    "at_least": values["at_least"],
                }
        subject_type, subject = written_subject(*type_and_name(with_default_type(values["subject"])))
        resource = values["resource"]
        return {
            "subject": {"type": subject_type, "id": subject},
            "action": {"name": values["operation"]},
            "resource": {"type": resource.kind, "id": resource.key} if resource else {},
        }


def _text(value: object) -> str:
    return str(value) if value else ""


def initial_of(name: str, rule: Rule) -> dict[str, Any]:
    """Return the values of the form for a rule."""
    first = rule.clauses[0]
    values: dict[str, Any] = {
        "name": name,
        "level": str(rule.level),
        "policy": rule.reason,
        "privilege": str(first.privileges[0]) if first.privileges else "",
        "privileges": list(map(str, first.privileges)),
        "group": type_and_name(rule.principal)[1],
        "within": first.place,
        "kind": first.kind,
        "at_least": rule.at_least,
        "subject": rule.principal,
        "operation": rule.action,
        "resource": first.place,
        "decision": "yes" if rule.decision else "no",
    }
    if rule.form == Form.FORBID_BOTH:
        other = rule.clauses[1]
        values |= {"other_privilege": str(other.privileges[0]), "other_within": other.place}
    return values


class WriteGuardrail(FormPage):
    """Add a guardrail, or change the one in the URL. A part of the page counts the violations of what is entered."""

    capabilities = (Capability.MANAGE_SETTINGS,)
    visible_to = (Capability.READ_ALL,)
    form_class = GuardrailForm
    template_name = "policies/guardrails/write.html"
    guardrail: Guardrail | None = None

    def prepare(self) -> None:
        if name := self.kwargs.get("name"):
            self.guardrail = guardrail_or_404(name)
        sent = self.request.GET.get("form", "")
        self.form_of_rule = (
            Form(self.guardrail.form)
            if self.guardrail
            else Form(sent)
            if sent in Form.values
            else Form.FORBID
        )

    def get_form_kwargs(self) -> dict:
        return super().get_form_kwargs() | {"form": self.form_of_rule}

    def get_initial(self) -> dict:
        stored = initial_of(self.guardrail.name, rule_of(self.guardrail)) if self.guardrail else {}
        defaults = {
            "privileges": ["ADMIN"],
            "at_least": 2,
            "level": str(Enforcement.BLOCK),
            "decision": "yes",
        }
        return defaults | stored | super().get_initial()

    def get_template_names(self) -> list[str]:
        is_part = requested_section(self.request) == "guardrail-count"
        return ["policies/guardrails/_count.html"] if is_part else super().get_template_names()

    def get_context_data(self, **context) -> dict:
        context = super().get_context_data(**context)
        is_counted = requested_section(self.request) == "guardrail-count" or self.request.method == "POST"
        return context | {
            "guardrail": self.guardrail,
            "form_of_rule": self.form_of_rule,
            "forms": [(form, title, f"?form={form}") for form, title in FORM_TITLES.items()],
            "count": self._count() if is_counted else None,
            "is_counted": is_counted,
            "action": f"{self.request.path}?form={self.form_of_rule}",
        }

    def _count(self) -> dict | None:
        """Return the violations of what is entered now, or the fault of the guardrail; None if a field is not filled in yet.

        After a POST, the form shows the fault.
        """
        form = GuardrailForm.sent(self.request, form=self.form_of_rule)
        if not form.is_valid() or not all(
            form.cleaned_data.get(name, "-") for name in ("subject", "operation")
        ):
            return None
        try:
            rule = form.rule
            violations = draft_violations(rule)
            examples = list(islice(violations, MAX_EXAMPLES))
            total = len(examples) + sum(1 for _ in violations)
        except Refusal as error:
            return {"fault": form.refusal_text(error)} if self.request.method != "POST" else None
        return {
            "rule": rule,
            "examples": examples,
            "total": total,
            "more": total - len(examples),
            "no_match": reasons_for_no_match({"": rule}).get(""),
        }

    def perform(self, form: GuardrailForm) -> HttpResponse:
        name = self.guardrail.name if self.guardrail else form.cleaned_data["name"]
        outcome = apply(
            ChangeSet.of(SetGuardrail(name, form.rule.text)),
            author=self.author(form),
            shown=Shown(violations=number_of(form.data.get("accepted", "")) or 0),
        )
        show_outcome(self.request, outcome)
        exists = Guardrail.objects.filter(name=name).exists()
        return see_other(
            reverse("policies-guardrail", args=[name]) if exists else reverse("policies-guardrails")
        )


class ExceptionForm(_RuleForm):
    """verb: `add` or `end` an exception, or `delete` the guardrail."""

    id_pattern = "exception-%s"
    error_fields = {"subject": "principal", "place": "within"}

    verb = OptionalChoiceField(default="add", choices=[(verb, verb) for verb in ("add", "end", "delete")])
    principal = PrincipalField(label=optional("User or group"))
    within = PlaceField(label=optional("Within"), placeholder="namespace:NAME")
    owner = PrincipalField(label="Owner, who answers for it", only="user", required=True)
    valid_until = LastDayField(label="Last day", required=True)
    reason = reason_field(required=True)


class GuardrailPage(FormPage):
    """Show a guardrail with its violations and exceptions; add or end an exception, or delete the guardrail.

    With `verb=delete` in the URL, the page asks whether to delete it.
    """

    capabilities = (Capability.READ_ALL,)
    change_capabilities = (Capability.MANAGE_SETTINGS,)
    form_class = ExceptionForm
    template_name = "policies/guardrails/page.html"

    def prepare(self) -> None:
        self.guardrail = guardrail_or_404(self.kwargs["name"])

    def perform(self, form: ExceptionForm) -> HttpResponse:
        outcome = self._change(form)
        show_outcome(self.request, outcome)
        exists = Guardrail.objects.filter(pk=self.guardrail.pk).exists()
        return see_other(self.request.path if exists else reverse("policies-guardrails"))

    def _change(self, form: ExceptionForm) -> Outcome:
        values, name = form.cleaned_data, self.guardrail.name
        subject = with_default_type(values["principal"]) if values["principal"] else ""
        place = _text(values["within"])
        changes = {
            "add": SetException(
                name, subject, place, values["owner"], format_time(values["valid_until"]) or ""
            ),
            "end": EndException(name, subject, place),
            "delete": DeleteGuardrail(name),
        }
        author = self.author(form)
        return apply(ChangeSet.of(changes[values["verb"]]), author=author)

    def get_template_names(self) -> list[str]:
        if requested_section(self.request) == "violations":
            return ["policies/guardrails/_violations.html"]
        asks = self.get_form()["verb"].value() == "delete"
        is_deletion = asks and self.request.user.can(Capability.MANAGE_SETTINGS)
        return ["policies/guardrails/delete.html"] if is_deletion else super().get_template_names()

    def get_context_data(self, **context) -> dict:
        is_evaluated = requested_section(self.request) == "violations" or "violations" in self.request.GET
        context = super().get_context_data(**context) | {
            "guardrail": self.guardrail,
            "rule": rule_of(self.guardrail),
            "exceptions": self.guardrail.exceptions.select_related("user", "group").order_by("valid_until"),
            "can_change": self.request.user.can(Capability.MANAGE_SETTINGS),
            "action": self.request.path,
        }
        return context | {"violations": self._violations()} if is_evaluated else context

    def _violations(self) -> dict:
        rows: Iterator[Violation] = open_violations(self.guardrail)
        first = list(islice(rows, MAX_VIOLATIONS))
        more = sum(1 for _ in rows)
        dormant, forbids = 0, self.guardrail.form in (Form.FORBID, Form.FORBID_BOTH)
        if forbids:
            with_dormant = sum(1 for _ in open_violations(self.guardrail, with_dormant=True))
            dormant = with_dormant - len(first) - more
        can_revoke = forbids and self.request.user.can_administer
        return {"rows": first, "more": more, "dormant": dormant, "can_revoke": can_revoke}


def guardrail_or_404(name: str) -> Guardrail:
    guardrail = with_rules(Guardrail.objects.filter(name=name)).first()
    if guardrail is None:
        raise Http404("there is no such guardrail")
    return guardrail
