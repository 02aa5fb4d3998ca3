"""The form that creates a plan from a file of changes or from pasted text, and its example files."""

from django.http import Http404, HttpRequest, HttpResponse
from django.urls import reverse
from django.views.decorators.http import require_http_methods, require_safe

from authzconsole.web.plans.plan_pages import plan_url
from authzconsole.web.shared.guard import capability_required, request_author
from authzconsole.web.shared.rendering import render_page, see_other
from entities.vocabulary import Privilege
from grants.errors import GrantError, PlanError
from grants.models import Plan
from grants.plans.create import MAX_PLAN_ITEMS
from grants.plans.sources.change_file import MAX_FILE_BYTES, SAMPLES, BadChangeFile, file_too_large_message
from grants.plans.sources.file import create_plan_from_file
from grants.roles.capabilities import Capability

# longer text would make the page slow
MAX_KEPT_BYTES = 256 * 1024
MAX_NAME_CHARACTERS = 200
MEDIA_TYPES = {"csv": "text/csv", "jsonl": "application/x-ndjson"}


@require_http_methods(["GET", "HEAD", "POST"])
@capability_required(Capability.CHANGE_GRANTS, visible_to=[Capability.READ_ALL])
def import_changes(request: HttpRequest) -> HttpResponse:
    if request.method != "POST":
        return _form_response(request)
    raw, name = b"", ""
    try:
        raw, name = _upload(request)
        plan = _create_plan(request, raw, name)
    except BadChangeFile as error:
        return _form_response(request, raw=raw, name=name, bad_file=error, status=400)
    except GrantError as error:
        return _form_response(request, raw=raw, name=name, fault=f"No plan was created: {error}.", status=400)
    return see_other(plan_url(plan))


def _upload(request: HttpRequest) -> tuple[bytes, str]:
    """Return the bytes and name of the uploaded file, or the pasted text and an empty name.

    Raise PlanError if the file is too long.
    """
    upload = request.FILES.get("file")
    if upload is None:
        return request.POST.get("text", "").encode(errors="surrogatepass"), ""
    if upload.size > MAX_FILE_BYTES:
        raise PlanError(file_too_large_message(upload.size))
    return upload.read(), upload.name[:MAX_NAME_CHARACTERS]


def _create_plan(request: HttpRequest, raw: bytes, name: str) -> Plan:
    if not raw and not name:
        raise PlanError("there are no changes: choose a file or paste the changes")
    return create_plan_from_file(author=request_author(request), raw=raw, name=name)


def _form_response(
    request: HttpRequest,
    *,
    raw: bytes = b"",
    name: str = "",
    fault: str = "",
    bad_file: BadChangeFile | None = None,
    status: int = 200,
) -> HttpResponse:
    is_kept = len(raw) <= MAX_KEPT_BYTES
    text = raw.decode(errors="replace").removeprefix("\ufeff") if is_kept else ""
    return render_page(
        request,
        "plans/import.html",
        {
            "text": text,
            "file": name,
            "is_kept": is_kept,
            "fault": fault,
            "bad_file": bad_file,
            "bad_more": bad_file.bad_lines - len({fault.line for fault in bad_file.faults})
            if bad_file
            else 0,
            "max_megabytes": MAX_FILE_BYTES // 1024 // 1024,
            "max_items": MAX_PLAN_ITEMS,
            "all_privileges": list(Privilege),
            "sample": SAMPLES["csv"],
            "samples": [
                (title, reverse("plan-import-sample", args=[extension]))
                for title, extension in (("CSV", "csv"), ("JSON Lines", "jsonl"))
            ],
        },
        status=status,
    )


@require_safe
@capability_required(Capability.CHANGE_GRANTS, visible_to=[Capability.READ_ALL])
def sample_change_file(request: HttpRequest, extension: str) -> HttpResponse:
    if extension not in SAMPLES:
        raise Http404("there is no such example")
    response = HttpResponse(SAMPLES[extension], content_type=f"{MEDIA_TYPES[extension]}; charset=utf-8")
    response["Content-Disposition"] = f'attachment; filename="changes.{extension}"'
    return response
