"""The labels of the console roles on pages."""

from grants.models import Role

# by the stored role of an account
ROLE_LABELS = {role.value: "User" if role == Role.ORDINARY else role.label for role in Role}
ROLE_CHOICES = list(ROLE_LABELS.items())
