"""The URLs of entities and the changes on them."""

from django.urls import path

from authzconsole.web.entities.grant_views import ChooseGrantTarget, GrantPage, RevokePage
from authzconsole.web.entities.lifecycle import DescribeEntity, Lifecycle, NewEntity
from authzconsole.web.entities.namespace_deletion import forecast_page
from authzconsole.web.entities.page import entity_page
from authzconsole.web.entities.stewards import StewardsPage

# an address is always the last part of a path, because the name of a Kerberos principal can contain slashes
urlpatterns = [
    path("entities/<path:address>", entity_page, name="entity"),
    path("grant", ChooseGrantTarget.as_view(), name="grant-target"),
    path("grant/<path:address>", GrantPage.as_view(), name="grant"),
    path("revoke/<path:address>", RevokePage.as_view(), name="revoke"),
    path("stewards/<path:address>", StewardsPage.as_view(), name="stewards"),
    path("register", NewEntity.as_view(), name="lifecycle-new"),
    path("lifecycle/<slug:verb>/<path:address>", Lifecycle.as_view(), name="lifecycle"),
    path("describe/<path:address>", DescribeEntity.as_view(), name="lifecycle-describe"),
    path("forecast/<path:address>", forecast_page, name="forecast"),
]
