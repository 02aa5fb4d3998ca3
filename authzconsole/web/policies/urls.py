"""The URLs of the policies, the activation of a generation, and the guardrails."""

from django.urls import path

from authzconsole.web.policies.guardrails import GuardrailPage, WriteGuardrail, guardrail_list
from authzconsole.web.policies.page import ActivationPage, CancelActivation, policies_page

urlpatterns = [
    path("policies/", policies_page, name="policies"),
    path("policies/guardrails/", guardrail_list, name="policies-guardrails"),
    path("policies/guardrails/new", WriteGuardrail.as_view(), name="policies-guardrail-new"),
    path("policies/guardrails/<str:name>/", GuardrailPage.as_view(), name="policies-guardrail"),
    path("policies/guardrails/<str:name>/edit", WriteGuardrail.as_view(), name="policies-guardrail-edit"),
    path("policies/scheduled/cancel", CancelActivation.as_view(), name="activation-cancel"),
    path("policies/<slug:name>/activate", ActivationPage.as_view(), name="generation-activate"),
]
