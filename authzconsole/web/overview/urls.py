"""The URLs of the overview, the status and the documentation."""

from django.urls import path

from authzconsole.web.overview.documentation import documentation, documentation_file
from authzconsole.web.overview.page import home
from authzconsole.web.overview.status import status_page

urlpatterns = [
    path("", home, name="home"),
    path("status", status_page, name="status"),
    path("docs", documentation, name="documentation"),
    path("docs/<path:path>", documentation_file, name="documentation-file"),
]
