"""The effect of changes on permissions: in the forms that make them, in a section of a page, and as a list
with downloads.

Every form that changes permissions uses `authzconsole.web.effects.forms`. The effect itself is computed in
`grants.effects`.
"""
