from django.apps import AppConfig
from django.conf import settings

from analytics.settings import use_settings

# not in `ready`, because other apps may read a setting of the pipeline in theirs
use_settings(settings)


class AnalyticsConfig(AppConfig):
    name = "analytics"
