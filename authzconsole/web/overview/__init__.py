"""The first page: totals, the namespaces, open problems and the latest changes.

The chart and the problems are in `authzconsole.web.reports`, because they are derived from reports.
"""
