"""What the console sends about a security event."""

from authzconsole.common import output


class SecurityEventSerializer(output.Output):
    """An event, in REST, in downloads and in shipped JSON Lines."""

    id = output.Integer(source="pk", example=41)
    at = output.Time(timespec="milliseconds")
    kind = output.Text(example="sign-in-failure")
    account = output.Text(help_text="The account that acted; for a failed sign-in, the entered name.")
    address = output.Text(example="192.0.2.7", help_text="The client address; empty for commands.")
    target = output.Text(help_text="The principal, path or file that the event is about.")
    detail = output.Text()
    request_id = output.Text(help_text="The id that the console gave to the request.")
    token = output.Integer(allow_null=True, help_text="The number of the API token of the request.")
    count = output.Integer(example=1, help_text="The number of equal events that this one stands for.")
