"""List who had access to an entity in a period, since when and through which grants, and write signed bundles
of these rows.

This package contains periods of revisions and the access in them. The tables of the past are in
`grants.history`.
"""

from grants.evidence.access_rows import AccessPeriods, AccessRow, access_periods, active_generations
from grants.evidence.bundle import (
    BundleError,
    content_count,
    contents_of,
    verify_bundle,
    write_bundle,
)
from grants.evidence.grant_periods import periods_in
from grants.evidence.holdings import read_users
from grants.evidence.signing import known_public_keys, public_key
from grants.evidence.timeline import BoundaryLine, ExistencePeriod, HeldPeriod
