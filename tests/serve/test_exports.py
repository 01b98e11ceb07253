"""The room's public names, and what loading it costs."""

import subprocess
import sys

import pytest

import parley.serve


def test_every_public_name_can_be_had() -> None:
    for name in parley.serve.__all__:
        assert getattr(parley.serve, name) is not None


def test_a_name_that_is_not_there_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        _ = parley.serve.nonsense  # pyright: ignore[reportAttributeAccessIssue]


def test_a_look_at_the_token_loads_neither_logs_nor_metrics() -> None:
    look = (
        "import sys, parley.serve; print([name for name in ('structlog', 'prometheus_client') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", look], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == "[]"
