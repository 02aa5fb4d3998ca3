"""The pages of the console: one folder for each area, named as in `templates/` and `tests/web/`.

REST is in `authzconsole.rest`; rules and changes are in `grants`.
"""
