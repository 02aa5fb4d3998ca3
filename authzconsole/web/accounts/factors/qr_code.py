"""A QR code as the path of an SVG image."""

from functools import cached_property


class QrCode:
    """The QR code of a string. size: modules on each side, with the quiet zone. path: the dark modules."""

    def __init__(self, text: str):
        # here, because the import takes time
        import qrcode

        code = qrcode.QRCode(border=4)
        code.add_data(text)
        self._rows = code.get_matrix()
        self.size = len(self._rows)

    @cached_property
    def path(self) -> str:
        return "".join(
            f"M{x} {y}h1v1h-1z"
            for y, row in enumerate(self._rows)
            for x, is_dark in enumerate(row)
            if is_dark
        )
