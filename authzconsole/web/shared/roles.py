"""The labels of the console roles on pages."""

from grants.models import Role

# by the stored role of an account
ROLE_LABELS = {Role.ORDINARY.value: "User", Role.AUDITOR.value: "Auditor", Role.ADMINISTRATOR.value: "Administrator"}
ROLE_CHOICES = list(ROLE_LABELS.items())
