"""The tree of entities, the search, and suggestions for form fields.

The page of one entity is in `authzconsole.web.entities`.
"""
