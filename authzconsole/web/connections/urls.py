"""The URLs of connections."""

from django.urls import path

from authzconsole.web.connections.pages import (
    ChangeConnection,
    ConnectionPage,
    DeleteConnection,
    DriftPage,
    NewConnection,
    PushConnection,
    RunConnection,
    connection_list,
)

urlpatterns = [
    path("connections/", connection_list, name="connections"),
    path("connections/new", NewConnection.as_view(), name="connection-new"),
    path("connections/<slug:name>/", ConnectionPage.as_view(), name="connection"),
    path("connections/<slug:name>/edit", ChangeConnection.as_view(), name="connection-edit"),
    path("connections/<slug:name>/delete", DeleteConnection.as_view(), name="connection-delete"),
    path("connections/<slug:name>/drift", DriftPage.as_view(), name="connection-drift"),
    path("connections/<slug:name>/push", PushConnection.as_view(), name="connection-push"),
    path("connections/<slug:name>/run", RunConnection.as_view(), name="connection-run"),
]
