from django.apps import AppConfig
from django.conf import settings


class EntitiesConfig(AppConfig):
    name = "entities"

    def ready(self):
        from entities.address import name_instance

        name_instance(settings.INSTANCE_NAME)
