"""The URLs of the console: the pages, with the URLs of each area of `authzconsole.web`, the AuthZEN API, the REST API and
SCIM.
"""

from django.urls import include, path

from authzconsole.common.monitoring.views import metrics, readyz

AREAS = (
    "overview",
    "findings",
    "accounts",
    "explorer",
    "ask",
    "entities",
    "effects",
    "people",
    "plans",
    "requests",
    "reviews",
    "policies",
    "connections",
    "journal",
    "reports",
)

urlpatterns = [
    path("", include("authzconsole.api.urls")),
    path("api/v1/", include("authzconsole.rest.urls")),
    path("scim/", include("authzconsole.scim.urls")),
    path("", include("authzconsole.cdap_api.urls")),
    path("readyz", readyz, name="readyz"),
    path("metrics", metrics, name="metrics"),
    *(path("", include(f"authzconsole.web.{area}.urls")) for area in AREAS),
]

handler404 = "authzconsole.web.error_pages.not_found"
handler500 = "authzconsole.web.error_pages.server_error"
