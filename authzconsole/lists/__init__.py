"""The lists of the console. Each is declared once, for its page, its REST resource and its downloads.

`base` says what a list is. Pages read it through `authzconsole.web.shared.paging`, REST through
`authzconsole.rest.framework.lists`. Parsing the parameters of a page is not here.
"""
