"""The first page: totals, the namespaces, open problems and the latest changes.

The chart is in `authzconsole.web.reports`, because it is derived from reports. The problems are in `authzconsole.web.findings`.
"""
