"""The page of differences: what an entity or principal gained and lost between two revisions."""

from urllib.parse import urlencode

from django import forms
from django.core.exceptions import ValidationError
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.views.decorators.http import require_safe

from authzconsole.common.messages import as_sentence
from authzconsole.lists.files import download_links
from authzconsole.lists.journal import Differences
from authzconsole.web.forms import ConsoleForm, NameInput, TextField
from authzconsole.web.journal.periods import period_by_key, recent_periods
from authzconsole.web.shared.guard import capability_required
from authzconsole.web.shared.parameters import text_parameter
from authzconsole.web.shared.past import revision_from_input
from authzconsole.web.shared.rendering import render_page
from authzconsole.web.shared.times import zone_name
from entities.address import Address, AddressError, parse_address
from grants.errors import PrincipalError
from grants.history import HistoryError, Span, as_differences, known_since, revision_time
from grants.journal import current_revision
from grants.policies.principals import is_principal_text
from grants.principal_names import format_principal
from grants.roles.capabilities import Capability

ROWS_PER_PAGE = 50


class SubjectField(TextField):
    """An entity, a user or a group; its value is an Address, or text such as `user:alice`."""

    def to_python(self, value: str | None) -> Address | str:
        text = super().to_python(value)
        if not text:
            raise ValidationError("Enter an entity, a user or a group.")
        try:
            return format_principal(text) if is_principal_text(text) else parse_address(text)
        except (PrincipalError, AddressError) as error:
            raise ValidationError(as_sentence(error)) from None


class RevisionField(TextField):
    """A date, a time or a revision; its value is a revision. An empty text means now if it is not required."""

    def to_python(self, value: str | None) -> int:
        text = super().to_python(value)
        if not text:
            if self.required:
                raise ValidationError("Enter a date, a time or a revision.")
            return current_revision()
        try:
            return revision_from_input(text)
        except HistoryError as error:
            raise ValidationError(as_sentence(error)) from None


class DifferencesForm(ConsoleForm):
    id_pattern = "differences-%s"
    of = SubjectField(
        label="Entity, user or group",
        placeholder="dataset:sales.orders or user:NAME",
        required=True,
        max_characters=600,
        widget=NameInput(),
    )
    since = RevisionField(label="From", placeholder="2026-01-01", required=True, max_characters=40)
    until = RevisionField(label="To", placeholder="now", max_characters=40)
    contents = forms.BooleanField(required=False)

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        # the button of a period replaces both ends
        if period := period_by_key(self.data.get("period", "")):
            self.data = self.data.copy()
            for name, text in period.ends.items():
                self.data[name] = text
        self.fields[
            "until"
        ].help_text = f"A date such as 2026-01-31 (its end), a time in {zone_name()} such as 2026-01-31 12:00, or a revision."

    @property
    def is_sent(self) -> bool:
        return bool(self.data.get("since"))

    def clean(self) -> dict:
        values = self.cleaned_data
        if {"since", "until"} <= values.keys() and values["since"] > values["until"]:
            self.add_error("since", "The first date is after the second one.")
        return values


@require_safe
@capability_required(Capability.READ_JOURNAL)
def differences_page(request: HttpRequest) -> HttpResponse:
    form = DifferencesForm(request.GET)
    context: dict = {"url": reverse("journal-differences")}
    if not form.is_sent:
        form = DifferencesForm(initial={"contents": True} | DifferencesForm.initial_from(request.GET))
    elif form.is_valid():
        try:
            context |= _result(request, form.cleaned_data)
        except HistoryError as error:
            form.add_error("since", as_sentence(error))
    return render_page(
        request, "journal/differences.html", context | {"form": form, "periods": recent_periods()}
    )


def _result(request: HttpRequest, values: dict) -> dict:
    """Return the rows of a page and its links. Raise HistoryError if the state at the beginning is not known."""
    subject, span = values["of"], Span(values["since"], values["until"])
    query = {
        "principal" if isinstance(subject, str) else "entity": subject,
        "since": span.before,
        "until": span.after,
    }
    if "contents" in request.GET:
        query["contents"] = "true"
    listed = Differences(request.user, {"contents": False} | query)
    # the position: the number of a part and a primary key
    part, _, pk = text_parameter(request, "after", max_characters=30).partition("-")
    is_valid = part.isdecimal() and pk.isdecimal()
    rows, following = listed.page([int(part), [int(pk)]] if is_valid else None, ROWS_PER_PAGE)
    known = known_since(subject)
    return {
        "rows": list(as_differences(rows, span)),
        "span": span,
        "subject": subject,
        "next_position": f"{following[0]}-{following[1][0]}" if following else "",
        "since_time": revision_time(span.before),
        "until_time": revision_time(span.after),
        "is_import": known is not None and known.is_import and known.revision > span.before,
        "downloads": download_links(
            Differences,
            lambda extension: f"{reverse(f'differences_{extension}')}?{urlencode(query, safe=':')}",
        ),
    }
