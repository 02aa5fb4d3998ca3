"""REST resources of the effect of changes on permissions.

The effect is computed in `grants.effects`. Plans themselves are in `authzconsole.rest.plans`.
"""
