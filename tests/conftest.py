"""What holds for every test: no setting of the machine leaks in, and no property test is judged by the clock."""

import os

import pytest
from hypothesis import HealthCheck, settings

settings.register_profile("parley", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("parley")


@pytest.fixture(autouse=True)
def _no_settings_from_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.startswith("PARLEY_"):
            monkeypatch.delenv(name)
