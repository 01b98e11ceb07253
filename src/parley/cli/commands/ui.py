"""``parley ui``: the hub's page, logged in."""

from typing import Annotated

import typer

from parley.cli.call import Call, command, single

app = single()


@command(app, "ui")
def ui(
    call: Call,
    print_url: Annotated[bool, typer.Option("--print-url", help="Print the link and open nothing.")] = False,
) -> None:
    """Open the hub's page in the browser, logged in.

    The link works once, within five minutes; the browser stays logged in for 30 days. It starts no hub: exits with 3 if
    none is running.
    """
    with call.client() as client:
        url = client.page_link().url
    opened = not print_url and _open(url)
    if call.json:
        call.out.data({"url": url, "opened": opened})
    elif opened:
        call.out.note("Opened the page in the browser. `parley ui --print-url` prints a link instead.")
    else:
        if not print_url:
            call.out.note("No browser could be opened here. Open this link within five minutes; it works once:")
        call.out.line(url)


def _open(url: str) -> bool:
    import webbrowser

    return webbrowser.open(url)
