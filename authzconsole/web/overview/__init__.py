"""The first page: totals, the namespaces, and what needs attention.

Charts that reports share are in `authzconsole.web.reports`.
"""
