"""The AuthZEN metadata document, which lists the endpoints.

It is public, because clients read it before they have a token.
"""

from django.conf import settings
from django.http import HttpRequest, HttpResponse

from authzconsole.api.endpoint import api_view, check_method, json_response

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


@api_view
def configuration(request: HttpRequest) -> HttpResponse:
    check_method(request, "GET", "HEAD")
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
