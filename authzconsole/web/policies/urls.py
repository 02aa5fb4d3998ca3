"""The URLs of the policies and the activation of a generation."""

from django.urls import path

from authzconsole.web.policies.page import ActivationPage, policies_page

urlpatterns = [
    path("policies/", policies_page, name="policies"),
    path("policies/<slug:name>/activate", ActivationPage.as_view(), name="generation-activate"),
]
