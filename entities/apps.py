"""Configure the app of entities: its instance name, the deployment's own kinds and the lookups of many
values.
"""

from pathlib import Path

from django.apps import AppConfig
from django.conf import settings
from django.db.models import AutoField, BigAutoField, CharField


class EntitiesConfig(AppConfig):
    name = "entities"

    def ready(self) -> None:
        from entities.address import set_instance_name
        from entities.kinds_file import register_kinds
        from entities.lookups import Among, AmongTexts

        for field in (AutoField, BigAutoField):
            field.register_lookup(Among)
        CharField.register_lookup(AmongTexts)
        set_instance_name(settings.INSTANCE_NAME)
        if settings.KINDS_FILE:
            register_kinds(Path(settings.KINDS_FILE))
