from django.apps import AppConfig
from django.db.models.signals import post_migrate


class GrantsConfig(AppConfig):
    name = "grants"

    def ready(self):
        from grants.models import forget_permission_ids

        post_migrate.connect(lambda **_: forget_permission_ids(), weak=False, dispatch_uid="grants.forget_permission_ids")
