from django.apps import AppConfig


class AnalyticsConfig(AppConfig):
    name = "analytics"

    def ready(self):
        from grants.changes import register_effect_of_run

        register_effect_of_run(_effect_of_run)


def _effect_of_run(texts, generation):
    # imported late, because reading reports needs large packages
    from analytics.plan_effects.stored import stored_change_effect

    return stored_change_effect(texts, generation)
