"""The URLs of the REST API.

No path ends in a slash. Addresses and names, which can contain slashes, end their paths.
"""

from django.contrib.auth.decorators import login_not_required
from django.urls import path, re_path
from django.views.decorators.csrf import csrf_exempt

from authzconsole.rest.access import StewardList, WhatCanFiles, WhatCanList, WhoCanFiles, WhoCanList
from authzconsole.rest.access_requests.delegation import Delegation
from authzconsole.rest.access_requests.requests import (
    AccessRequestAnswer,
    AccessRequestApproval,
    AccessRequestDetail,
    AccessRequestFiles,
    AccessRequestList,
    AccessRequestProposals,
    AccessRequestQuestion,
    AccessRequestRejection,
    AccessRequestWithdrawal,
    ApproverList,
)
from authzconsole.rest.analyses import (
    Analyses,
    ResultFiles,
    Results,
    RunCancellation,
    RunDetail,
    RunList,
)
from authzconsole.rest.break_glass import (
    BreakGlassDetail,
    BreakGlassEnd,
    BreakGlassReview,
    BreakGlassUseList,
)
from authzconsole.rest.bulk_plans import FilePlans, GhostPlans, PlansForMany
from authzconsole.rest.decisions import Decisions
from authzconsole.rest.effects.change_effects import ChangeEffects
from authzconsole.rest.effects.kept_not import KeptNotFiles, PlanKeptNot
from authzconsole.rest.effects.plan_effects import EffectRowFiles, PlanEffect
from authzconsole.rest.entities import EntityDetail, EntityList, EntityRecreation
from authzconsole.rest.evidence import EvidenceDetail, EvidenceFile, EvidenceRequests
from authzconsole.rest.forecasts import DeletionForecasts
from authzconsole.rest.framework.endpoint import unknown_path
from authzconsole.rest.grants import GrantList
from authzconsole.rest.journal import (
    DifferenceFiles,
    DifferenceList,
    Journal,
    JournalProof,
    SecurityEventList,
)
from authzconsole.rest.openapi import openapi, redoc, root, swagger
from authzconsole.rest.people.groups import GroupDetail, GroupList
from authzconsole.rest.people.memberships import MemberList, MembershipChangeSet
from authzconsole.rest.people.plans import LikePlans, OffBoardingPlans
from authzconsole.rest.people.users import UserDetail, UserList
from authzconsole.rest.plans import (
    CopiedPlans,
    ImpactPlans,
    PlanApplication,
    PlanDetail,
    PlanDiscard,
    PlanInverse,
    PlanItemList,
    PlanList,
    PlanPrincipalList,
    PlanRenewal,
    ReadinessPlans,
)
from authzconsole.rest.policies import ActiveGenerationDetail, Catalogue, Generations
from authzconsole.rest.reviews.campaigns import (
    ReviewBundle,
    ReviewCancellation,
    ReviewDetail,
    ReviewFinish,
    ReviewList,
    ReviewRetry,
)
from authzconsole.rest.reviews.items import (
    Answers,
    Assignments,
    GoneItemList,
    ItemFiles,
    ReviewItemList,
    SignOff,
)
from authzconsole.rest.reviews.managers import ManagerList
from authzconsole.rest.reviews.usage import Usage
from authzconsole.rest.schedules import ScheduleDetail, Schedules
from authzconsole.rest.webhooks import DeadLetterList, Redelivery, WebhookDetail, Webhooks

urlpatterns = [
    # the only path with a trailing slash; Django redirects to it
    path("", root, name="rest-root"),
    path("openapi.json", openapi, name="rest-openapi"),
    path("docs", swagger, name="rest-swagger"),
    path("redoc", redoc, name="rest-redoc"),
    path("entities", EntityList.as_view(), name="rest-entities"),
    # not an address, because addresses contain a colon
    path("entities/recreate", EntityRecreation.as_view(), name="rest-recreations"),
    path("entities/<path:address>", EntityDetail.as_view(), name="rest-entity"),
    path("users", UserList.as_view(), name="rest-users"),
    path("users/<path:name>", UserDetail.as_view(), name="rest-user"),
    path("groups", GroupList.as_view(), name="rest-groups"),
    path("groups/<path:name>", GroupDetail.as_view(), name="rest-group"),
    path("who-can", WhoCanList.as_view(), name="rest-who-can"),
    *WhoCanFiles.paths("who-can", "rest-who-can"),
    path("what-can", WhatCanList.as_view(), name="rest-what-can"),
    *WhatCanFiles.paths("what-can", "rest-what-can"),
    path("differences", DifferenceList.as_view(), name="rest-differences"),
    *DifferenceFiles.paths("differences", "rest-differences"),
    path("members", MemberList.as_view(), name="rest-members"),
    path("memberships", MembershipChangeSet.as_view(), name="rest-memberships"),
    path("grants", GrantList.as_view(), name="rest-grants"),
    path("plans", PlanList.as_view(), name="rest-plans"),
    path("plans/copy", CopiedPlans.as_view(), name="rest-plans-copy"),
    path("plans/ghosts", GhostPlans.as_view(), name="rest-plans-ghosts"),
    path("plans/import", FilePlans.as_view(), name="rest-plans-import"),
    path("plans/many", PlansForMany.as_view(), name="rest-plans-many"),
    path("plans/like", LikePlans.as_view(), name="rest-plans-like"),
    path("plans/off-boarding", OffBoardingPlans.as_view(), name="rest-plans-off-boarding"),
    path("plans/policy-impact", ImpactPlans.as_view(), name="rest-plans-impact"),
    path("plans/readiness", ReadinessPlans.as_view(), name="rest-plans-readiness"),
    path("plans/<int:number>", PlanDetail.as_view(), name="rest-plan"),
    path("effects", ChangeEffects.as_view(), name="rest-effects"),
    path("plans/<int:number>/effect", PlanEffect.as_view(), name="rest-plan-effect"),
    *EffectRowFiles.paths("plans/<int:number>/effect/rows", "rest-plan-effect"),
    path("plans/<int:number>/kept-not", PlanKeptNot.as_view(), name="rest-plan-kept-not"),
    *KeptNotFiles.paths("plans/<int:number>/kept-not/rows", "rest-plan-kept-not"),
    path("plans/<int:number>/items", PlanItemList.as_view(), name="rest-plan-items"),
    path("plans/<int:number>/principals", PlanPrincipalList.as_view(), name="rest-plan-principals"),
    path("plans/<int:number>/apply", PlanApplication.as_view(), name="rest-plan-apply"),
    path("plans/<int:number>/discard", PlanDiscard.as_view(), name="rest-plan-discard"),
    path("plans/<int:number>/inverse", PlanInverse.as_view(), name="rest-plan-inverse"),
    path("plans/<int:number>/renewal", PlanRenewal.as_view(), name="rest-plan-renewal"),
    path("forecasts/deletion", DeletionForecasts.as_view(), name="rest-forecast-deletion"),
    path("policies", Generations.as_view(), name="rest-policies"),
    path("policies/active", ActiveGenerationDetail.as_view(), name="rest-policies-active"),
    path("policies/<slug:generation>", Catalogue.as_view(), name="rest-policy"),
    path("decisions", Decisions.as_view(), name="rest-decisions"),
    path("analyses", Analyses.as_view(), name="rest-analyses"),
    path("schedules", Schedules.as_view(), name="rest-schedules"),
    path("schedules/<slug:analysis>", ScheduleDetail.as_view(), name="rest-schedule"),
    path("runs", RunList.as_view(), name="rest-runs"),
    path("runs/<int:number>", RunDetail.as_view(), name="rest-run"),
    path("runs/<int:number>/cancel", RunCancellation.as_view(), name="rest-run-cancel"),
    path("runs/<int:number>/tables/<slug:table>", Results.as_view(), name="rest-run-table"),
    *ResultFiles.paths("runs/<int:number>/tables/<slug:table>", "rest-run"),
    path("delegation-limits", Delegation.as_view(), name="rest-delegation-limits"),
    path("access-requests", AccessRequestList.as_view(), name="rest-access-requests"),
    *AccessRequestFiles.paths("access-requests", "rest-access-requests"),
    path("access-requests/<int:number>", AccessRequestDetail.as_view(), name="rest-access-request"),
    path(
        "access-requests/<int:number>/proposals",
        AccessRequestProposals.as_view(),
        name="rest-access-request-proposals",
    ),
    path(
        "access-requests/<int:number>/approve",
        AccessRequestApproval.as_view(),
        name="rest-access-request-approve",
    ),
    path(
        "access-requests/<int:number>/reject",
        AccessRequestRejection.as_view(),
        name="rest-access-request-reject",
    ),
    path("access-requests/<int:number>/ask", AccessRequestQuestion.as_view(), name="rest-access-request-ask"),
    path(
        "access-requests/<int:number>/answer",
        AccessRequestAnswer.as_view(),
        name="rest-access-request-answer",
    ),
    path(
        "access-requests/<int:number>/withdraw",
        AccessRequestWithdrawal.as_view(),
        name="rest-access-request-withdraw",
    ),
    path("stewards", StewardList.as_view(), name="rest-stewards"),
    path("approvers", ApproverList.as_view(), name="rest-approvers"),
    path("journal", Journal.as_view(), name="rest-journal"),
    path("evidence", EvidenceRequests.as_view(), name="rest-evidence-list"),
    path("evidence/<int:number>", EvidenceDetail.as_view(), name="rest-evidence"),
    path("evidence/<int:number>/file", EvidenceFile.as_view(), name="rest-evidence-file"),
    path("managers", ManagerList.as_view(), name="rest-managers"),
    path("usage", Usage.as_view(), name="rest-usage"),
    path("reviews", ReviewList.as_view(), name="rest-reviews"),
    path("reviews/<int:number>", ReviewDetail.as_view(), name="rest-review"),
    path("reviews/<int:number>/retry", ReviewRetry.as_view(), name="rest-review-retry"),
    path("reviews/<int:number>/cancel", ReviewCancellation.as_view(), name="rest-review-cancel"),
    path("reviews/<int:number>/finish", ReviewFinish.as_view(), name="rest-review-finish"),
    path("reviews/<int:number>/bundle", ReviewBundle.as_view(), name="rest-review-bundle"),
    path("reviews/<int:number>/items", ReviewItemList.as_view(), name="rest-review-items"),
    *ItemFiles.paths("reviews/<int:number>/items", "rest-review-items"),
    path("reviews/<int:number>/gone", GoneItemList.as_view(), name="rest-review-gone"),
    path("reviews/<int:number>/answers", Answers.as_view(), name="rest-review-answers"),
    path("reviews/<int:number>/assignments", Assignments.as_view(), name="rest-review-assignments"),
    path("reviews/<int:number>/sign-off", SignOff.as_view(), name="rest-review-sign-off"),
    path("security-events", SecurityEventList.as_view(), name="rest-security-events"),
    path("break-glass-uses", BreakGlassUseList.as_view(), name="rest-break-glass-uses"),
    path("break-glass-uses/<int:number>", BreakGlassDetail.as_view(), name="rest-break-glass-use"),
    path("break-glass-uses/<int:number>/end", BreakGlassEnd.as_view(), name="rest-break-glass-end"),
    path("break-glass-uses/<int:number>/review", BreakGlassReview.as_view(), name="rest-break-glass-review"),
    path("webhooks", Webhooks.as_view(), name="rest-webhooks"),
    path("webhooks/<int:number>", WebhookDetail.as_view(), name="rest-webhook"),
    path("webhooks/<int:number>/dead-letters", DeadLetterList.as_view(), name="rest-dead-letters"),
    path("webhooks/<int:number>/redeliver", Redelivery.as_view(), name="rest-redelivery"),
    path("journal/proof", JournalProof.as_view(), name="rest-journal-proof"),
    # without this, Django would answer with an HTML page or a redirect to the sign-in page
    re_path(r"", csrf_exempt(login_not_required(unknown_path))),
]
