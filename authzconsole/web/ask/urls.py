"""The URLs of the Ask page."""

from django.urls import path

from authzconsole.web.ask.page import ask_page

urlpatterns = [
    path("ask", ask_page, name="ask"),
]
