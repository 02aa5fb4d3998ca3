"""The OpenAPI document and the pages that show it.

Endpoints describe themselves with `operations`; nothing here answers API requests.
"""
