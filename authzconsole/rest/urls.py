"""The URLs of the REST API: those of all endpoints, which declare their own.

No path ends in a slash. Addresses and names, which can contain slashes, end their paths.
"""

from django.contrib.auth.decorators import login_not_required
from django.urls import path, re_path
from django.views.decorators.csrf import csrf_exempt

from authzconsole.rest import (
    access,
    access_requests,
    analyses,
    connections,
    effects,
    entities,
    findings,
    grants,
    journal,
    people,
    plan_creation,
    plans,
    policies,
    reviews,
    webhooks,
)
from authzconsole.rest.framework.endpoint import Endpoint, unknown_path
from authzconsole.rest.openapi import openapi, redoc, root, swagger

AREAS = (
    access,
    access_requests,
    analyses,
    connections,
    effects,
    entities,
    findings,
    grants,
    journal,
    people,
    plan_creation,
    plans,
    policies,
    reviews,
    webhooks,
)
_ENDPOINTS = [
    endpoint
    for area in AREAS
    for endpoint in vars(area).values()
    if isinstance(endpoint, type)
    and issubclass(endpoint, Endpoint)
    and endpoint.route
    and endpoint.__module__ == area.__name__
]

urlpatterns = [
    # the only path with a trailing slash; Django redirects to it
    path("", root, name="rest-root"),
    path("openapi.json", openapi, name="rest-openapi"),
    path("docs", swagger, name="rest-swagger"),
    path("redoc", redoc, name="rest-redoc"),
    # paths without a variable part first, because `entities/recreate` is no address
    *(
        url
        for endpoint in sorted(_ENDPOINTS, key=lambda endpoint: ("<" in endpoint.route, endpoint.route))
        for url in endpoint.paths()
    ),
    # without this, Django would answer with an HTML page or a redirect to the sign-in page
    re_path(r"", csrf_exempt(login_not_required(unknown_path))),
]
