"""The pages of evidence: request a bundle, follow its progress, and download it."""

from datetime import date, datetime, timedelta
from typing import NamedTuple

from django import forms
from django.core.exceptions import ValidationError
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404
from django.urls import reverse
from django.utils import timezone
from django.utils.timezone import localtime
from django.views.decorators.http import require_safe

from analytics.runs.selectors import waiting_reason
from authzconsole.common.messages import as_sentence
from authzconsole.evidence.bundles import bundle_response
from authzconsole.evidence.services import EvidenceError, request_evidence
from authzconsole.models import Evidence
from authzconsole.web.forms import AddressField, ConsoleForm, FlagField, FormPage, TextField, TimeFilterField
from authzconsole.web.journal.periods import Period, first_day, first_of_quarter
from authzconsole.web.shared.guard import capability_required
from authzconsole.web.shared.paging import paginate_sequence
from authzconsole.web.shared.rendering import render_page, requested_section, see_other
from authzconsole.web.shared.times import zone_name
from entities.address import ancestor_kinds
from entities.models import Entity
from entities.vocabulary import INNER_CONTAINER_KINDS, KINDS
from grants.evidence import public_key
from grants.history import AsOfError, parse_as_of
from grants.journal import read_only_reason
from grants.models import JobState
from grants.roles.capabilities import Capability

ROWS_PER_PAGE = 20
MAX_QUARTERS = 5
SECTION = "evidence"
EVIDENCE = Evidence.objects.select_related("job__requested_by")


class Moment(NamedTuple):
    """An entered time or revision. time: None if a revision was entered."""

    revision: int
    time: datetime | None


class MomentField(TimeFilterField):
    """A date, a time or a revision; its value is a Moment.

    is_end: an empty text and the date of today mean now.
    """

    def __init__(self, **options):
        super().__init__(**{"max_characters": 40} | options)

    def to_python(self, value: str | None) -> Moment:
        text, now = (value or "").strip(), timezone.now()
        try:
            if text.isascii() and text.isdigit():
                return Moment(parse_as_of(text), None)
            time = super().to_python(text)
            if time is None and not self.is_end:
                raise AsOfError("enter the start: a date, a time or a revision; or choose a period")
            if time is None or self.is_end and now < time <= now + timedelta(days=1):
                time = now
            return Moment(parse_as_of(time.isoformat()), time)
        except AsOfError as error:
            raise ValidationError(as_sentence(error)) from None


def quarters() -> dict[str, tuple[str, str]]:
    """Return the current calendar quarter and the four before it, by label: the texts of `since` and `until`.

    A quarter in which the journal begins starts with its first line; earlier quarters are left out. Runs one query.
    """
    today, first = localtime().date(), first_day()
    start, end, periods = first_of_quarter(today), today, {}
    for _ in range(MAX_QUARTERS):
        if end >= first:
            label = f"Quarter {start.month // 3 + 1} of {start.year}, {start} to {end}"
            periods[label] = _since_text(start, first), str(end)
        start, end = first_of_quarter(start - timedelta(days=1)), start - timedelta(days=1)
    return periods


def evidence_fields(entity: Entity) -> dict[str, str]:
    """Return the fields of the form for evidence about an entity with its contents."""
    return {"entity": str(entity)} | ({"contents": "yes"} if entity.kind in INNER_CONTAINER_KINDS else {})


def evidence_url(entity: Entity) -> str:
    """Return the URL of the form with these fields."""
    return reverse("evidence-list", query=evidence_fields(entity))


def _since_text(start: date, first: date) -> str:
    """Return the text of a start; that of the first line if it is before the day of this line."""
    return "1" if start <= first else str(start)


def evidence_ends(period: Period) -> dict[str, str]:
    """Return the fields of the form for a period; empty if the journal begins after it. Runs one query."""
    first, end = first_day(), period.until or localtime().date()
    return {"since": _since_text(period.since, first), "until": str(end)} if end >= first else {}


class EvidenceForm(ConsoleForm):
    """What the evidence is about. period: one of `quarters`, in place of both ends."""

    id_pattern = "evidence-%s"
    entity = AddressField(label="Entity", placeholder="dataset:sales.customers", required=True)
    contents = FlagField(label="Include contents of the namespace or application")
    kind = TextField(label="Kinds of contents", widget=forms.Select)
    period = forms.ChoiceField(label="Period", required=False)
    since = MomentField(label="From", placeholder="2026-01-01")
    until = MomentField(label="To", placeholder="now", is_end=True)

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        kinds = [name for name in KINDS if set(ancestor_kinds(name)) & set(INNER_CONTAINER_KINDS)]
        self.fields["kind"].widget.choices = [("", "All kinds"), *((name, name) for name in kinds)]
        periods = quarters()
        self.fields["period"].choices = [
            ("", "From and to, below"),
            *((label, label) for label in periods),
        ]
        self.has_times = bool(self.data.get("since") or self.data.get("until"))
        if texts := periods.get(self.data.get("period", "")):
            self.data = self.data.copy()
            self.data["since"], self.data["until"] = texts
        self.fields[
            "until"
        ].help_text = (
            f"A date such as 2026-01-31, a time in {zone_name()} such as 2026-01-31 12:00, or a revision."
        )

    def clean(self) -> dict:
        if self.cleaned_data.get("period") and self.has_times:
            self.add_error(
                "period", "Choose a period, or choose `From and to` and enter these below, not both."
            )
        return self.cleaned_data

    def refuse(self, error: Exception) -> None:
        is_of_entity = isinstance(error, EvidenceError) and "period" not in str(error)
        self.add_error("entity" if is_of_entity else "until", as_sentence(error))


class EvidenceList(FormPage):
    """List the requests, and store a new one."""

    capabilities = (Capability.READ_JOURNAL,)
    form_class = EvidenceForm
    template_name = "journal/evidence/list.html"

    def get_initial(self) -> dict:
        # a link without a period does not say whether it is about the contents
        # the first quarter is the current one
        current = {"period": next(iter(quarters()), ""), "contents": "yes"}
        defaults = {} if "since" in self.request.GET else current
        return defaults | super().get_initial()

    def perform(self, form: EvidenceForm) -> HttpResponse:
        values = form.cleaned_data
        evidence = request_evidence(
            entity=values["entity"],
            from_revision=values["since"].revision,
            to_revision=values["until"].revision,
            since=values["since"].time,
            until=values["until"].time,
            contents=values["contents"] and values["entity"].kind in INNER_CONTAINER_KINDS,
            kind=values["kind"],
            requested_by=self.request.user,
        )
        return see_other(reverse("evidence", args=[evidence.pk]))

    def get_context_data(self, **context) -> dict:
        page = paginate_sequence(self.request, EVIDENCE.order_by("-pk"), max_rows=ROWS_PER_PAGE)
        return super().get_context_data(**context) | {
            "page": page,
            "public_key": "" if read_only_reason() else public_key(),
        }


@require_safe
@capability_required(Capability.READ_JOURNAL)
def evidence_page(request: HttpRequest, pk: int) -> HttpResponse:
    evidence = get_object_or_404(EVIDENCE, pk=pk)
    template = (
        "journal/evidence/_progress.html"
        if requested_section(request) == SECTION
        else "journal/evidence/page.html"
    )
    is_waiting = evidence.job.state == JobState.WAITING
    context = {"evidence": evidence, "waiting_reason": waiting_reason("The evidence") if is_waiting else ""}
    return render_page(request, template, context)


@require_safe
@capability_required(Capability.READ_JOURNAL)
def download_evidence(request: HttpRequest, pk: int) -> HttpResponse:
    """Stream the bundle."""
    evidence = get_object_or_404(EVIDENCE, pk=pk)
    return bundle_response(evidence.job.result_path, f"evidence-{evidence.pk}")
