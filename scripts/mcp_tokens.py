"""What the tools cost a conversation: the size of their definitions, and an upper bound of it in tokens.

Each model counts tokens its own way, and their vocabularies are not ours to carry. So tokens are bounded by a rule that
anybody can check: one token for every three bytes of the JSON that is sent. Common vocabularies need fewer for such
text, about one for four bytes; the bound errs on the side of too many.

    python -m scripts.mcp_tokens
"""

import json

from parley.mcp.profiles import PROFILES, tools_of
from parley.mcp.toolbox import Tool

BYTES_PER_TOKEN = 3


def definition(tool: Tool) -> bytes:
    """The tool as it is sent to a model."""
    shown = {"name": tool.name, "description": tool.about, "inputSchema": tool.schema}
    return json.dumps(shown, ensure_ascii=False, separators=(",", ":")).encode()


def tokens(data: bytes) -> int:
    """At most so many tokens."""
    return -(-len(data) // BYTES_PER_TOKEN)


def cost(profile: str) -> tuple[int, int, int]:
    """How many tools a profile has, their bytes, and their tokens at most."""
    sizes = [definition(tool) for tool in tools_of(profile)]
    return len(sizes), sum(map(len, sizes)), sum(map(tokens, sizes))


def main() -> None:
    for profile in PROFILES:
        count, size, most = cost(profile)
        print(f"{profile}: {count} tools, {size:,} bytes, at most {most:,} tokens")
        for tool in tools_of(profile):
            print(f"  {tool.name:24} {len(definition(tool)):6,} bytes {tokens(definition(tool)):5,} tokens")


if __name__ == "__main__":
    main()
