"""The URLs of plans."""

from django.urls import path

from authzconsole.web.plans.bulk_change import (
    NewBulkPlan,
    NewGhostPlan,
    NewOutlierPlan,
    NewPatternPlan,
    NewRedundantPlan,
    NewUnusedPlan,
)
from authzconsole.web.plans.import_changes import ImportChanges, sample_change_file
from authzconsole.web.plans.plan_choices import ChooseAnswerPlan, ChooseImpactPlan, ChooseReadinessPlan
from authzconsole.web.plans.plan_pages import (
    ApplyPlan,
    CancelApplication,
    CancelPlanEffect,
    ComputePlanEffect,
    CopyGrants,
    DiscardPlan,
    PlanList,
    RenewPlan,
    UndoPlan,
    plan_page,
)
from authzconsole.web.plans.role_plan import NewRolePlan

urlpatterns = [
    path("plans/", PlanList.as_view(), name="plans"),
    path("plans/readiness", ChooseReadinessPlan.as_view(), name="plan-readiness"),
    path("plans/policy-impact/<int:pk>", ChooseImpactPlan.as_view(), name="plan-impact"),
    path("plans/role-mining/<int:pk>", NewRolePlan.as_view(), name="plan-roles"),
    path("plans/missing", ChooseAnswerPlan.as_view(), name="plan-from-answer"),
    path("plans/copy", CopyGrants.as_view(), name="plan-copy"),
    path("plans/many", NewBulkPlan.as_view(), name="plan-bulk-change"),
    path("plans/ghosts", NewGhostPlan.as_view(), name="plan-ghosts"),
    path("plans/redundant", NewRedundantPlan.as_view(), name="plan-redundant"),
    path("plans/unused", NewUnusedPlan.as_view(), name="plan-unused"),
    path("plans/outliers", NewOutlierPlan.as_view(), name="plan-outliers"),
    path("plans/patterns", NewPatternPlan.as_view(), name="plan-patterns"),
    path("plans/import", ImportChanges.as_view(), name="plan-import"),
    path("plans/import/sample.<slug:extension>", sample_change_file, name="plan-import-sample"),
    path("plans/<int:pk>/", plan_page, name="plan"),
    path("plans/<int:pk>/apply", ApplyPlan.as_view(), name="plan-apply"),
    path("plans/<int:pk>/apply/cancel", CancelApplication.as_view(), name="plan-apply-cancel"),
    path("plans/<int:pk>/effect", ComputePlanEffect.as_view(), name="plan-effect"),
    path("plans/<int:pk>/effect/cancel", CancelPlanEffect.as_view(), name="plan-effect-cancel"),
    path("plans/<int:pk>/discard", DiscardPlan.as_view(), name="plan-discard"),
    path("plans/<int:pk>/undo", UndoPlan.as_view(), name="plan-undo"),
    path("plans/<int:pk>/renew", RenewPlan.as_view(), name="plan-renew"),
]
