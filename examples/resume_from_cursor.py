"""An agent that handles each message of a workspace and goes on where it was, also after a crash.

Usage: python examples/resume_from_cursor.py CURSOR_FILE [FOLDER]

Prints every new message until it has seen all there is, then ends. Run it again: it prints only what came since. The
cursor moves to an event when the loop asks for the next one, so a crash while an event is handled repeats that event.
"""

import sys

from parley.client import FileCursor, MessageCreated, StateChange, connect


def tell(change: StateChange) -> None:
    """A reset means that the workspace has another log than the cursor was made for; it is read from its beginning."""
    print(f"{change.name} after event {change.after_event_id or 0}", file=sys.stderr)


def main(cursor_file: str, folder: str | None) -> None:
    with connect(folder, start=True, idle_shutdown_ms=60_000) as client:
        newest = client.read_events(tail=1).replay_until
        with client.events(cursor=FileCursor(cursor_file), on_state=tell) as feed:
            if (feed.last_event_id or 0) >= newest:
                return
            for event in feed:
                if isinstance(event.payload, MessageCreated):
                    message = event.payload.message
                    print(f"{event.event_id} {message.sender}: {message.content_raw}")
                if event.event_id >= newest:
                    feed.commit()
                    return


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else None)
