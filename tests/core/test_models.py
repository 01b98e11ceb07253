"""The identity of an embedding model, and its fingerprint."""

import hashlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parley.core.errors import InvalidInput
from parley.core.limits import MODEL_NAME_CHARS_MAX, VECTOR_DIM_MAX
from parley.core.models import ModelIdentity, model_fingerprint

VOYAGE = ModelIdentity("voyage-ai", "voyage-3-large", "1.0", 1024)
NAMES = st.text(st.sampled_from('ab:"\\é'), min_size=1, max_size=4)
IDENTITIES = st.builds(ModelIdentity, NAMES, NAMES, NAMES, st.integers(1, 3), NAMES)


def test_the_vector_of_the_documents() -> None:
    preimage = (
        b'{"dim":1024,"model":"voyage-3-large","model_version":"1.0","provider":"voyage-ai","quantization":"float32"}'
    )
    assert model_fingerprint(VOYAGE) == hashlib.sha256(preimage).hexdigest()[:16] == "7fc2526875fcde87"


def test_parts_that_hold_the_separator_of_a_join_are_told_apart() -> None:
    one, other = ModelIdentity("a:b", "c", "1", 8), ModelIdentity("a", "b:c", "1", 8)
    assert model_fingerprint(one) != model_fingerprint(other)


@given(IDENTITIES, IDENTITIES)
def test_models_share_a_fingerprint_if_and_only_if_they_are_the_same(one: ModelIdentity, other: ModelIdentity) -> None:
    assert (model_fingerprint(one) == model_fingerprint(other)) == (one == other)


@pytest.mark.parametrize(
    "wrong",
    [
        {"provider": ""},
        {"model": "a\nb"},
        {"model_version": "x" * (MODEL_NAME_CHARS_MAX + 1)},
        {"quantization": None},
        {"dim": 0},
        {"dim": VECTOR_DIM_MAX + 1},
        {"dim": 1.5},
        {"dim": True},
    ],
)
def test_what_is_no_name_or_no_size_is_refused_by_its_field(wrong: dict[str, Any]) -> None:
    parts: dict[str, Any] = {"provider": "p", "model": "m", "model_version": "1", "dim": 8}
    with pytest.raises(InvalidInput) as refusal:
        ModelIdentity(**(parts | wrong))
    assert refusal.value.details == {"field": next(iter(wrong))}
