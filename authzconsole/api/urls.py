"""No path ends in a slash: a POST cannot be redirected."""

from django.urls import path

from authzconsole.api.evaluation import evaluation, evaluations
from authzconsole.api.metadata import PATHS, configuration
from authzconsole.api.search import action_search, resource_search, subject_search

_NAMED = {
    "access_evaluation_endpoint": evaluation,
    "access_evaluations_endpoint": evaluations,
    "search_subject_endpoint": subject_search,
    "search_resource_endpoint": resource_search,
    "search_action_endpoint": action_search,
}
VIEWS = {PATHS[name]: view for name, view in _NAMED.items()}

urlpatterns = [
    path(".well-known/authzen-configuration", configuration, name="authzen-configuration"),
    *(path(where, _NAMED[name], name=name.replace("_", "-")) for name, where in PATHS.items()),
]
