"""The pages in a real browser: shown as meant, nothing run that is text, nothing in the console.

Needs Chromium and its driver as Debian packages them (`chromium`, `chromium-driver`), and selenium.
"""

import contextlib
import io
import struct
import zlib
from pathlib import Path

import numpy as np
import pytest
from pages.conftest import SCRIPT

from tokenmill import BatchLoader, from_array
from tokenmill.edits import Add, Skip
from tokenmill.pages.report import report
from tokenmill.train.run_page import make_run_page, trained_part

BROWSER, DRIVER = Path("/usr/bin/chromium"), Path("/usr/bin/chromedriver")
FLAGS = [
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--window-size=1200,900",
]


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    for program in (BROWSER, DRIVER):
        if not program.exists():
            pytest.skip(f"{program} is not installed: the pages were not tried in a browser")
    webdriver = pytest.importorskip("selenium.webdriver", reason="selenium is not installed")
    options = webdriver.ChromeOptions()
    options.binary_location = str(BROWSER)
    for flag in [*FLAGS, f"--user-data-dir={tmp_path_factory.mktemp('browser')}"]:
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    service = webdriver.ChromeService(str(DRIVER))
    driver = webdriver.Chrome(options=options, service=service)
    driver.set_page_load_timeout(60)
    yield driver
    driver.quit()


def console(browser) -> list[str]:
    return [entry["message"] for entry in browser.get_log("browser")]


def colours(png: bytes) -> int:
    """How many different rows a picture has: a blank page has one."""
    file, data = io.BytesIO(png[8:]), b""
    while head := file.read(8):
        size, kind = struct.unpack(">I4s", head)
        chunk = file.read(size + 4)[:-4]
        if kind == b"IHDR":
            width, height, _, colour = struct.unpack(">IIBB", chunk[:10])
        data += chunk if kind == b"IDAT" else b""
    rows, step = zlib.decompress(data), 1 + width * {2: 3, 6: 4}[colour]
    return len({rows[i * step : (i + 1) * step] for i in range(height)})


def find(browser, selector: str) -> list:
    return browser.find_elements("css selector", selector)


def wait_for_address(browser, end: str) -> None:
    """Until the page that was asked for is there."""
    from selenium.webdriver.support.ui import WebDriverWait

    there = "return document.readyState == 'complete' && location.href.includes(arguments[0])"
    WebDriverWait(browser, 60).until(lambda _: browser.execute_script(there, end))


def dark(browser, wanted: bool) -> None:
    feature = {"name": "prefers-color-scheme", "value": "dark" if wanted else "light"}
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [feature]})


def background(browser) -> str:
    script = "return getComputedStyle(document.body).backgroundColor"
    return browser.execute_script(script)


@contextlib.contextmanager
def phone(browser):
    """A screen of 390 pixels, for as long as the block lasts."""
    screen = {"width": 390, "height": 844, "deviceScaleFactor": 2, "mobile": True}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", screen)
    try:
        yield
    finally:
        browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


def overflow(browser) -> int:
    """How many pixels of the page are beyond the right edge."""
    return browser.execute_script("return document.documentElement.scrollWidth - innerWidth")


def label_sizes(browser) -> list[float]:
    """The size in pixels on the screen of every label of a plot that is shown."""
    return browser.execute_script(
        "return [...document.querySelectorAll('svg text')].filter(t => t.getClientRects().length)"
        ".map(t => parseFloat(getComputedStyle(t).fontSize) * t.getScreenCTM().a)"
    )


def labels_that_overlap(browser) -> list[str]:
    """Pairs of labels of one plot that cover each other."""
    return browser.execute_script(
        "const found = [];"
        "for (const svg of document.querySelectorAll('svg')) {"
        "  const labels = [...svg.querySelectorAll('text')].filter(t => t.getClientRects().length);"
        "  const boxes = labels.map(t => t.getBoundingClientRect());"
        "  boxes.forEach((a, i) => boxes.slice(i + 1).forEach((b, j) => {"
        "    const beside = a.left >= b.right || b.left >= a.right;"
        "    if (!beside && a.top + 3 < b.bottom && b.top + 3 < a.bottom)"
        "      found.push(labels[i].textContent + ' | ' + labels[i + 1 + j].textContent);"
        "  }));"
        "}"
        "return found;"
    )


def test_the_labels_of_plots_can_be_read_on_a_phone(browser, folder, tmp_path):
    path = tmp_path / "report.html"
    path.write_text(report(str(folder)))
    with phone(browser):
        browser.get(path.as_uri())
        sizes = label_sizes(browser)

        assert len(sizes) > 5
        assert min(sizes) >= 10
        assert labels_that_overlap(browser) == []
        assert overflow(browser) <= 0
    browser.get(path.as_uri())
    assert min(label_sizes(browser)) >= 10
    assert labels_that_overlap(browser) == []


def edited_run():
    """What the page of a run says about its data, after two edits."""
    web, code = (from_array(np.arange(n, dtype=np.uint16)) for n in (9000, 5000))
    loader = BatchLoader(web, batch_size=8, block_size=16)
    loader.edit(Skip(steps=(40, 60)))
    loader.edit(Add("code", code, weights={"data": 3, "code": 1}), at=200, note=SCRIPT.decode())
    loader.load_state_dict({**loader.state_dict(), "samples": 3200}, sources={"code": code})
    return trained_part(loader)


def test_the_page_of_a_run_can_be_read_on_a_phone(browser, tmp_path):
    train = [(step, 9 / step + 0.2 * (step % 3)) for step in range(1, 400)]
    losses = {"training": train, "val": train[::40]}
    named = {f"val_{name}": train[::50] for name in ("code", "law", "a_name_that_is_very_long")}
    rows = [{"step": 399, "sample": SCRIPT.decode() + "words " * 80}]
    settings = {"max_iters": 400, "x": "y" * 99}
    page = make_run_page("a model", losses | named, rows, settings, edited_run())
    path = tmp_path / "run.html"
    path.write_text(page)
    for screen in (phone(browser), contextlib.nullcontext()):
        with screen:
            browser.get(path.as_uri())

            assert min(label_sizes(browser)) >= 10
            assert labels_that_overlap(browser) == []
            assert overflow(browser) <= 0
            names = [cell.text for cell in find(browser, "tbody td:first-child")]
            assert names[:5] == [*losses, *named]
            numbers = find(browser, "td.number")
            assert {cell.value_of_css_property("white-space") for cell in numbers} == {"nowrap"}
            assert len(find(browser, "polygon")) == 2
            assert [each.text for each in find(browser, ".edit-number")] == ["1", "2"]
            assert browser.title == "a model - tokenmill run"  # the sample is text, and not run
    assert console(browser) == []


def test_the_navigation_is_small_on_a_phone(browser, client):
    with phone(browser):
        for page in ("", "documents", "batch"):
            browser.get(f"{client.server.address}{page}")
            header = find(browser, "body > header")[0]

            assert header.size["height"] <= 96
            assert overflow(browser) <= 0
            for selector in ("nav.splits a", "input[type=search]", "header .name"):
                box = find(browser, selector)[0].rect
                assert box["width"] > 0
                assert box["x"] + box["width"] <= 390
    assert console(browser) == []


def test_documents_are_shown_and_lead_to_a_document(browser, client, texts):
    browser.get(f"{client.server.address}documents")
    assert len(find(browser, "table.documents tbody tr")) == 50
    assert colours(browser.get_screenshot_as_png()) > 100
    find(browser, "table.documents a.number")[4].click()

    assert find(browser, "h1")[0].text == "Document 4"
    shown = find(browser, ".tokens")[0].text.replace("\u00b7", " ").replace("\u21b5", "")
    assert texts[4].decode().split("\n")[0] in shown
    (special,) = find(browser, ".special")
    assert special.is_displayed()
    assert colours(browser.get_screenshot_as_png()) > 100
    assert console(browser) == []


def test_a_script_is_shown_and_not_run(browser, client):
    browser.get(f"{client.server.address}document?n=2")

    assert browser.title == "Document 2 - corpus"
    shown = find(browser, ".tokens")[0].text.replace("\u00b7", " ")
    assert SCRIPT.decode().strip() in shown
    assert not find(browser, "main script, main img")
    assert console(browser) == []


def test_script_put_into_the_page_by_other_means_is_not_run_either(browser, client):
    browser.get(f"{client.server.address}documents")

    browser.execute_script(
        "const script = document.createElement('script');"
        "script.textContent = 'document.title = \"run\"';"
        "document.body.append(script);"
    )

    assert browser.title != "run"
    assert any("Content Security Policy" in message for message in console(browser))


def test_the_token_under_the_pointer_is_explained(browser, client):
    from selenium.webdriver import ActionChains

    browser.get(f"{client.server.address}document?n=4")
    token = find(browser, ".tokens .t")[0]

    ActionChains(browser).move_to_element(token).perform()

    assert find(browser, "#inspector")[0].is_displayed()
    assert f"id {int(token.get_attribute('data-id')):,}" in find(browser, "#inspector")[0].text
    assert console(browser) == []


def test_a_batch_is_shown_by_its_form(browser, client):
    browser.get(f"{client.server.address}batch")
    field = find(browser, "form.settings input[name=step]")[0]
    field.clear()
    field.send_keys("7")
    field.submit()
    wait_for_address(browser, "step=7")

    assert find(browser, "h1")[0].text == "Batch of step 7"
    assert len(find(browser, "article")) == 8
    assert find(browser, "svg.strip rect")
    assert find(browser, "a.edge")
    assert colours(browser.get_screenshot_as_png()) > 100
    assert console(browser) == []


def test_keys_lead_on(browser, client):
    browser.get(f"{client.server.address}documents")

    find(browser, "body")[0].send_keys("n")

    wait_for_address(browser, "n=50")
    assert console(browser) == []


def test_pages_are_light_and_dark(browser, client):
    browser.get(client.server.address)
    seen = []
    for wanted in (False, True):
        dark(browser, wanted)
        seen.append(background(browser))
    dark(browser, False)

    assert seen[0] != seen[1]


def test_a_report_opens_from_a_file(browser, folder, tmp_path):
    path = tmp_path / "report.html"
    path.write_text(report(str(folder)))

    browser.get(path.as_uri())

    assert find(browser, "h1")[0].text == "corpus"
    assert len(find(browser, "svg rect.bar")) > 20
    widths = [bar.size["width"] for bar in find(browser, "svg rect.bar")]
    assert max(widths) > 100
    assert len(find(browser, ".mark.good")) >= 5
    assert colours(browser.get_screenshot_as_png()) > 100
    width = browser.execute_script("return document.documentElement.scrollWidth - innerWidth")
    assert width <= 0
    assert console(browser) == []
