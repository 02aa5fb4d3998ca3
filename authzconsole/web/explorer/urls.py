"""The URLs of the explorer and the search."""

from django.urls import path

from authzconsole.web.explorer.page import explorer, explorer_inside
from authzconsole.web.explorer.search import search_page, suggest_principals

urlpatterns = [
    path("search", search_page, name="search"),
    path("suggest/principals", suggest_principals, name="suggest-principals"),
    path("explorer", explorer, name="explorer"),
    path("explorer/inside", explorer_inside, name="explorer-inside"),
]
