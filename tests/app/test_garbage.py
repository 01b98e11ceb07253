"""A server's collector leaves its modules alone. Asked in a process of its own: the setting is the whole process's."""

import subprocess
import sys

ASK = """
import gc
from parley.app.garbage import look_seldom
look_seldom()
print(gc.get_freeze_count(), *gc.get_threshold())
"""


def test_what_a_server_starts_with_is_set_aside_and_the_rest_looked_at_seldom() -> None:
    told = subprocess.run([sys.executable, "-c", ASK], capture_output=True, text=True, check=True, timeout=60)
    frozen, *thresholds = map(int, told.stdout.split())
    assert frozen > 1_000
    assert thresholds == [20_000, 20, 20]
