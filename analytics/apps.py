from django.apps import AppConfig


class AnalyticsConfig(AppConfig):
    name = "analytics"

    def ready(self):
        from grants.changes import register_effect_of_run
        from grants.plans.permission_effect import register_plan_effect_of_run

        register_effect_of_run(_change_effect_of_run)
        register_plan_effect_of_run(_plan_effect_of_run)


# imported late, because reading reports needs large packages
def _change_effect_of_run(texts, generation):
    from analytics.plan_effects.stored import stored_change_effect

    return stored_change_effect(texts, generation)


def _plan_effect_of_run(plan):
    from analytics.plan_effects.stored import computed_effect

    return computed_effect(plan)
