"""The console roles as pages name them."""

from grants.models import Role

# by the stored role of an account
ROLE_LABELS = {Role.ORDINARY.value: "User", Role.AUDITOR.value: "Auditor", Role.ADMINISTRATOR.value: "Administrator"}
ROLE_CHOICES = list(ROLE_LABELS.items())
