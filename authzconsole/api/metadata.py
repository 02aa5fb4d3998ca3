"""The AuthZEN metadata document, which lists the endpoints.

It is public, because clients read it before they have a token.
"""

from django.conf import settings
from django.contrib.auth.decorators import login_not_required
from django.http import HttpRequest, HttpResponse
from django.views.decorators.csrf import csrf_exempt

from authzconsole.api.endpoint import check_method, json_response
from authzconsole.common.refusal import RequestRefused

PATHS = {
    "access_evaluation_endpoint": "access/v1/evaluation",
    "access_evaluations_endpoint": "access/v1/evaluations",
    "search_subject_endpoint": "access/v1/search/subject",
    "search_resource_endpoint": "access/v1/search/resource",
    "search_action_endpoint": "access/v1/search/action",
}
# the access request profile of AuthZEN, which is a draft
REQUEST_PATH = "access/v1/requests"
CAPABILITIES = ["urn:openid:authzen:capability:access-request"]


# a wrong method gets 405 instead of the page for a failed CSRF check
@csrf_exempt
@login_not_required
def configuration(request: HttpRequest) -> HttpResponse:
    try:
        check_method(request, "GET", "HEAD")
    except RequestRefused as refusal:
        return json_response(refusal.message, status=refusal.status, headers=refusal.headers)
    # from the setting, because the caller controls the Host header
    base = settings.PUBLIC_URL
    return json_response(
        {
            "policy_decision_point": base,
            **{name: f"{base}/{path}" for name, path in PATHS.items()},
            "access_request_endpoint": f"{base}/{REQUEST_PATH}",
            "capabilities": CAPABILITIES,
        }
    )
