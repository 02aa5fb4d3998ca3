"""Users and groups that come from a directory: SCIM."""

from .environment import env

# whether an identity provider may create and deactivate users over SCIM; see authzconsole/scim/
SCIM_ENABLED = env.bool("SCIM_ENABLED", default=False)
