"""Models of principals, grants, the journal, plans, access requests and the history, one module for each.

The services of `grants` are the only writers of these tables. Other modules import the models from this
package, except those of the history and of reviews.
"""

from grants.models import history, reviews  # Django reads the models of an app from this package
from grants.models.break_glass import BreakGlassUse
from grants.models.grants import (
    GRANT_SOURCES,
    GROUP,
    PRINCIPAL_TYPES,
    THROUGH_GROUPS,
    USER,
    ActiveGeneration,
    GrantDetails,
    GrantQuerySet,
    GrantSource,
    GroupGrant,
    PrincipalType,
    UserGrant,
    all_grants,
    clear_permission_ids,
    grants_by_type,
    grants_through,
    permission_ids,
    privilege_of,
    type_of,
)
from grants.models.guardrails import Enforcement, Form, Guardrail, GuardrailClause, GuardrailException
from grants.models.jobs import EFFECT_JOBS, UNFINISHED_STATES, EffectRows, Job, JobState
from grants.models.journal import (
    JOURNAL_REQUEST_FILTERS,
    JournalHead,
    JournalLine,
    PeriodPosition,
    line_hash,
)
from grants.models.plans import (
    ACTIVATION_VERBS,
    GRANT_VERBS,
    MEMBERSHIP_VERBS,
    STATE_VERBS,
    Plan,
    PlanBreadth,
    PlanItem,
    PlanState,
    PlanStranding,
    PlanVerb,
)
from grants.models.principals import BELONGING_SELECT, Belonging, Membership, RoleGroup, RoleMembership, User
from grants.models.remarks import Remark, RemarkPart
from grants.models.requests import (
    AccessRequest,
    AccessRequestEvent,
    AccessRequestPart,
    NamespaceApprovers,
    PublishedItem,
    RequestEventKind,
    RequestState,
)
from grants.models.stewards import NamespaceSteward, StoredDelegationLimits
from grants.roles.capabilities import Role
