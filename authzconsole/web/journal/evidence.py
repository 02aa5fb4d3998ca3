"""The pages of evidence: request a bundle, follow its progress, and download it."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from django.http import Http404, HttpRequest, HttpResponse
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.http import require_http_methods, require_safe

from analytics.storage import StorageError
from authzconsole.common.downloads.zip_files import zip_response
from authzconsole.common.messages import as_sentence
from authzconsole.evidence.services import EvidenceError, bundle_chunks, request_evidence
from authzconsole.models import Evidence, EvidenceState
from authzconsole.web.shared.guard import capability_required
from authzconsole.web.shared.links import address_link_to
from authzconsole.web.shared.paging import QuerySetSequence, paginate_sequence
from authzconsole.web.shared.parameters import TIME_FAULT, parse_time
from authzconsole.web.shared.rendering import render_page, requested_section, see_other
from entities.address import AddressError, ancestor_kinds, parse_address
from entities.vocabulary import KINDS
from grants.errors import GrantError
from grants.evidence.contents import CONTAINERS
from grants.evidence.signing import public_key
from grants.history.errors import AsOfError
from grants.history.moments import parse_as_of
from grants.journal import read_only_reason
from grants.models import User
from grants.roles.capabilities import Capability

ROWS_PER_PAGE = 20
FIELDS = ("entity", "contents", "kind", "since", "until")
SECTION = "evidence"


@dataclass(frozen=True, slots=True)
class _Moment:
    """An entered time or revision. time: None if a revision was entered."""

    revision: int
    time: datetime | None


class _InvalidField(Exception):
    """A field of the form is invalid. field: its name. fault: the error message."""

    def __init__(self, field: str, fault: str):
        super().__init__(fault)
        self.field, self.fault = field, as_sentence(fault)


@require_http_methods(["GET", "HEAD", "POST"])
@capability_required(Capability.READ_JOURNAL)
def evidence_list(request: HttpRequest) -> HttpResponse:
    """List the requests, and store a new one."""
    values = request.POST if request.method == "POST" else request.GET
    form = {name: values.get(name, "").strip() for name in FIELDS}
    if request.method != "POST":
        return _list_response(request, form)
    try:
        evidence = _request_from_form(form, request.user)
    except _InvalidField as error:
        return _list_response(request, form, error)
    return see_other(reverse("evidence", args=[evidence.pk]))


@require_safe
@capability_required(Capability.READ_JOURNAL)
def evidence_page(request: HttpRequest, pk: int) -> HttpResponse:
    evidence = _evidence_or_404(pk)
    template = (
        "journal/evidence/_progress.html"
        if requested_section(request) == SECTION
        else "journal/evidence/page.html"
    )
    return render_page(
        request, template, {"row": _row(evidence), "evidence": evidence, "again_url": _again_url(evidence)}
    )


@require_safe
@capability_required(Capability.READ_JOURNAL)
def download_evidence(request: HttpRequest, pk: int) -> HttpResponse:
    """Stream the bundle."""
    evidence = _evidence_or_404(pk)
    if not evidence.path:
        raise Http404("there is no file")
    try:
        chunks = bundle_chunks(evidence)
    except (StorageError, OSError):
        raise Http404("the file cannot be read") from None
    return zip_response(chunks, f"evidence-{evidence.pk}")


def _list_response(request: HttpRequest, form: dict, error: _InvalidField | None = None) -> HttpResponse:
    rows = QuerySetSequence(Evidence.objects.select_related("requested_by").order_by("-pk"))
    page = paginate_sequence(request, rows, max_rows=ROWS_PER_PAGE, name="page")
    return render_page(
        request,
        "journal/evidence/list.html",
        {
            "page": page,
            "rows": [_row(evidence) for evidence in page.rows],
            "form": form,
            "fault": error.fault if error else "",
            "invalid_field": error.field if error else "",
            "kinds": [name for name in KINDS if set(ancestor_kinds(name)) & set(CONTAINERS)],
            "public_key": "" if read_only_reason() else public_key(),
        },
        status=400 if error else 200,
    )


def _row(evidence: Evidence) -> dict:
    return {
        "evidence": evidence,
        "url": reverse("evidence", args=[evidence.pk]),
        "link": address_link_to(parse_address(evidence.entity)),
        "is_done": evidence.state == EvidenceState.DONE,
        "is_failed": evidence.state == EvidenceState.FAILED,
        "is_unfinished": evidence.state in (EvidenceState.WAITING, EvidenceState.RUNNING),
    }


def _again_url(evidence: Evidence) -> str:
    """Return the URL of the form with the values of a request."""
    return reverse(
        "evidence-list",
        query={
            "entity": evidence.entity,
            "since": evidence.from_revision,
            "until": evidence.to_revision,
            **({"contents": "yes"} if evidence.contents else {}),
            **({"kind": evidence.kind} if evidence.kind else {}),
        },
    )


def _evidence_or_404(pk: int) -> Evidence:
    evidence = Evidence.objects.select_related("requested_by").filter(pk=pk).first()
    if evidence is None:
        raise Http404("there is no such evidence")
    return evidence


def _request_from_form(form: dict[str, str], user: User) -> Evidence:
    """Store the request of the form. Raise _InvalidField for the first invalid field."""
    try:
        entity = parse_address(form["entity"])
    except AddressError as error:
        raise _InvalidField("entity", str(error)) from None
    start, end = (_read_moment(form, name, is_end=name == "until") for name in ("since", "until"))
    try:
        return request_evidence(
            entity=entity,
            from_revision=start.revision,
            to_revision=end.revision,
            since=start.time,
            until=end.time,
            contents=form["contents"] == "yes",
            kind=form["kind"],
            requested_by=user,
        )
    except EvidenceError as error:
        raise _InvalidField("until" if "period" in str(error) else "entity", str(error)) from None
    except GrantError as error:
        raise _InvalidField("until", str(error)) from None


def _read_moment(form: dict[str, str], field: str, *, is_end: bool) -> _Moment:
    """Return the revision and the time that the field names.

    As an end, an empty text and the date of today mean now.
    """
    text = form[field]
    try:
        if text.isascii() and text.isdigit():
            return _Moment(parse_as_of(text), None)
        time, now = parse_time(text, is_end=is_end), timezone.now()
        if time is None and not is_end:
            raise AsOfError("enter the start: a date, a time or a revision")
        if time is None or is_end and now < time <= now + timedelta(days=1):
            time = now
        return _Moment(parse_as_of(time.isoformat()), time)
    except AsOfError as error:
        raise _InvalidField(field, str(error)) from None
    except (ValueError, OverflowError):
        raise _InvalidField(field, TIME_FAULT.format(text)) from None
