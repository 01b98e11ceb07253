"""Work: tasks, leases and agents in the page, live, with what is refused in words and with ends that are true."""

import pytest
from playwright.sync_api import Locator, expect

from parley.core.errors import TaskHeld
from tests.browser import xss
from tests.browser.browsers import PHONE, Window
from tests.browser.conftest import MakeHub, OpenWindow
from tests.browser.hubs import PageHub, Room
from tests.browser.test_accessibility import faults
from tests.browser.test_xss import is_harmless
from tests.client.hubs import fresh_name


def section(window: Window, title: str) -> Locator:
    return window.page.get_by_role("list", name=title, exact=True)


def task_row(window: Window, task_id: str) -> Locator:
    return window.page.locator(f'[data-task-id="{task_id}"]')


def test_a_second_window_sees_tasks_leases_and_agents_as_they_change(
    hub: PageHub, room: Room, open_window: OpenWindow
) -> None:
    window = open_window(hub, "#/work")
    expect(window.page.get_by_role("heading", name="Work", exact=True)).to_be_visible()
    client, title, builder = room.client, fresh_name("task"), fresh_name("builder")

    task = client.create_task(title, channel_id=room.channel_id).task
    expect(section(window, "Open").get_by_text(title)).to_be_visible()
    claimed = client.claim_task(task.id, builder, ttl_seconds=600).task
    row = section(window, "In work").locator(f'[data-task-id="{task.id}"]')
    expect(row).to_contain_text(builder)
    expect(row).to_contain_text("m left")
    lease = client.acquire_lease([f"src/{title}/**"], builder, reason="the parser").lease
    leases = section(window, "Leased paths")
    expect(leases).to_contain_text(f"src/{title}/**")
    expect(leases).to_contain_text("the parser")
    agent = client.register_agent(builder, program="editor", model="small", session=title).agent
    agents = section(window, "Who is here")
    expect(agents.locator(f'[data-agent="{agent.name}"]')).to_contain_text("editor, small")
    client.complete_task(task.id, claimed.generation, "all green", builder)
    expect(section(window, "Ended lately").locator(f'[data-task-id="{task.id}"]')).to_contain_text("all green")
    client.release_lease(lease.id, lease.generation, builder)
    expect(leases).not_to_contain_text(f"src/{title}/**")
    client.leave(builder, session=title)
    expect(agents.locator(f'[data-agent="{agent.name}"]')).to_contain_text("gone")
    expect(task_row(window, task.id)).to_have_count(1)


def test_a_person_creates_claims_and_completes_a_task(window: Window, room: Room) -> None:
    page, title = window.page, fresh_name("mine")
    page.goto(f"{room.hub.url}/ui#/work")
    window.call_me("ada")
    page.get_by_role("combobox", name="Channel").select_option(room.channel_id)
    page.keyboard.press("c")
    dialog = page.get_by_role("dialog", name="New task")
    dialog.get_by_role("textbox", name="Title").fill(title)
    dialog.get_by_role("button", name="Create task").click()
    page.get_by_role("button", name=f"Claim: {title}").click()
    expect(section(window, "In work")).to_contain_text(title)
    page.get_by_role("button", name=f"Complete: {title}").click()
    done = page.get_by_role("dialog", name="Complete task")
    done.get_by_role("textbox", name="Result").fill("it works")
    done.get_by_role("button", name="Complete", exact=True).click()
    expect(section(window, "Ended lately")).to_contain_text("it works")
    (task,) = [task for task in room.client.list_tasks(channel_id=room.channel_id).tasks if task.title == title]
    assert (task.status, task.holder, task.result) == ("completed", "ada", "it works")


def test_who_comes_second_is_told_and_may_take_over_with_a_reason(window: Window, room: Room) -> None:
    page, title = window.page, fresh_name("contended")
    task = room.client.create_task(title, channel_id=room.channel_id).task
    page.goto(f"{room.hub.url}/ui#/t/{task.topic_id}")
    window.call_me("ada")
    bar = page.get_by_role("region", name="Task")
    claim = bar.get_by_role("button", name=f"Claim: {title}")
    expect(claim).to_be_visible()
    window.expect_problem("status of 409")
    page.route("**/api/v1/tasks/*", lambda route: (room.client.claim_task(task.id, "builder"), route.continue_()))
    claim.click()
    told = page.get_by_role("dialog")
    expect(told).to_contain_text("held by builder")
    page.unroute("**/api/v1/tasks/*")
    told.get_by_role("button", name="OK").click()
    bar.get_by_role("button", name=f"Take over: {title}").click()
    dialog = page.get_by_role("dialog", name="Take over from builder")
    dialog.get_by_role("textbox", name="Reason").fill("it went home")
    dialog.get_by_role("button", name="Take over").click()
    expect(bar).to_contain_text("ada")
    now = room.client.get_task(task.id).task
    assert (now.holder, now.generation) == ("ada", 2)
    with pytest.raises(TaskHeld):
        room.client.claim_task(task.id, "builder")


def test_a_claim_that_ends_is_open_again_and_a_renewed_one_goes_on(window: Window, room: Room) -> None:
    ends, stays = (
        room.client.create_task(fresh_name(name), channel_id=room.channel_id).task for name in ("ends", "stays")
    )
    room.client.claim_task(ends.id, "builder", ttl_seconds=60)
    held = room.client.claim_task(stays.id, "builder", ttl_seconds=60).task
    window.page.clock.install()
    window.page.goto(f"{room.hub.url}/ui#/work")
    expect(section(window, "In work").locator(f'[data-task-id="{ends.id}"]')).to_be_visible()
    room.client.renew_task(stays.id, held.generation, "builder", ttl_seconds=3600)
    window.page.clock.run_for(70_000)
    expect(task_row(window, ends.id)).to_contain_text("ended")
    expect(task_row(window, stays.id)).to_contain_text("m left")


def test_names_titles_reasons_and_paths_stay_text(hub: PageHub, room: Room, open_window: OpenWindow) -> None:
    last = ""
    for number, text in xss.fitting(150):
        task = room.client.create_task(text, channel_id=room.channel_id, description=text).task
        if number % 3 == 0:
            claimed = room.client.claim_task(task.id, text).task
            if number % 2 == 0:
                room.client.complete_task(task.id, claimed.generation, text, text)
        last = task.id
    window = open_window(hub, "#/work")
    expect(task_row(window, last)).to_be_visible()
    is_harmless(window)
    window.page.goto(f"{hub.url}/ui#/t/{room.client.get_task(last).task.topic_id}")
    expect(window.page.get_by_role("region", name="Task")).to_be_visible()
    is_harmless(window)


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_axe_finds_nothing_serious(hub: PageHub, room: Room, open_window: OpenWindow, dark: bool) -> None:
    task = room.client.create_task(fresh_name("task"), channel_id=room.channel_id, description="why").task
    room.client.claim_task(task.id, "builder")
    room.client.register_agent("builder", program="editor", session="axe")
    window = open_window(hub, "#/work", dark=dark)
    expect(task_row(window, task.id)).to_be_visible()
    assert faults(window) == []
    window.page.goto(f"{hub.url}/ui#/t/{task.topic_id}")
    expect(window.page.get_by_role("region", name="Task")).to_be_visible()
    assert faults(window) == []


def test_it_fits_a_phone(hub: PageHub, room: Room, open_window: OpenWindow) -> None:
    task = room.client.create_task("x" * 180, channel_id=room.channel_id).task
    room.client.acquire_lease(["src/" + "deep/" * 40 + "**"], "builder")
    window = open_window(hub, "#/work", size=PHONE)
    expect(task_row(window, task.id)).to_be_visible()
    assert window.page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert window.page.evaluate("document.querySelector('main').scrollWidth <= innerWidth")


def test_the_bar_of_a_topic_knows_its_task_although_many_came_since(make_hub: MakeHub, open_window: OpenWindow) -> None:
    hub = make_hub()
    channel = hub.client.create_channel("work").channel
    first = hub.client.create_task("The first", channel_id=channel.id).task
    for number in range(501):
        hub.client.create_task(f"Later {number}", channel_id=channel.id)
    window = open_window(hub, f"#/t/{first.topic_id}")
    bar = window.page.get_by_role("region", name="Task", exact=True)
    expect(bar).to_be_visible()
    hub.client.claim_task(first.id, "builder")
    expect(bar).to_contain_text("builder")
