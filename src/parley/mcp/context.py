"""Where one agent works: its name, its way to the hub, and the bounds of what it is told."""

from dataclasses import dataclass

from parley.mcp.link import Link


@dataclass(frozen=True, slots=True)
class AgentContext:
    """What a tool is given besides its arguments."""

    link: Link
    result_bytes_max: int
    wait_seconds_max: float
    hosted_by_hub: bool = False
    """Whether it is the hub's own process that works here, whose end a long wait must not delay."""

    @property
    def agent(self) -> str:
        """The name that this agent writes under."""
        return self.link.agent
