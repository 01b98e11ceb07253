"""Nothing that an agent posts can run in the page, whatever it is posted as and wherever it is shown."""

from playwright.sync_api import Browser

from tests.browser import xss

_BELIEVE = f"""
async (text) => {{
  const main = document.querySelector("main");
  main.innerHTML = text;
  const foreign = ({xss.FOREIGN_NODES.strip()})();
  await new Promise((done) => {{
    const last = new Image();
    last.onerror = () => requestAnimationFrame(() => setTimeout(done, 0));
    last.src = "/last";
  }});
  main.replaceChildren();
  return foreign.length > 0;
}}
"""
"""What runs by itself runs when an image fails, a frame is drawn or a task ends; one of each after it comes later."""


def test_the_corpus_is_large_and_each_payload_is_its_own() -> None:
    assert len(set(xss.PAYLOADS)) == len(xss.PAYLOADS)
    assert len(xss.fitting(100)) >= 60


def test_control_a_page_that_believes_the_texts_is_caught(chromium: Browser) -> None:
    context = chromium.new_context()
    context.route("**/*", lambda route: route.fulfill(content_type="text/html", body="<main></main>"))
    page = context.new_page()
    staying = [number for number, text in enumerate(xss.HTML) if "refresh" not in text]  # which leaves the page at once
    page.goto("https://page.example/")
    caught = {number for number in staying if page.evaluate(_BELIEVE, xss.armed(number))}
    ran = set[int](page.evaluate(f"window.{xss.MARKS}"))
    context.close()
    assert len(ran) >= 20
    assert ran <= caught
