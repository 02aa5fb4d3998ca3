"""The OpenAPI document and the pages that show it.

Endpoints describe their operations with `operations.api_operation`. Nothing here answers API requests.
"""
