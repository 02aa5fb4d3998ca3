"""The URLs of access requests."""

from django.urls import path

from authzconsole.web.requests.approvers import NamespaceApproversPage
from authzconsole.web.requests.catalogue import CataloguePage, PublishPage
from authzconsole.web.requests.delegation import DelegationLimitsPage
from authzconsole.web.requests.lists import request_count, request_list
from authzconsole.web.requests.new_request import NewRequest
from authzconsole.web.requests.request_page import (
    AnswerQuestion,
    Approve,
    AskBack,
    Deny,
    Withdraw,
    request_page,
)

urlpatterns = [
    path("requests/", request_list, name="requests"),
    path("requests/count", request_count, name="request-count"),
    path("requests/new", NewRequest.as_view(), name="request-new"),
    path("requests/catalogue", CataloguePage.as_view(), name="request-catalogue"),
    path("publish/<path:address>", PublishPage.as_view(), name="publish"),
    path("requests/approvers", NamespaceApproversPage.as_view(), name="request-approvers"),
    path("requests/delegation", DelegationLimitsPage.as_view(), name="delegation-limits"),
    path("requests/<int:pk>/", request_page, name="request"),
    path("requests/<int:pk>/approve", Approve.as_view(), name="request-approve"),
    path("requests/<int:pk>/deny", Deny.as_view(), name="request-deny"),
    path("requests/<int:pk>/ask", AskBack.as_view(), name="request-ask"),
    path("requests/<int:pk>/answer", AnswerQuestion.as_view(), name="request-answer"),
    path("requests/<int:pk>/withdraw", Withdraw.as_view(), name="request-withdraw"),
]
