"""The five security headers of the wire contract, value by value."""

from parley.serve import SECURITY_HEADERS


def test_the_five_headers_have_exactly_the_values_that_existing_clients_compare() -> None:
    assert dict(SECURITY_HEADERS) == {
        b"x-frame-options": b"DENY",
        b"x-content-type-options": b"nosniff",
        b"x-xss-protection": b"1; mode=block",
        b"content-security-policy": b"default-src 'self'; script-src 'self'; style-src 'self'; connect-src 'self' "
        b"ws://localhost:* ws://127.0.0.1:*; frame-ancestors 'none'",
        b"referrer-policy": b"no-referrer",
    }


def test_there_are_five_and_their_names_are_in_lower_case() -> None:
    names = [name for name, _ in SECURITY_HEADERS]
    assert len(names) == len(set(names)) == 5
    assert names == [name.lower() for name in names]
