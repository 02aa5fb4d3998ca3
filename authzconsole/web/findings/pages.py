"""The pages of findings: the inbox, one finding, decisions about several, and the rules that accept classes."""

from collections.abc import Iterator

from django.conf import settings
from django.contrib import messages
from django.db.models import Count, Q
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404
from django.urls import reverse
from django.utils import timezone
from django.utils.dateparse import parse_datetime
from django.views.decorators.http import require_safe

from analytics.analyses import AnalysisName
from analytics.runs.selectors import changes_since, latest_run
from authzconsole.findings.kinds import KIND_CHOICES, KINDS, finding_text, in_state
from authzconsole.findings.refresh import refresh_findings
from authzconsole.findings.services import (
    MAX_CHANGED,
    READER,
    accept_findings,
    add_rule,
    assign_findings,
    can_read_findings,
    end_rule,
    reopen_findings,
)
from authzconsole.findings.sources import REPORT_FIGURES, Situation
from authzconsole.lists.findings import SEVERITIES, Findings
from authzconsole.models import AcceptanceRule, Finding, FindingState, Severity
from authzconsole.web.findings.items import own_items
from authzconsole.web.findings.links import FindingLinks
from authzconsole.web.findings.rows import problem_rows, reads_report
from authzconsole.web.forms import (
    ConsoleForm,
    FormPage,
    LastDayField,
    ListForm,
    NameInput,
    OptionalChoiceField,
    PrincipalField,
    StrictChoiceField,
    TextField,
    TextsField,
    optional,
    reason_field,
)
from authzconsole.web.journal.rows import with_reader_times
from authzconsole.web.lists import ListPage
from authzconsole.web.reports.check_again import REPORT_AGE, age_of_reports, report_age_section
from authzconsole.web.shared.guard import capability_required
from authzconsole.web.shared.parameters import number_of
from authzconsole.web.shared.rendering import render_page, requested_section, see_other, show_outcome
from entities.errors import Refusal
from grants.models import User
from grants.outcomes import Outcome
from grants.roles.capabilities import Capability

ALL = "all"
MAX_COUNTED = 99
# the section with the rows, and the parameter with which the page has them at once
PROBLEMS, ROWS = "problems", "rows"
# the kinds of which the run is about data
REPORTED_KINDS = {figure.kind for figure in REPORT_FIGURES}


class FindingForm(ListForm):
    list_type = Findings

    state = OptionalChoiceField(default=str(FindingState.OPEN), choices=[*FindingState.choices, (ALL, "All")])
    severity = OptionalChoiceField(choices=[(severity.word, severity.label) for severity in Severity])
    kind = OptionalChoiceField(choices=KIND_CHOICES)
    namespace = TextField()
    owner = PrincipalField(only="user")


class FindingList(ListPage):
    """The inbox. Accounts that may not see findings see only what waits for them."""

    form_class = FindingForm
    template_name = "findings/list.html"
    section = ("findings", "findings/_list.html")
    page_url = "findings"
    file_url = "findings-file"

    def dispatch(self, request: HttpRequest, *args, **kwargs) -> HttpResponse:
        if not can_read_findings(request.user) and request.method in ("GET", "HEAD"):
            return render_page(request, self.template_name, {"problems": own_items(request.user)})
        if requested_section(request) == REPORT_AGE and can_read_findings(request.user):
            return report_age_section(request)
        return super().dispatch(request, *args, **kwargs)

    def get_context_data(self) -> dict:
        is_section = requested_section(self.request) == self.section[0]
        reports: dict = {}
        if not is_section:
            situation = Situation.now()
            refresh_findings(situation, is_page=True)
            reports = age_of_reports(situation.reports)
        context = super().get_context_data() | reports
        return context | {
            "sees_all": True,
            "has_mail": bool(settings.EMAIL_HOST and self.request.user.email),
            "problems": [] if is_section else own_items(self.request.user),
            "rows": list(_rows(context["page"].rows)),
            "states": self.form.fields["state"].choices,
            "severities": [("", "Any severity"), *self.form.fields["severity"].choices],
            "kinds": KIND_CHOICES,
            "can_change": self.request.user.can_administer,
            "can_start": self.request.user.can(Capability.RUN_ANALYSES),
        }


class MailForm(ConsoleForm):
    """wanted: `yes` to get e-mail about new errors, otherwise `no`."""

    wanted = OptionalChoiceField(default="no", choices=[("yes", "yes"), ("no", "no")])


class ChooseMail(FormPage):
    """Choose whether the own account gets e-mail about new errors."""

    http_method_names = ("post",)
    capabilities = (READER,)
    form_class = MailForm
    template_name = "findings/list.html"

    def perform(self, form: MailForm) -> HttpResponse:
        is_wanted = form.cleaned_data["wanted"] == "yes"
        User.objects.filter(pk=self.request.user.pk).update(wants_finding_mail=is_wanted)
        messages.success(self.request, f"You get {'an' if is_wanted else 'no'} e-mail about new errors.")
        return see_other(reverse("findings"))


def _rows(findings: list[Finding]) -> Iterator[dict]:
    """Yield the context of each finding, with the link to its rows and the button that fixes it."""
    links = FindingLinks(findings, latest_run(AnalysisName.GHOST_GRANTS))
    for finding in findings:
        about = links.about(finding)
        yield {
            "finding": finding,
            "text": finding_text(finding),
            "level": Severity(finding.severity).word,
            "url": links.rows_url(about),
            "fix": links.fix(about) if finding.resolved_at is None else None,
        }


@require_safe
@capability_required(READER)
def finding_page(request: HttpRequest, pk: int) -> HttpResponse:
    """Show a finding as it is now: what it is about, the button that fixes it, the form that accepts it, and its history.

    In a large tenant, htmx loads the rows of a report after the page.
    """
    stored, is_section = get_object_or_404(Finding, pk=pk), requested_section(request) == PROBLEMS
    is_later = False
    if stored.resolved_at is None and not is_section:
        situation = Situation.now()
        refresh_findings(situation, is_page=True, kind=stored.kind)
        is_later = situation.is_large and ROWS not in request.GET
    finding = Finding.objects.select_related("owner", "rule").get(pk=pk)
    links = FindingLinks([finding], latest_run(AnalysisName.GHOST_GRANTS))
    about, kind = links.about(finding), KINDS.get(finding.kind)
    is_later = is_later and reads_report(finding, about.run)
    rows = [] if is_later else problem_rows(finding, about.run)
    context = {
        "finding": finding,
        "url": links.rows_url(about),
        "problems": rows,
        "is_later": is_later,
        "can_change": request.user.can_administer,
    }
    if is_section:
        return render_page(request, "findings/_problems.html", context)
    fix = links.fix(about)
    history = [
        event | {"at": parse_datetime(event["at"]), "text": with_reader_times(event["text"])}
        for event in reversed(finding.history)
    ]
    if fix and fix.url == context["url"] and (is_later or any(row.fix for row in rows)):
        # the rows are here, each with its button
        fix = rows[0].fix if len(rows) == 1 and finding.figure == 1 else None
    accept = (
        ChangeForm(initial={"verb": "accept", "number": [pk]}) if finding.state == FindingState.OPEN else None
    )
    return render_page(
        request,
        "findings/page.html",
        context
        | {
            "text": finding_text(finding),
            "fix": fix if finding.resolved_at is None else None,
            "kind": kind.title if kind else finding.kind,
            "run": about.run if finding.kind in REPORTED_KINDS else None,
            "changes": changes_since(about.run) if finding.kind in REPORTED_KINDS else 0,
            "history": history,
            "accept": accept,
            "can_start": request.user.can(Capability.RUN_ANALYSES),
        },
    )


@require_safe
def finding_count(request: HttpRequest) -> HttpResponse:
    """Return the number of open errors as a badge of the navigation; 204 if there are none."""
    errors = in_state(Finding.objects.filter(severity=SEVERITIES["error"]), FindingState.OPEN)
    count = errors.order_by()[: MAX_COUNTED + 1].count() if can_read_findings(request.user) else 0
    if not count:
        return HttpResponse(status=204)
    return render_page(request, "findings/_count.html", {"count": count, "limit": MAX_COUNTED})


class ChangeForm(ConsoleForm):
    """A decision about findings. number: of each finding."""

    verb = OptionalChoiceField(
        default="accept", choices=[("accept", "Accept"), ("assign", "Assign"), ("reopen", "Open again")]
    )
    number = TextsField()
    until = LastDayField(label="Until the last day", required=True)
    owner = PrincipalField(label=optional("Owner, an administrator or auditor"), only="user")
    reason = reason_field()

    FIELDS = {"accept": ("until", "reason"), "assign": ("owner", "reason"), "reopen": ("reason",)}

    @property
    def chosen(self) -> str:
        """The verb that was sent, or that is in the URL."""
        sent = self.data.get("verb") if self.is_bound else self.initial.get("verb")
        return sent if sent in self.FIELDS else "accept"

    @property
    def shown_fields(self) -> list:
        return [self[name] for name in self.FIELDS[self.chosen]]

    @property
    def numbers(self) -> list[int]:
        values = self["number"].value() or []
        return list(dict.fromkeys(number for text in values if (number := number_of(text)) is not None))


class ChangeFindings(FormPage):
    """Accept the findings in the URL until a day, assign them, or open them again."""

    capabilities = (Capability.CHANGE_GRANTS,)
    visible_to = (READER,)
    form_class = ChangeForm
    template_name = "findings/change.html"
    TITLES = {"accept": "Accept findings", "assign": "Assign findings", "reopen": "Open findings again"}

    def get_context_data(self, **context) -> dict:
        context = super().get_context_data(**context)
        form = context["form"]
        rows = Finding.objects.filter(pk__in=form.numbers[:MAX_CHANGED]).order_by(*Findings.order)
        return context | {
            "title": self.TITLES[form.chosen],
            "findings": [(row, finding_text(row)) for row in rows],
            "today": timezone.localdate(),
        }

    def perform(self, form: ChangeForm) -> HttpResponse:
        values, numbers = form.cleaned_data, form.numbers
        author = self.author(form)
        match form.chosen:
            case "assign":
                outcome = assign_findings(numbers, owner=values["owner"], author=author)
            case "reopen":
                outcome = reopen_findings(numbers, author=author)
            case _:
                outcome = accept_findings(numbers, until=values["until"], author=author)
        show_outcome(self.request, outcome)
        return see_other(reverse("findings"))

    def refusal_response(self, form: ConsoleForm, error: Refusal) -> HttpResponse:
        return self.render_to_response(self.get_context_data(form=form), status=error.status)


class RuleForm(ConsoleForm):
    """verb: `add` a rule, or `end` the one with the number."""

    id_pattern = "rule-%s"

    verb = OptionalChoiceField(default="add", choices=[("add", "add"), ("end", "end")])
    number = TextField()
    kind = StrictChoiceField(label="Findings", choices=KIND_CHOICES, default=KIND_CHOICES[0][0])
    pattern = TextField(
        label="About",
        required=True,
        max_characters=300,
        placeholder="namespace:sandbox*",
        widget=NameInput(),
        help_text="The subject of the findings; * is any number of characters.",
    )
    until = LastDayField(label="Until the last day", required=True)
    reason = reason_field(required=True)


class FindingRules(FormPage):
    """List the rules, with a form that adds one."""

    capabilities = (READER,)
    change_capabilities = (Capability.CHANGE_GRANTS,)
    form_class = RuleForm
    template_name = "findings/rules.html"

    def get_context_data(self, **context) -> dict:
        accepted = Count("findings", filter=Q(findings__resolved_at=None))
        rules = AcceptanceRule.objects.annotate(accepted=accepted).order_by("-pk")
        now = timezone.now()
        return super().get_context_data(**context) | {
            "rules": [
                {
                    "rule": rule,
                    "title": KINDS[rule.kind].title if rule.kind in KINDS else rule.kind,
                    "has_ended": rule.until <= now,
                }
                for rule in rules
            ],
            "can_change": self.request.user.can_administer,
        }

    def perform(self, form: RuleForm) -> HttpResponse:
        show_outcome(self.request, self._change(form))
        return see_other(reverse("finding-rules"))

    def _change(self, form: RuleForm) -> Outcome:
        values = form.cleaned_data
        author = self.author(form)
        if values["verb"] == "end":
            return end_rule(number_of(values["number"]) or 0, author=author)
        _, outcome = add_rule(
            kind=values["kind"], pattern=values["pattern"], until=values["until"], author=author
        )
        return outcome
