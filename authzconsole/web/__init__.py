"""Pages of the console. Each area has a folder, with the same name in `templates/` and `tests/web/`.

The REST API is in `authzconsole.rest`; policies and changes are in `grants`.
"""
