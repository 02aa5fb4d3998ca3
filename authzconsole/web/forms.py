"""The fields of forms, the base class of forms, and the base view of a page with a form.

A form reads what was entered: addresses, principals, periods. Whether a change is allowed or complete is decided by
the services, whose messages REST uses too. The view adds them to the form, beside the field that an error names.
"""

from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import Any, ClassVar, Self

from django import forms
from django.core.exceptions import ValidationError
from django.core.validators import validate_email
from django.forms.renderers import TemplatesSetting
from django.http import HttpRequest, HttpResponse, QueryDict
from django.urls import reverse, reverse_lazy
from django.utils import timezone
from django.utils.dateparse import parse_date
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.views.generic import FormView

from authzconsole.common.messages import as_sentence
from authzconsole.lists.base import List
from authzconsole.lists.files import download_links
from authzconsole.web.shared.guard import check_page_access, request_author
from authzconsole.web.shared.principal_input import name_from_input, principal_from_input
from authzconsole.web.shared.rendering import render_page
from authzconsole.web.shared.times import (
    NO_END,
    PERIOD_FIELDS,
    parse_time,
    period_of_form,
    presets,
    reader_localtime,
    reader_time,
    start_of_day,
)
from entities.address import Address, AddressError, parse_address
from entities.errors import Refusal
from entities.vocabulary import Privilege, clip
from grants.errors import (
    AlreadyPermitted,
    DuplicateRequest,
    EffectChanged,
    EffectUnconfirmed,
    GrantError,
    NotApprover,
    RequestClosed,
    RequestError,
    StaleBase,
)
from grants.journal import Author
from grants.models import User
from grants.roles.capabilities import Capability
from grants.validity import Validity, ValidityError


class FormRefused(GrantError):
    """The page itself refuses a form. field: at fault; empty if it is the whole form. status: of the response."""

    def __init__(self, message: str, *, field: str = "", status: int = 400):
        self.field, self.status = field, status
        super().__init__(message)


# other refusals are errors of the input, for a page
REFUSALS_WITH_STATUS = (
    AlreadyPermitted,
    DuplicateRequest,
    EffectChanged,
    EffectUnconfirmed,
    FormRefused,
    NotApprover,
    RequestClosed,
    StaleBase,
)


# attributes of inputs for names, addresses and lists of them
CODE_INPUT = {"autocomplete": "off", "spellcheck": "false", "autocapitalize": "none"}


class ConsoleRenderer(TemplatesSetting):
    """Render the fields of forms with the templates of the console."""

    field_template_name = "shared/forms/field.html"


class _Optional(forms.Field):
    """A field that may be empty, unless it is required."""

    def __init__(self, *, required: bool = False, **options):
        super().__init__(required=required, **options)


class TextField(_Optional, forms.CharField):
    """A text without U+0000, which PostgreSQL does not accept.

    A required field has the attribute `required`, but the form accepts an empty text: the service refuses it, with a
    message that says what to enter. has_focus: whether the input has the focus when the form opens.
    """

    def __init__(
        self,
        *,
        placeholder: str = "",
        max_characters: int | None = None,
        has_focus: bool = False,
        **options,
    ):
        super().__init__(**options)
        attributes: dict[str, Any] = {"autocomplete": "off"}
        if placeholder:
            attributes["placeholder"] = placeholder
        if max_characters is not None:
            attributes["maxlength"] = max_characters
        if has_focus:
            attributes["autofocus"] = True
        self.widget.attrs = attributes | self.widget.attrs

    def to_python(self, value: str | None) -> Any:
        return super().to_python((value or "").replace("\0", ""))

    def validate(self, value: Any) -> None:
        """Accept an empty text."""


def check_email(text: str) -> None:
    """Raise ValidationError unless the text is an email address.

    Only forms check this: REST clients and tenant documents may send any text that the services accept.
    """
    try:
        validate_email(text)
    except ValidationError:
        raise ValidationError(
            f"`{clip(text)}` is not an email address. Enter one such as name@example.com."
        ) from None


class EmailField(TextField):
    """An email address, or an empty text."""

    default_validators = (check_email,)


class RawTextField(forms.CharField):
    """A pasted text, without any change: the service reads it as if it were a file."""

    def __init__(self, **options):
        super().__init__(**{"required": False, "strip": False} | options)
        self.validators = []


class NameInput(forms.TextInput):
    """An input for a name, an address or another text that is no sentence."""

    def __init__(self, attrs: Mapping | None = None):
        super().__init__(CODE_INPUT | dict(attrs or {}))


class SuggestionInput(NameInput):
    """An input with a list of suggestions below it. url: of the suggestions. list_label: what they are."""

    template_name = "shared/forms/suggestion_input.html"

    def __init__(self, url_name: str, list_label: str):
        super().__init__()
        self.url, self.list_label = reverse_lazy(url_name), list_label

    def get_context(self, *args) -> dict:
        context = super().get_context(*args)
        context["widget"] |= {"url": self.url, "list_label": self.list_label}
        return context


class PrincipalField(TextField):
    """A user or a group; its value is text such as `user:alice`. With `only`, its value is the name of a principal
    of this type.
    """

    def __init__(self, *, only: str = "", **options):
        self.only = only
        placeholder = f"{only}:NAME" if only else "user:NAME or group:NAME"
        widget = SuggestionInput("suggest-principals", "Users and groups")
        super().__init__(**{"strip": False, "placeholder": placeholder, "widget": widget} | options)

    def to_python(self, value: str | None) -> str:
        text = super().to_python(value)
        return name_from_input(text, self.only) if self.only else principal_from_input(text)


class AddressField(TextField):
    """An address; its value is an Address, or None for an empty text in a field that is not required.

    missing: the message for an empty text in a required field, if it is another one than for invalid addresses. parse: reads the
    text, by default an address.
    """

    def __init__(self, *, missing: str = "", parse: Callable[[str], Address] = parse_address, **options):
        self.missing, self.parse = missing, parse
        widget = SuggestionInput("search", "Addresses")
        super().__init__(**{"widget": widget} | options)

    def to_python(self, value: str | None) -> Address | None:
        text = super().to_python(value)
        if not text and not self.required:
            return None
        if not text and self.missing:
            raise ValidationError(self.missing)
        try:
            return self.parse(text)
        except AddressError as error:
            raise ValidationError(as_sentence(error)) from None


class TimeField(TextField):
    """A time in the time zone of the reader; its value is a datetime, or None for an empty text.

    A date without a time means the end of that day. missing: the message for an empty text; empty if it is allowed.
    """

    widget = forms.TextInput(attrs={"type": "datetime-local", "step": "any"})

    def __init__(self, *, missing: str = "", **options):
        self.missing = missing
        super().__init__(**{"max_characters": 40} | options)

    def to_python(self, value: str | None) -> datetime | None:
        try:
            at = reader_time("", super().to_python(value)[:40], is_end=True)
        except ValidityError as error:
            raise ValidationError(as_sentence(error)) from None
        if at is None and self.missing:
            raise ValidationError(self.missing)
        return at


class TimeFilterField(TextField):
    """A date or time that limits a list, in the time zone of the reader; its value is a datetime or None.

    is_end: a date means its end instead of its start.
    """

    def __init__(self, *, is_end: bool = False, **options):
        self.is_end = is_end
        super().__init__(**options)

    def to_python(self, value: str | None) -> datetime | None:
        text = super().to_python(value)
        try:
            return parse_time(text, is_end=self.is_end)
        except (ValueError, OverflowError):
            raise ValidationError(
                f"`{text}` is not a date. Enter a date such as 2026-02-28 or a time such as 2026-02-28T13:30."
            ) from None


class LastDayField(TextField):
    """The last day of an access, today or later, such as `2026-12-05`; its value is the end of this day in the time zone of
    the reader, or None for an empty text.
    """

    widget = forms.DateInput(attrs={"type": "date"})

    def to_python(self, value: str | None) -> datetime | None:
        text = super().to_python(value)
        try:
            end = end_of_day(text)
        except RequestError as error:
            raise ValidationError(as_sentence(error)) from None
        if end and end <= timezone.now():
            raise ValidationError(f"{text} is in the past: enter today or a later day.")
        return end


def end_of_day(text: str) -> datetime | None:
    """Return the end of a date, such as `2026-12-05`, in the time zone of the reader; None for empty text.

    Raise RequestError if it is no date.
    """
    if not text:
        return None
    try:
        day = parse_date(text)
    except ValueError:
        day = None
    if day is None or day.year > 9_000:
        raise RequestError(f"`{clip(text)}` is not a date: enter a date such as 2026-12-05")
    return start_of_day(day + timedelta(days=1))


def last_day(end: datetime | None) -> str:
    """Return the last day of an access with this end, as LastDayField reads it; empty without an end."""
    return f"{reader_localtime(end - timedelta(seconds=1)):%Y-%m-%d}" if end else ""


class NumberField(TextField):
    """A whole number; 0 for an empty text."""

    widget = forms.TextInput(attrs={"inputmode": "numeric"})

    def to_python(self, value: str | None) -> int:
        text = super().to_python(value)
        if text and not (text.isascii() and text.isdigit() and len(text) < 9):
            raise ValidationError(f"`{text[:20]}` is not a whole number, such as 30.")
        return int(text or 0)


class FlagInput(forms.CheckboxInput):
    """A checkbox that sends `yes`. Any other text means that it is not checked."""

    template_name = "shared/forms/flag_input.html"

    def value_from_datadict(self, data: Mapping, files: Mapping, name: str) -> bool:
        return data.get(name) == "yes"


class FlagField(_Optional, forms.BooleanField):
    """Whether a checkbox is checked. A required one has the attribute `required`, but the form accepts it unchecked."""

    widget = FlagInput

    def validate(self, value: bool) -> None:
        """Accept an unchecked box."""


class _Options:
    """Render each choice as an input with its label."""

    template_name = "shared/forms/choices.html"


class Radios(_Options, forms.RadioSelect):
    """One choice of several, all of them visible."""


class Checkboxes(_Options, forms.CheckboxSelectMultiple):
    """Any number of choices."""


class OptionalChoiceField(_Optional, forms.ChoiceField):
    """One of the choices. Any other text counts as `default`, as if it were not there."""

    def __init__(self, *, default: str = "", **options):
        self.default = default
        super().__init__(**options)

    def clean(self, value: str | None) -> str:
        text = self.to_python(value)
        return text if text and self.valid_value(text) else self.default


class StrictChoiceField(_Optional, forms.ChoiceField):
    """One of the choices, or an empty text, which counts as `default`."""

    def __init__(self, *, default: str = "", **options):
        self.default = default
        super().__init__(**options)

    def validate(self, value: str) -> None:
        if value and not self.valid_value(value):
            allowed = ", ".join(str(key) for key, _ in self.choices if key)
            raise ValidationError(f"`{clip(value)}` is not one of {allowed}.")

    def clean(self, value: str | None) -> str:
        return super().clean((value or "").replace("\0", "")) or self.default


class TextsField(_Optional, forms.MultipleChoiceField):
    """Any number of texts, each of them once. The service refuses those that are no valid values."""

    widget = Checkboxes

    def clean(self, value: list[str] | None) -> list[str]:
        return list(dict.fromkeys(text.replace("\0", "") for text in self.to_python(value)))


def privileges_field(**options) -> TextsField:
    """Return the field with the checkboxes of all privileges."""
    choices = [(str(privilege), str(privilege)) for privilege in Privilege]
    return TextsField(**{"label": "Privileges", "choices": choices} | options)


def reason_field(**options) -> TextField:
    """Return the field for the reason that the journal records."""
    return TextField(**{"label": "Reason"} | options)


def optional(label: str) -> SafeString:
    """Return the label of a field that may stay empty."""
    return format_html('{} <span class="muted">(optional)</span>', label)


class ConsoleForm(forms.Form):
    """A form of a page.

    refusal: what was not done if the service refuses, such as `Nothing was changed`; empty if the message is enough.
    error_fields: the field of the form for each name of a field in the errors of the service. id_pattern: of the ids of the
    inputs.
    """

    refusal: ClassVar[str] = ""
    id_pattern: ClassVar[str] = "%s"
    error_fields: ClassVar[Mapping[str, str]] = {}

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **{"auto_id": self.id_pattern} | kwargs)

    @classmethod
    def initial_from(cls, parameters: QueryDict) -> dict[str, Any]:
        """Return the values of the fields in the parameters of a URL."""
        fields: Mapping[str, forms.Field] = cls.base_fields  # type: ignore[attr-defined]
        return {
            name: field.widget.value_from_datadict(parameters, {}, name)
            for name, field in fields.items()
            if name in parameters
        }

    @classmethod
    def sent(cls, request: HttpRequest, **kwargs) -> Self:
        """Return the form with the values in the body of a POST, or else in the URL. Its values are cleaned.

        kwargs: further arguments of the form.
        """
        form = cls(request.POST if request.method == "POST" else request.GET, **kwargs)
        form.is_valid()
        return form

    def refuse(self, error: Refusal) -> None:
        """Add the message of a refusal to the field that the error names, or to the form."""
        name = getattr(error, "field", "")
        name = self.error_fields.get(name, name)
        self.add_error(name if name in self.fields else None, self.refusal_text(error))

    def refusal_text(self, error: Refusal) -> str:
        return f"{self.refusal}: {str(error).removesuffix('.')}." if self.refusal else as_sentence(error)


class ListForm(ConsoleForm):
    """The filters of a list in a page. If one of them is invalid, no row matches."""

    list_type: ClassVar[type[List]]

    def filtered_list(self, account: User, **filters: object) -> List:
        """Return the list with the filters of the form, of which `filters` replace some."""
        is_valid = self.is_valid()
        values = {name: value for name, value in (self.cleaned_data | filters).items() if value}
        return self.list_type(account, values, is_valid=is_valid)

    @property
    def texts(self) -> dict[str, str]:
        """The texts of the filters that are set."""
        return {
            field.name: "yes" if field.value() is True else field.value() for field in self if field.value()
        }

    def downloads(self, url_name: str) -> list[tuple[str, str]]:
        """Return the title and the URL of each file with the same filters. url_name: of the files."""
        if self.errors:
            return []
        return download_links(
            self.list_type, lambda extension: reverse(url_name, args=[extension], query=self.texts)
        )


class PeriodForm(ConsoleForm):
    """A form with the validity period of grants or memberships; `validity` in its cleaned data is the period."""

    valid_from = TextField(
        label="From",
        placeholder="2026-12-01 08:00",
        widget=forms.TextInput(attrs={"type": "datetime-local", "step": "any"}),
    )
    valid_until = TextField(
        label="Until",
        placeholder="2026-12-05 17:00",
        widget=forms.TextInput(attrs={"type": "datetime-local", "step": "any"}),
    )
    until_preset = TextField(label="Ends", widget=forms.Select)

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.fields["until_preset"].widget.choices = [
            ("", "on the date above, if there is one"),
            *((key, label) for key, label, _ in presets()),
            (NO_END, "No end"),
        ]

    def has_period(self) -> bool:
        """Return whether the change of the form has a period. The fields are ignored if it has none."""
        return True

    @property
    def is_period_empty(self) -> bool:
        values = self.data if self.is_bound else self.initial
        return not any(values.get(name) for name in PERIOD_FIELDS)

    def clean(self) -> dict:
        values = self.cleaned_data
        values["validity"] = Validity()
        if self.has_period():
            try:
                values["validity"] = period_of_form({name: values[name][:40] for name in PERIOD_FIELDS})
            except ValidityError as error:
                self.refuse(error)
        return values


class ForAdministrators:
    """A page for accounts that change grants. Accounts that read grants see that it exists."""

    capabilities = (Capability.CHANGE_GRANTS,)
    visible_to = (Capability.READ_ALL,)


class FormPage(FormView):
    """A page with a form: GET shows it with the values in the URL, POST does what it describes.

    A subclass implements `perform`, which returns the response, usually a redirect. If a service refuses, the page shows
    the form again, with the values that were entered and the message.

    capabilities, visible_to: see `capability_required`; POST needs one of `change_capabilities` too. decorators: of the
    view, applied after the access was checked. change_name: what a POST does, for the page that asks for the password first.
    """

    http_method_names = ("get", "head", "post")
    capabilities: ClassVar[tuple[Capability, ...]] = ()
    visible_to: ClassVar[tuple[Capability, ...]] = ()
    change_capabilities: ClassVar[tuple[Capability, ...]] = ()
    decorators: ClassVar[tuple[Callable, ...]] = ()

    @property
    def change_name(self) -> str:
        return ""

    def dispatch(self, request: HttpRequest, *args, **kwargs) -> HttpResponse:
        if request.method.lower() not in self.http_method_names:
            return self.http_method_not_allowed(request)
        if self.capabilities:
            check_page_access(request, *self.capabilities, visible_to=self.visible_to)
        self.prepare()
        if request.method == "POST" and self.change_capabilities:
            check_page_access(request, *self.change_capabilities, visible_to=self.capabilities)
        view: Callable = super().dispatch
        for decorate in self.decorators:
            view = decorate(view)
        return view(request, *args, **kwargs)

    def prepare(self) -> None:
        """Look up what the URL names. Raise Http404 or PermissionDenied."""

    def get_initial(self) -> dict:
        return super().get_initial() | self.form_class.initial_from(self.request.GET)

    def post(self, request: HttpRequest, *args, **kwargs) -> HttpResponse:
        form = self.get_form()
        if not form.is_valid():
            return self.form_invalid(form)
        try:
            return self.perform(form)
        except Refusal as error:
            if error.status == 404 or error.status >= 500:
                raise
            form.refuse(error)
            return self.refusal_response(form, error)

    def perform(self, form: ConsoleForm) -> HttpResponse:
        raise NotImplementedError

    def author(self, form: ConsoleForm) -> Author:
        """Return the author of the change, with the reason in a valid form."""
        return request_author(self.request, form.cleaned_data["reason"])

    def form_invalid(self, form: ConsoleForm) -> HttpResponse:
        return self.render_to_response(self.get_context_data(form=form), status=400)

    def refusal_response(self, form: ConsoleForm, error: Refusal) -> HttpResponse:
        """Show the form again after a service refused. error: the refusal, which the form has already."""
        status = error.status if isinstance(error, REFUSALS_WITH_STATUS) else 400
        return self.render_to_response(self.get_context_data(form=form), status=status)

    def render_to_response(self, context: Mapping, *, status: int = 200) -> HttpResponse:
        return render_page(self.request, self.get_template_names()[0], context, status=status)
