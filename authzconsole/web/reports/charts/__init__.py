"""Charts of reports and namespaces, drawn as SVG on the server: treemap, heat map and bars.

Reading reports is in `analytics.results`; the pages that show the charts are in `authzconsole.web.reports` and
`authzconsole.web.overview`.
"""
