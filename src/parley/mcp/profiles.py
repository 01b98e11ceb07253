"""The sets of tools that a server can offer."""

from typing import Final, Literal

from parley.core.errors import InvalidInput
from parley.mcp.toolbox import Tool
from parley.mcp.tools import messages, news, work

Profile = Literal["default", "full"]
PROFILES: Final[tuple[Profile, ...]] = ("default", "full")

DEFAULT: Final = (*messages.TOOLS, *news.TOOLS, *work.TOOLS)


def tools_of(profile: str) -> tuple[Tool, ...]:
    """The tools of a profile, by its name. Raises ``InvalidInput`` for one that does not exist."""
    if profile == "default":
        return DEFAULT
    if profile == "full":
        from parley.mcp.tools import sdk  # made from the client's methods, which only this profile needs

        return (*DEFAULT, *sdk.TOOLS)
    raise InvalidInput(f"There is no profile {profile}; there are {', '.join(PROFILES)}", field="profile")
