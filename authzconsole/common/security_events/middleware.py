"""Record refused requests and downloads from their responses, so that no view can forget it."""

from collections.abc import Callable

from django.http import HttpRequest, HttpResponse

from authzconsole.common.security_events.kinds import EventKind
from authzconsole.common.security_events.record import record_event

# an example without data
UNRECORDED_DOWNLOADS = ("plan-import-sample",)


class SecurityEventMiddleware:
    """Record each 403 as a denial, and each attachment or stream as a download."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]):
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        response = self.get_response(request)
        if response.status_code == 403:
            record_denial(request)
        elif response.status_code == 200 and (response.streaming or "Content-Disposition" in response):
            match = request.resolver_match
            if match is None or match.url_name not in UNRECORDED_DOWNLOADS:
                query = request.META.get("QUERY_STRING", "")
                record_event(EventKind.DOWNLOAD, request=request, target=request.path, detail=query)
        return response


def record_denial(request: HttpRequest) -> None:
    """Record that the console refused a request with 403. Decisions that deny are not recorded."""
    record_event(EventKind.DENIAL, request=request, target=request.path, detail=request.method)
