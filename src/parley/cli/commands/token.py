"""``parley token``: the secret that lets a client in."""

from parley.cli.call import Call, command, group, load_app

app = group("Manage the workspace's token.")


@command(app, "rotate")
def rotate(call: Call) -> None:
    """Replace the token.

    A running hub takes the new one and accepts the old one for a grace period, so that clients can read it again.
    """
    rotated = load_app("token").rotate_token(call.workspace())
    if call.json:
        call.out.data({"rotated": True, "hub_running": rotated.hub_running, "grace_seconds": rotated.grace_seconds})
    elif rotated.hub_running:
        call.out.line(f"The token is new. The hub accepts the old one for {rotated.grace_seconds:g} s more.")
    else:
        call.out.line("The token is new; no hub is running.")
