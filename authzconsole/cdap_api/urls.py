"""The URLs of the administration API of CDAP.

One view answers all calls, so that none can lack the check of the token. The client sends two slashes before
`privileges`.
"""

from django.urls import path, re_path

from authzconsole.cdap_api.views import administer, ping, ping_gateway

urlpatterns = [
    path("ping", ping, name="cdap-ping"),
    path("v3/ping", ping_gateway, name="cdap-ping-gateway"),
    re_path(r"^v3/security/authorization/+(?P<call>.*)$", administer, name="cdap-administer"),
]
