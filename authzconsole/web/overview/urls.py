"""The URLs of the overview and the status."""

from django.urls import path

from authzconsole.web.overview.page import home
from authzconsole.web.overview.status import status_page

urlpatterns = [
    path("", home, name="home"),
    path("status", status_page, name="status"),
]
