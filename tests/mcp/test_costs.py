"""What the tools cost a conversation."""

from parley.mcp.profiles import tools_of
from scripts.mcp_tokens import cost


def test_the_default_profile_costs_less_than_three_thousand_tokens() -> None:
    count, _, tokens = cost("default")
    assert 10 <= count <= 12
    assert tokens < 3_000


def test_no_schema_carries_what_a_model_does_not_need() -> None:
    for tool in tools_of("full"):
        text = str(tool.schema)
        assert "'title': '" not in text
        assert "$ref" not in text
        assert "null" not in text
        assert tool.schema["type"] == "object"
