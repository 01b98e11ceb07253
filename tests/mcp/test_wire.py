"""The wire on the event loop: lines of any length, from and to whatever standard input and output may be."""

import asyncio
import os
import threading
from pathlib import Path

from parley.mcp.wire import CHUNK_BYTES, Incoming, Outgoing


async def test_lines_come_whole_however_they_were_cut_and_the_last_needs_no_end() -> None:
    read_end, write_end = os.pipe()
    incoming = Incoming(read_end)
    text = "first\nséc".encode()
    os.write(write_end, text[:8])
    assert await anext(incoming) == "first\n"
    coming = asyncio.create_task(anext(incoming))
    await asyncio.sleep(0)
    os.write(write_end, text[8:] + b"ond\nthird")
    assert await coming == "sécond\n"
    os.close(write_end)
    assert [line async for line in incoming] == ["third"]
    os.close(read_end)


async def test_a_plain_file_is_read_as_well(tmp_path: Path) -> None:
    file = tmp_path / "lines"
    file.write_text("one\ntwo\n")
    descriptor = os.open(file, os.O_RDONLY)
    assert [line async for line in Incoming(descriptor)] == ["one\n", "two\n"]
    os.close(descriptor)


async def test_a_line_longer_than_a_pipe_holds_waits_for_its_reader_and_holds_up_nothing_else() -> None:
    read_end, write_end = os.pipe()
    outgoing, line = Outgoing(write_end), "x" * 20 * CHUNK_BYTES + "\n"
    await outgoing.write(line)
    flushing = asyncio.create_task(outgoing.flush())
    await asyncio.sleep(0)
    assert not flushing.done()
    heard = bytearray()

    def read() -> None:
        while len(heard) < len(line):
            heard.extend(os.read(read_end, CHUNK_BYTES))

    reader = threading.Thread(target=read)
    reader.start()
    await flushing
    await asyncio.to_thread(reader.join)
    assert heard.decode() == line
    for each in (read_end, write_end):
        os.close(each)
