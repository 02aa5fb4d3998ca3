"""The tree of entities and the search field.

The page of one entity is in `authzconsole.web.entities`.
"""
