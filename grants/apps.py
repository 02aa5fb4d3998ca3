"""Configure the app of users, grants, the journal and plans."""

from django.apps import AppConfig
from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.db.models import BigAutoField
from django.db.models.signals import post_migrate
from django.utils.module_loading import autodiscover_modules


class GrantsConfig(AppConfig):
    name = "grants"

    def ready(self):
        from grants.models import clear_permission_ids
        from grants.models.validity_columns import InForce
        from grants.policies.catalogue import UnknownGeneration, generation_by_name

        BigAutoField.register_lookup(InForce)
        try:
            generation_by_name(settings.DEFAULT_GENERATION)
        except UnknownGeneration as error:
            raise ImproperlyConfigured(f"DEFAULT_GENERATION: {error}") from None

        from grants.journal_keys import key_fault

        if fault := key_fault(settings.JOURNAL_KEYS):
            raise ImproperlyConfigured(f"JOURNAL_KEYS: {fault}")

        from grants.verification import AnchorError, anchor_place

        try:
            for place in settings.JOURNAL_ANCHOR:
                anchor_place(place)
        except AnchorError as error:
            raise ImproperlyConfigured(f"JOURNAL_ANCHOR: {error}") from None

        from grants.changes import end_exceptions, register_plan_writer
        from grants.plans.apply import write_plan_of_set
        from grants.principals.hooks import register_duty_ender
        from grants.requests.expiry import cancel_requests_of
        from grants.reviews.answers import end_reviews_by
        from grants.reviews.reviewers import end_management
        from grants.stewards import end_stewardships

        for ender in (end_stewardships, end_management, end_exceptions, end_reviews_by, cancel_requests_of):
            register_duty_ender(ender)
        register_plan_writer(write_plan_of_set)
        # the functions of all types of jobs
        autodiscover_modules("job_types")
        post_migrate.connect(
            lambda **_: clear_permission_ids(), weak=False, dispatch_uid="grants.clear_permission_ids"
        )
