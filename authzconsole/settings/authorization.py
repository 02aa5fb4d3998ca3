"""Grants, entities, access requests and the journal."""

from django.core.exceptions import ImproperlyConfigured

from .environment import env, listed_keys, stored_secret

# Guardian only stores grants. Its backend permits everything to superusers, so decisions do not use it.
# models.W040: SQLite ignores the columns that indexes of PostgreSQL include
SILENCED_SYSTEM_CHECKS = ["guardian.W001", "models.W040"]
ANONYMOUS_USER_NAME = None
GUARDIAN_MONKEY_PATCH_USER = False
GUARDIAN_AUTO_PREFETCH = False

# further kinds of entities of this deployment; see entities/kinds_file.py
KINDS_FILE = env.str("KINDS_FILE", default="")
INSTANCE_NAME = env.str("INSTANCE_NAME", default="cdap")
DEFAULT_GENERATION = env.str("DEFAULT_GENERATION", default="final")

# whether permitted decisions over the API are recorded as use, and for how long; see grants/usage/
RECORD_USAGE = env.bool("RECORD_USAGE", default=True)
USAGE_KEPT_DAYS = env.int("USAGE_KEPT_DAYS", default=800)

# the size up to which the effect of a change is computed at once, in at most 2 s; see grants/effects/
EFFECT_MAX_ENTITIES = env.int("EFFECT_MAX_ENTITIES", default=8_000)
EFFECT_MAX_GRANTS = env.int("EFFECT_MAX_GRANTS", default=100_000)
# affected users times affected entities
EFFECT_MAX_PAIRS = env.int("EFFECT_MAX_PAIRS", default=40_000_000)
# the changes that a page makes at once; a job makes more, see grants/plans/application.py
APPLY_MAX_CHANGES = env.int("APPLY_MAX_CHANGES", default=5_000)

# Delegation: holders of ADMIN on an entity change grants on it and inside it, within these limits. See
# docs/guides/delegation.md.
DELEGATION = env.bool("DELEGATION", default=False)
DELEGATION_PRIVILEGES = env.list("DELEGATION_PRIVILEGES", default=["READ", "WRITE", "EXECUTE"])
if unknown := sorted(set(DELEGATION_PRIVILEGES) - {"READ", "WRITE", "EXECUTE", "ADMIN"}):
    raise ImproperlyConfigured(f"DELEGATION_PRIVILEGES: `{unknown[0]}` is not a privilege")
# kinds of entities; empty for all
DELEGATION_KINDS = env.list("DELEGATION_KINDS", default=[])
# the longest period of a grant by delegation; 0 for no limit
DELEGATION_MAX_DAYS = env.int("DELEGATION_MAX_DAYS", default=0)

# A pending access request expires after this time, or when the requested access would end.
REQUEST_EXPIRY_DAYS = env.int("REQUEST_EXPIRY_DAYS", default=30)
# how often approvers are reminded of a pending request; 0 for never
REQUEST_REMINDER_DAYS = env.int("REQUEST_REMINDER_DAYS", default=3)
# pending requests of one user
REQUEST_MAX_PENDING = env.int("REQUEST_MAX_PENDING", default=50)
# requests for one user within 24 hours, in any state; at least 1
REQUEST_MAX_PER_DAY = env.int("REQUEST_MAX_PER_DAY", default=200)

# The first key signs new lines of the journal; all keys verify. See grants/journal_keys.py.
JOURNAL_KEYS = env.list("JOURNAL_KEYS", default=[]) or listed_keys(
    stored_secret("journal_keys", "the console is read-only until the journal is sealed again")
)
# places of the head of the journal outside the database; see grants/verification/anchor.py
JOURNAL_ANCHOR = env.list("JOURNAL_ANCHOR", default=[])

# Four eyes: the changes that one person may not make alone; see grants/authority/four_eyes.py.
# whether every change of grants, memberships and plans needs a reason
REASON_REQUIRED = env.bool("REASON_REQUIRED", default=False)
# whether a change beyond these limits needs a plan that another person applies
FOUR_EYES = env.bool("FOUR_EYES", default=False)
FOUR_EYES_MAX_ITEMS = env.int("FOUR_EYES_MAX_ITEMS", default=100)
PROTECTED_NAMESPACES = [name.strip() for name in env.list("PROTECTED_NAMESPACES", default=[])]
# for this long after an account set the password or the console role of another, the two count as one person
FOUR_EYES_ACCOUNT_HOURS = env.int("FOUR_EYES_ACCOUNT_HOURS", default=24)
# days in which the former name of a user or group cannot be given to another one
NAME_REUSE_DAYS = env.int("NAME_REUSE_DAYS", default=30)
