"""A hub in a process of its own, with a client to set up what the page shows and the link that logs a browser in."""

import functools

import httpx
from playwright.sync_api import BrowserContext

from parley.client import Client
from parley.wire.entities import Message
from tests.client.hubs import DEADLINE_SECONDS, HubProcess, fresh_name


class PageHub(HubProcess):
    """The hub of one workspace."""

    @functools.cached_property
    def client(self) -> Client:
        """One for the hub's whole life; it finds the hub again after each restart."""
        return Client(self.root, sender="ada")

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server.port}"

    def link(self) -> str:
        """A fresh one-time link, as ``parley ui`` makes it."""
        headers = {"Authorization": f"Bearer {self.workspace.token.read_text().strip()}"}
        answer = httpx.post(f"{self.url}/api/v1/ui/code", headers=headers, timeout=DEADLINE_SECONDS)
        answer.raise_for_status()
        return answer.json()["url"]

    def log_in(self, context: BrowserContext) -> None:
        """Gives a browser its session, as the page does when it was opened with the link."""
        code = self.link().partition("#code=")[2]
        answer = context.request.post(f"{self.url}/ui/login", data={"code": code}, headers={"Origin": self.url})
        assert answer.ok, answer.text()

    def end(self) -> None:
        self.client.close()
        self.stop()


class Room:
    """A channel with a topic that belong to one test."""

    def __init__(self, hub: PageHub) -> None:
        self.hub = hub
        self.client = hub.client
        self.name = fresh_name("room")
        self.channel_id = self.client.create_channel(self.name).channel.id
        self.title = fresh_name("topic")
        self.topic_id = self.topic(self.title)

    def topic(self, title: str | None = None) -> str:
        """Another topic; its id."""
        return self.client.create_topic(self.channel_id, title or fresh_name("topic")).topic.id

    def post(
        self, text: str, sender: str = "planner", *, topic_id: str | None = None, reply_to: str | None = None
    ) -> str:
        """A message; its id."""
        return self.client.send_message(topic_id or self.topic_id, text, sender, reply_to=reply_to).message.id

    def message(self, message_id: str) -> Message:
        """As the hub has it now."""
        return self.client.get_message(message_id).message

    def ids(self, topic_id: str | None = None) -> list[str]:
        """All messages of the topic, oldest first, as the hub has them."""
        found: list[str] = []
        before = None
        while True:
            page = self.client.page_messages(topic_id=topic_id or self.topic_id, before_id=before, limit=1000)
            found += [message.id for message in page.messages]
            if not page.has_more:
                return found[::-1]
            before = found[-1]
