"""The URLs of the AuthZEN API. No path ends in a slash, because a POST cannot be redirected."""

from django.urls import path, re_path

from authzconsole.api.endpoint import PATHS, REQUEST_PATH, configuration, unknown_path
from authzconsole.api.evaluation import evaluation, evaluations
from authzconsole.api.requests import cancel_request, request_status, submit_request
from authzconsole.api.search import action_search, resource_search, subject_search

_VIEW_BY_NAME = {
    "access_evaluation_endpoint": evaluation,
    "access_evaluations_endpoint": evaluations,
    "search_subject_endpoint": subject_search,
    "search_resource_endpoint": resource_search,
    "search_action_endpoint": action_search,
}
VIEWS = {PATHS[name]: view for name, view in _VIEW_BY_NAME.items()}

urlpatterns = [
    path(".well-known/authzen-configuration", configuration, name="authzen-configuration"),
    *(path(route, _VIEW_BY_NAME[name], name=name.replace("_", "-")) for name, route in PATHS.items()),
    path(REQUEST_PATH, submit_request, name="access-request-endpoint"),
    path(f"{REQUEST_PATH}/<str:task>", request_status, name="access-request-status"),
    path(f"{REQUEST_PATH}/<str:task>/cancel", cancel_request, name="access-request-cancel"),
    # without this, Django would answer with an HTML page or a redirect to the sign-in page
    re_path(r"^access(?:/|$)", unknown_path),
]
