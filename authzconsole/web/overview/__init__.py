"""The first page: totals, the namespaces, and what needs attention.

The charts, which reports share, are in `authzconsole.web.reports`.
"""
