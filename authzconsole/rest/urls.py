"""The URLs of the REST API. No path ends in a slash. Addresses and names, which can contain slashes, end their paths."""

from django.contrib.auth.decorators import login_not_required
from django.urls import path, re_path
from django.views.decorators.csrf import csrf_exempt

from authzconsole.rest.access.what_can import WhatCan, WhatCanCsv, WhatCanJsonLines
from authzconsole.rest.access.who_can import WhoCan, WhoCanCsv, WhoCanJsonLines
from authzconsole.rest.analyses import (
    Analyses,
    Results,
    ResultsCsv,
    ResultsJsonLines,
    ResultsParquet,
    RunCancellation,
    RunDetail,
    Runs,
)
from authzconsole.rest.bulk_plans import FilePlans, GhostPlans, PlansForMany
from authzconsole.rest.decisions import Decisions
from authzconsole.rest.differences import Differences, DifferencesCsv, DifferencesJsonLines
from authzconsole.rest.effects.plan_effects import EffectRowsCsv, EffectRowsJsonLines, PlanEffect
from authzconsole.rest.entities import Entities, EntityDetail, EntityRecreation
from authzconsole.rest.evidence import EvidenceDetail, EvidenceFile, EvidenceList
from authzconsole.rest.forecasts import DeletionForecasts
from authzconsole.rest.framework.endpoint import unknown_path
from authzconsole.rest.grants import Grants
from authzconsole.rest.journal import Journal, Proof
from authzconsole.rest.monitoring.security_events import SecurityEvents
from authzconsole.rest.monitoring.webhooks import DeadLetters, Redelivery, WebhookDetail, Webhooks
from authzconsole.rest.openapi.document import openapi
from authzconsole.rest.openapi.pages import redoc, root, swagger
from authzconsole.rest.people.groups import GroupDetail, Groups
from authzconsole.rest.people.memberships import Members, MembershipChanges
from authzconsole.rest.people.plans import LikePlans, OffBoardingPlans
from authzconsole.rest.people.users import UserDetail, Users
from authzconsole.rest.plans import (
    CopiedPlans,
    ImpactPlans,
    PlanApplication,
    PlanDetail,
    PlanDiscard,
    PlanInverse,
    PlanItems,
    PlanPrincipals,
    PlanRenewal,
    Plans,
    ReadinessPlans,
)
from authzconsole.rest.policies import ActiveGeneration, Catalogue, Generations
from authzconsole.rest.schedules import ScheduleDetail, Schedules

urlpatterns = [
    # the only path with a trailing slash; Django redirects to it
    path("", root, name="rest-root"),
    path("openapi.json", openapi, name="rest-openapi"),
    path("docs", swagger, name="rest-swagger"),
    path("redoc", redoc, name="rest-redoc"),
    path("entities", Entities.as_view(), name="rest-entities"),
    # not an address, because addresses contain a colon
    path("entities/recreate", EntityRecreation.as_view(), name="rest-recreations"),
    path("entities/<path:address>", EntityDetail.as_view(), name="rest-entity"),
    path("users", Users.as_view(), name="rest-users"),
    path("users/<path:name>", UserDetail.as_view(), name="rest-user"),
    path("groups", Groups.as_view(), name="rest-groups"),
    path("groups/<path:name>", GroupDetail.as_view(), name="rest-group"),
    path("who-can", WhoCan.as_view(), name="rest-who-can"),
    path("who-can.csv", WhoCanCsv.as_view(), name="rest-who-can-csv"),
    path("who-can.jsonl", WhoCanJsonLines.as_view(), name="rest-who-can-jsonl"),
    path("what-can", WhatCan.as_view(), name="rest-what-can"),
    path("what-can.csv", WhatCanCsv.as_view(), name="rest-what-can-csv"),
    path("what-can.jsonl", WhatCanJsonLines.as_view(), name="rest-what-can-jsonl"),
    path("differences", Differences.as_view(), name="rest-differences"),
    path("differences.csv", DifferencesCsv.as_view(), name="rest-differences-csv"),
    path("differences.jsonl", DifferencesJsonLines.as_view(), name="rest-differences-jsonl"),
    path("members", Members.as_view(), name="rest-members"),
    path("memberships", MembershipChanges.as_view(), name="rest-memberships"),
    path("grants", Grants.as_view(), name="rest-grants"),
    path("plans", Plans.as_view(), name="rest-plans"),
    path("plans/copy", CopiedPlans.as_view(), name="rest-plans-copy"),
    path("plans/ghosts", GhostPlans.as_view(), name="rest-plans-ghosts"),
    path("plans/import", FilePlans.as_view(), name="rest-plans-import"),
    path("plans/many", PlansForMany.as_view(), name="rest-plans-many"),
    path("plans/like", LikePlans.as_view(), name="rest-plans-like"),
    path("plans/off-boarding", OffBoardingPlans.as_view(), name="rest-plans-off-boarding"),
    path("plans/policy-impact", ImpactPlans.as_view(), name="rest-plans-impact"),
    path("plans/readiness", ReadinessPlans.as_view(), name="rest-plans-readiness"),
    path("plans/<int:number>", PlanDetail.as_view(), name="rest-plan"),
    path("plans/<int:number>/effect", PlanEffect.as_view(), name="rest-plan-effect"),
    path("plans/<int:number>/effect/rows.jsonl", EffectRowsJsonLines.as_view(), name="rest-plan-effect-jsonl"),
    path("plans/<int:number>/effect/rows.csv", EffectRowsCsv.as_view(), name="rest-plan-effect-csv"),
    path("plans/<int:number>/items", PlanItems.as_view(), name="rest-plan-items"),
    path("plans/<int:number>/principals", PlanPrincipals.as_view(), name="rest-plan-principals"),
    path("plans/<int:number>/apply", PlanApplication.as_view(), name="rest-plan-apply"),
    path("plans/<int:number>/discard", PlanDiscard.as_view(), name="rest-plan-discard"),
    path("plans/<int:number>/inverse", PlanInverse.as_view(), name="rest-plan-inverse"),
    path("plans/<int:number>/renewal", PlanRenewal.as_view(), name="rest-plan-renewal"),
    path("forecasts/deletion", DeletionForecasts.as_view(), name="rest-forecast-deletion"),
    path("policies", Generations.as_view(), name="rest-policies"),
    path("policies/active", ActiveGeneration.as_view(), name="rest-policies-active"),
    path("policies/<slug:generation>", Catalogue.as_view(), name="rest-policy"),
    path("decisions", Decisions.as_view(), name="rest-decisions"),
    path("analyses", Analyses.as_view(), name="rest-analyses"),
    path("schedules", Schedules.as_view(), name="rest-schedules"),
    path("schedules/<slug:analysis>", ScheduleDetail.as_view(), name="rest-schedule"),
    path("runs", Runs.as_view(), name="rest-runs"),
    path("runs/<int:number>", RunDetail.as_view(), name="rest-run"),
    path("runs/<int:number>/cancel", RunCancellation.as_view(), name="rest-run-cancel"),
    path("runs/<int:number>/tables/<slug:table>", Results.as_view(), name="rest-run-table"),
    path("runs/<int:number>/tables/<slug:table>.csv", ResultsCsv.as_view(), name="rest-run-csv"),
    path("runs/<int:number>/tables/<slug:table>.parquet", ResultsParquet.as_view(), name="rest-run-parquet"),
    path("runs/<int:number>/tables/<slug:table>.jsonl", ResultsJsonLines.as_view(), name="rest-run-jsonl"),
    path("journal", Journal.as_view(), name="rest-journal"),
    path("evidence", EvidenceList.as_view(), name="rest-evidence-list"),
    path("evidence/<int:number>", EvidenceDetail.as_view(), name="rest-evidence"),
    path("evidence/<int:number>/file", EvidenceFile.as_view(), name="rest-evidence-file"),
    path("security-events", SecurityEvents.as_view(), name="rest-security-events"),
    path("webhooks", Webhooks.as_view(), name="rest-webhooks"),
    path("webhooks/<int:number>", WebhookDetail.as_view(), name="rest-webhook"),
    path("webhooks/<int:number>/dead-letters", DeadLetters.as_view(), name="rest-dead-letters"),
    path("webhooks/<int:number>/redeliver", Redelivery.as_view(), name="rest-redelivery"),
    path("journal/proof", Proof.as_view(), name="rest-journal-proof"),
    # without this, Django would answer with an HTML page or a redirect to the sign-in page
    re_path(r"", csrf_exempt(login_not_required(unknown_path))),
]
