"""Compute the grants that keep the permissions of one generation in another one, for all users of a tenant.

The tenant is read namespace by namespace, and evaluated with masks of users (`grants.effects.masks`). Other
sources of plans are in `grants.plans.sources`.
"""
