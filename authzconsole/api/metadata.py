"""AuthZEN: where the endpoints are. Open to everybody, as clients read it before they have a token."""

from django.conf import settings
from django.contrib.auth.decorators import login_not_required
from django.http import HttpRequest, HttpResponse

from authzconsole.api.endpoint import answer, check_method
from authzconsole.common.refusal import Refused

PATHS = {
    "access_evaluation_endpoint": "access/v1/evaluation",
    "access_evaluations_endpoint": "access/v1/evaluations",
    "search_subject_endpoint": "access/v1/search/subject",
    "search_resource_endpoint": "access/v1/search/resource",
    "search_action_endpoint": "access/v1/search/action",
}


@login_not_required
def configuration(request: HttpRequest) -> HttpResponse:
    try:
        check_method(request, "GET", "HEAD")
    except Refused as refused:
        return answer(refused.message, status=refused.status, headers=refused.headers)
    # from the setting: whoever sends a request chooses its Host header
    base = settings.PUBLIC_URL
    return answer({"policy_decision_point": base, **{name: f"{base}/{path}" for name, path in PATHS.items()}})
