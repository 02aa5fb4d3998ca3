"""Charts of reports and namespaces, rendered as SVG on the server: treemap, heat map and bars.

Functions that read reports are in `analytics.results`; pages with charts are in `authzconsole.web.reports`
and `authzconsole.web.overview`.
"""
