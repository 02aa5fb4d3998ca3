"""Read pages as a browser shows them."""


def page_html(response) -> str:
    """Return the HTML of a response with every run of whitespace collapsed into one space."""
    return " ".join(response.content.decode().split())
