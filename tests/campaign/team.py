"""A team of programs that share tasks and paths through the SDK, some of which are killed while they hold them.

Each worker is a process with a client of its own. It asks for the next task, reserves a few paths of a small tree while
it works, and says what came of it. Now and then one of them is killed with SIGKILL in the middle of whatever it does; a
new one under another name takes its place. In the end every task must have been done once, no task may have had two
holders at one generation, and no two workers paths that overlap.
"""

import random
import shutil
from multiprocessing.process import BaseProcess
from pathlib import Path

from bench.load.hub import Hub
from parley.client import Client, errors
from parley.core.fold import LoggedEvent
from parley.sqlite import close_quietly, open_reader
from parley.wire.entities import Task
from parley.workspace import queries
from tests.campaign.forked import ForkedHub
from tests.campaign.forkserver import forkserver
from tests.campaign.holds import hold_problems
from tests.campaign.judge import judge
from tests.campaign.report import Report

TTL_SECONDS = 2
CONFIG = """
[leases]
sweep_seconds = 0.05
[agents]
gone_after_minutes = 0.05
seen_flush_seconds = 0.2
"""
FOLDERS, FILES = 6, 4
END_SECONDS = 60.0
_context = forkserver("parley.client", "parley.client.client", "httpx")


def team(folder: Path, *, workers: int, tasks: int, leases: int, kills: int, seed: int) -> Report:
    """Control: logs in which a task has two holders, is done twice, or two leases overlap."""
    report = Report("team", seed)
    rng = random.Random(seed)
    place = folder / "workspace"
    with Hub(place, config=CONFIG, launch=ForkedHub), Client(place, sender="overseer") as overseer:
        channel = overseer.create_channel("work").channel
        for number in range(tasks):
            overseer.create_task(f"task {number}", channel_id=channel.id)
        killed = _watch(overseer, place, workers, tasks, -(-leases // tasks), kills, rng)
        database = open_reader(place / ".parley" / "db.sqlite3")
        try:
            report.violations = judge(database, [])
            report.violations += _undone(overseer, tasks)
            log = list(queries.logged_events(database))
        finally:
            close_quietly(database)
    names = [event.name for event in log]
    report.runs = tasks
    report.facts = {
        "workers": workers,
        "killed": killed,
        "claims": names.count("task.claimed"),
        "claims_ended_by_time": names.count("task.expired"),
        "claims_of_the_gone": names.count("task.released"),
        "leases": names.count("lease.acquired"),
    }
    if names.count("lease.acquired") < leases:
        report.violations.append(f"only {names.count('lease.acquired')} leases were acquired")
    report.control = control(log)
    shutil.rmtree(place)
    return report


def _watch(overseer: Client, place: Path, workers: int, tasks: int, leases: int, kills: int, rng: random.Random) -> int:
    """Follows the log until every task is done, killing a worker whenever a share of them is; how many were killed."""
    running = [_start(place, number, leases, rng) for number in range(workers)]
    done = killed = 0
    with overseer.events(after=0) as feed:
        for event in feed:
            done += event.name == "task.completed"
            if done == tasks:
                break
            if event.name == "lease.acquired" and killed < kills and done >= killed * tasks // (kills + 1):
                victim = running.pop(rng.randrange(len(running)))
                victim.kill()
                victim.join()
                killed += 1
                running.append(_start(place, workers + killed, leases, rng))
    for worker in running:
        worker.join(END_SECONDS)
        worker.kill()
        worker.join()
    return killed


def _start(place: Path, number: int, leases: int, rng: random.Random) -> BaseProcess:
    process = _context.Process(target=work, args=(place, f"worker-{number}", leases, rng.randrange(1 << 30)))
    process.start()
    return process


def work(place: Path, name: str, leases: int, seed: int) -> None:
    """One worker, until nothing is left to do."""
    rng = random.Random(seed)
    with Client(place, agent=name) as client:
        client.register_agent(name, program="team", session=name)
        while True:
            latest = client.read_events(tail=1).replay_until
            task = client.claim_next_task(ttl_seconds=TTL_SECONDS).task
            if task is not None:
                _do(client, task, leases, rng)
            elif not client.list_tasks(status="claimed", limit=1).tasks and not client.list_tasks(status="open").tasks:
                return
            else:
                with client.events(after=latest) as feed:  # somebody else has the rest; until that changes
                    next(event for event in feed if event.name.startswith("task."))


def _do(client: Client, task: Task, leases: int, rng: random.Random) -> None:
    try:
        for _ in range(leases):
            _reserve(client, rng)
            task = client.renew_task(task.id, task.generation, ttl_seconds=TTL_SECONDS).task
        client.complete_task(task.id, task.generation, f"{task.id} is done")
    except (errors.TaskNotHeld, errors.TaskClosed):
        return  # it took too long, and the task is somebody else's, who may have done it


def _reserve(client: Client, rng: random.Random) -> None:
    """Reserves paths that nobody has, works there, and gives them back."""
    while True:
        folder, file = f"part-{rng.randrange(FOLDERS)}", f"file-{rng.randrange(FILES)}.py"
        pattern = rng.choice((f"{folder}/**", f"{folder}/{file}", f"**/{file}", f"{folder}/file-[0-1]*"))
        try:
            lease = client.acquire_lease([pattern], ttl_seconds=TTL_SECONDS).lease
        except errors.LeaseConflict:
            continue
        try:
            client.release_lease(lease.id, lease.generation)
        except errors.LeaseLost:
            continue
        return


def _undone(overseer: Client, tasks: int) -> list[str]:
    done = overseer.list_tasks(status="completed", limit=1000).tasks
    return [] if len(done) == tasks else [f"{len(done)} of {tasks} tasks were completed"]


def control(log: list[LoggedEvent]) -> list[str]:
    """What is said of logs in which each rule was broken; empty if any of them passes."""
    claimed = next(event for event in log if event.name == "task.claimed")
    completed = next(event for event in log if event.name == "task.completed")
    acquired = next(event for event in log if event.name == "lease.acquired")
    stranger = {**acquired.data["lease"], "id": "lease_other", "holder": "stranger", "mode": "exclusive"}
    found: list[str] = []
    for forged in (
        claimed._replace(data={**claimed.data, "actor": "stranger"}),
        completed,
        acquired._replace(data={"lease": stranger}),
    ):
        original = next(index for index, event in enumerate(log) if event.event_id == forged.event_id)
        problems = hold_problems([*log[: original + 1], forged])
        if not problems:
            return []
        found += problems
    return found
