"""``parley send`` and a daemon that ends before it has answered."""

import json
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

from parley.wire.daemon_home import DaemonHome
from tests.client.scripted_daemon import SECONDS, ScriptedDaemon
from tests.daemon.conftest import Parley
from tests.daemon.served_daemon import BOB


def test_a_message_whose_answer_was_lost_is_sent_again_under_its_id(home: DaemonHome, parley: Parley) -> None:
    with ThreadPoolExecutor() as pool:
        with closing(ScriptedDaemon(home, [None], 0.0)) as daemon:
            sending = pool.submit(parley, "send", BOB, "hello")
            assert daemon.asked.wait(SECONDS)
        code, said = sending.result()
    first = json.loads(daemon.requests[0].partition(b"\r\n\r\n")[2])
    assert code == 0
    assert said["client_message_id"] == first["client_message_id"]


def test_metadata_on_the_command_line_is_not_changed_on_its_way(parley: Parley) -> None:
    deep = '{"a":' * 3_000 + "1" + "}" * 3_000
    wrong = {
        '{"a": 1, "a": 2}': "META_KEY_REPEATED",
        '{"a": NaN}': "INVALID_INPUT",
        "[1]": "INVALID_INPUT",
        "x": "INVALID_INPUT",
        deep: "INVALID_INPUT",
    }
    for text, expected in wrong.items():
        code, said = parley("send", BOB, "hello", "--meta", text)
        assert (code, said["code"]) == (1, expected), text[:20]
    assert parley("send", BOB, "hello", "--meta", '{"a": "\u2028"}')[0] == 0
