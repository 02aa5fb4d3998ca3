"""Pages of the console. Each area has one folder, with the same name in `templates/` and `tests/web/`.

REST is in `authzconsole.rest`; rules and changes are in `grants`.
"""
