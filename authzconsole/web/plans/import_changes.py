"""The form that creates a plan from a file of changes or from pasted text, and its example files."""

from django import forms
from django.http import Http404, HttpRequest, HttpResponse
from django.urls import reverse
from django.views.decorators.http import require_safe

from authzconsole.web.forms import CODE_INPUT, ConsoleForm, ForAdministrators, FormPage, RawTextField
from authzconsole.web.plans.plan_pages import plan_url
from authzconsole.web.shared.guard import capability_required, request_author
from authzconsole.web.shared.rendering import see_other
from entities.errors import Refusal
from entities.vocabulary import Privilege
from grants.errors import PlanError
from grants.plans.create import MAX_PLAN_ITEMS
from grants.plans.sources.change_file import (
    MAX_FILE_BYTES,
    SAMPLES,
    BadChangeFile,
    file_plan,
    file_too_large_message,
)
from grants.roles.capabilities import Capability

# longer text would make the page slow
MAX_KEPT_BYTES = 256 * 1024
MAX_NAME_CHARACTERS = 200
MEDIA_TYPES = {"csv": "text/csv", "jsonl": "application/x-ndjson"}


class ImportForm(ConsoleForm):
    """A file of changes, or pasted text. A chosen file takes precedence."""

    id_pattern = "import-%s"

    refusal = "No plan was created"

    file = forms.FileField(
        required=False,
        label="File",
        widget=forms.FileInput(attrs={"accept": ".csv,.jsonl,.ndjson,.json,.txt,text/csv"}),
        allow_empty_file=True,
        help_text=f"CSV or JSON Lines in UTF-8, up to {MAX_FILE_BYTES // 1024 // 1024} MB and {MAX_PLAN_ITEMS:,} changes. "
        "A chosen file takes precedence over pasted text.",
    )
    text = RawTextField(
        label="Or paste the changes", widget=forms.Textarea(attrs={"class": "mono", "rows": 14, **CODE_INPUT})
    )

    def content(self) -> tuple[bytes, str]:
        """Return the bytes and the name of the file, or the pasted text and an empty name.

        Raise PlanError if the file is too long.
        """
        upload = self.cleaned_data["file"]
        if upload is None:
            return self.cleaned_data["text"].encode(errors="surrogatepass"), ""
        if upload.size > MAX_FILE_BYTES:
            raise PlanError(file_too_large_message(upload.size))
        return upload.read(), upload.name[:MAX_NAME_CHARACTERS]


class ImportChanges(ForAdministrators, FormPage):
    form_class = ImportForm
    template_name = "plans/import.html"
    raw, name = b"", ""

    def perform(self, form: ImportForm) -> HttpResponse:
        self.raw, self.name = form.content()
        if not self.raw and not self.name:
            raise PlanError("there are no changes: choose a file or paste the changes")
        plan = file_plan.create(request_author(self.request), raw=self.raw, name=self.name)
        return see_other(plan_url(plan))

    def refusal_response(self, form: ImportForm, error: Refusal) -> HttpResponse:
        is_kept = len(self.raw) <= MAX_KEPT_BYTES
        text = self.raw.decode(errors="replace").removeprefix("\ufeff") if is_kept else ""
        shown = ImportForm(initial={"text": text})
        context = {"is_too_long": not is_kept, "file": self.name}
        if isinstance(error, BadChangeFile):
            bad_more = error.bad_lines - len({fault.line for fault in error.faults})
            context |= {"bad_file": error, "bad_more": bad_more}
        else:
            context["fault"] = form.refusal_text(error)
        return self.render_to_response(self.get_context_data(form=shown, **context), status=400)

    def get_context_data(self, **context) -> dict:
        return super().get_context_data(**context) | {
            "all_privileges": list(Privilege),
            "sample": SAMPLES["csv"],
            "samples": [
                (title, reverse("plan-import-sample", args=[extension]))
                for title, extension in (("CSV", "csv"), ("JSON Lines", "jsonl"))
            ],
        }


@require_safe
@capability_required(Capability.CHANGE_GRANTS, visible_to=[Capability.READ_ALL])
def sample_change_file(request: HttpRequest, extension: str) -> HttpResponse:
    if extension not in SAMPLES:
        raise Http404("there is no such example")
    response = HttpResponse(SAMPLES[extension], content_type=f"{MEDIA_TYPES[extension]}; charset=utf-8")
    response["Content-Disposition"] = f'attachment; filename="changes.{extension}"'
    return response
