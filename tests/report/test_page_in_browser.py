"""The page works in a real browser, headless Chromium: tabs, themes, phone, print, and not a single request."""

from __future__ import annotations

import base64
import json
import os
import runpy
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from supportmatch.report.page import TABS, render_page
from supportmatch.sources import SourceGrid

pytestmark = pytest.mark.slow

make_content = runpy.run_path(str(Path(__file__).with_name("test_content.py")))["make_content"]

FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
MANY = SourceGrid(("declined", "deferred", "accepted"), tuple(f"a long name of subgroup {i} & more" for i in range(9)))


class Browser:
    """Chromium with one page open, and what it asked for and complained about."""

    def __init__(self, driver: Any, folder: Path) -> None:
        self.driver = driver
        self.folder = folder

    def open(
        self,
        page: str,
        *,
        fragment: str = "",
        width: int = 1200,
        dark: bool = False,
        media: str = "",
        script: bool = True,
    ) -> str:
        """Show a page as if for the first time, and return its URL."""
        path = self.folder / "report.html"
        path.write_text(page, encoding="utf-8")
        self.ask("Emulation.setScriptExecutionDisabled", value=not script)
        self.resize(width)
        self.prefer(dark=dark, media=media)
        self.driver.get("about:blank")
        self.requests(), self.complaints()  # forget those of other tests
        self.driver.get(path.as_uri() + fragment)
        return path.as_uri()

    def ask(self, command: str, **values: Any) -> Any:
        return self.driver.execute_cdp_cmd(command, values)

    def resize(self, width: int) -> None:
        self.ask("Emulation.setDeviceMetricsOverride", width=width, height=800, deviceScaleFactor=1, mobile=width < 600)

    def prefer(self, *, dark: bool, media: str = "") -> None:
        features = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
        self.ask("Emulation.setEmulatedMedia", media=media, features=features)

    def requests(self) -> list[str]:
        """Return every URL that was asked for since the last call."""
        messages = [json.loads(entry["message"])["message"] for entry in self.driver.get_log("performance")]
        return [m["params"]["request"]["url"] for m in messages if m["method"] == "Network.requestWillBeSent"]

    def complaints(self) -> list[str]:
        """Return what the console says since the last call."""
        return [entry["message"] for entry in self.driver.get_log("browser")]

    def all(self, selector: str) -> list[Any]:
        return list(self.driver.find_elements("css selector", selector))

    def one(self, selector: str) -> Any:
        return self.driver.find_element("css selector", selector)

    def run(self, script: str, *arguments: Any) -> Any:
        return self.driver.execute_script(script, *arguments)

    def press(self, *keys: str) -> None:
        from selenium.webdriver.common.action_chains import ActionChains

        ActionChains(self.driver).send_keys(*keys).perform()

    @property
    def shown(self) -> list[str]:
        """Names of the sections that can be seen."""
        return [name for name in TABS if self.one(f"#{name}").is_displayed()]

    @property
    def background(self) -> str:
        return str(self.run("return getComputedStyle(document.body).backgroundColor"))

    @property
    def focused(self) -> str:
        return str(self.run("return document.activeElement.id"))


def _not_here(reason: str) -> None:
    if "CI" in os.environ:
        pytest.fail(f"{reason}, but CI must open the page in a browser")
    pytest.skip(reason)


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    programs = [shutil.which(name) for name in ("chromium", "chromedriver")]
    if None in programs:
        _not_here("chromium or chromium-driver is not installed")
    try:
        from selenium.webdriver import Chrome, ChromeOptions
        from selenium.webdriver.chrome.service import Service
    except ImportError:
        _not_here("selenium is not installed")
    options = ChromeOptions()
    options.binary_location = programs[0]
    for flag in (*FLAGS, f"--user-data-dir={tmp_path_factory.mktemp('chromium')}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"performance": "ALL", "browser": "ALL"})
    driver = Chrome(options=options, service=Service(programs[1]))
    try:
        yield Browser(driver, tmp_path_factory.mktemp("page"))
    finally:
        driver.quit()


@pytest.fixture(scope="module", params=["images", "table"])
def page(request: pytest.FixtureRequest) -> str:
    return render_page(make_content(request.param))


def test_no_request_leaves_the_file_and_the_console_stays_empty(browser: Browser, page: str) -> None:
    url = browser.open(page)
    for name in TABS:
        browser.one(f"#tab-{name}").click()
    browser.one("#theme").click()
    asked = browser.requests()
    assert url in asked
    assert {address for address in asked if not address.startswith("data:")} == {url}
    assert browser.complaints() == []


def test_a_request_would_have_been_noticed(browser: Browser, page: str) -> None:
    browser.open(page.replace("<main>", '<main><img src="http://127.0.0.1:9/picture.png" alt="">'))
    assert any("127.0.0.1" in message for message in browser.complaints()), "the policy did not stop it"
    open_door = page.replace("img-src data:", "img-src *")
    browser.open(open_door.replace("<main>", '<main><img src="http://127.0.0.1:9/picture.png" alt="">'))
    assert "http://127.0.0.1:9/picture.png" in browser.requests()


def test_each_tab_shows_its_section_alone_with_every_figure_and_table(browser: Browser, page: str) -> None:
    browser.open(page)
    seen = 0
    for name in TABS:
        tab = browser.one(f"#tab-{name}")
        tab.click()
        assert browser.shown == [name]
        assert tab.get_attribute("aria-selected") == "true"
        assert browser.run("return location.hash") == f"#{name}"
        for element in browser.all(f"#{name} :is(figure, .table, svg, img, .tile)"):
            seen += 1
            size = element.rect
            assert element.is_displayed(), element.get_attribute("outerHTML")[:200]
            assert size["width"] > 60, element.get_attribute("outerHTML")[:200]
            assert size["height"] > 15, element.get_attribute("outerHTML")[:200]
        for picture in browser.all(f"#{name} img"):
            assert browser.run("return arguments[0].complete && arguments[0].naturalWidth > 0", picture)
    assert seen > 30


def test_text_in_charts_is_large_enough_and_inside(browser: Browser, page: str) -> None:
    browser.open(page, width=360)
    browser.one("#tab-training").click()
    measure = """return [...document.querySelectorAll("#training svg text")].map((text) => {
        const [own, chart] = [text.getBoundingClientRect(), text.closest("svg").getBoundingClientRect()];
        return [own.height, own.left - chart.left, chart.right - own.right, chart.bottom - own.bottom]; })"""
    sizes = browser.run(measure)
    assert len(sizes) > 20
    for height, left, right, below in sizes:
        assert height > 8.5
        assert min(left, right, below) > -2


def test_arrow_keys_home_and_end_move_between_tabs(browser: Browser, page: str) -> None:
    from selenium.webdriver.common.keys import Keys

    names = list(TABS)
    browser.open(page)
    browser.one("#tab-overview").click()
    steps = [
        (Keys.ARROW_RIGHT, 1),
        (Keys.ARROW_RIGHT, 2),
        (Keys.ARROW_LEFT, 1),
        (Keys.END, len(names) - 1),
        (Keys.ARROW_RIGHT, 0),
        (Keys.ARROW_LEFT, len(names) - 1),
        (Keys.HOME, 0),
    ]
    for key, expected in steps:
        browser.press(key)
        assert browser.shown == [names[expected]]
        assert browser.focused == f"tab-{names[expected]}"
        selected = [tab.get_attribute("id") for tab in browser.all('[role="tab"][aria-selected="true"]')]
        assert selected == [f"tab-{names[expected]}"]
    assert [tab.get_attribute("tabindex") for tab in browser.all('[role="tab"]')] == ["0"] + ["-1"] * 6
    browser.press(Keys.TAB)
    assert browser.focused == "overview", "after the tab comes its panel"


def test_tabs_and_panels_know_each_other(browser: Browser, page: str) -> None:
    browser.open(page)
    assert browser.one("#tabs").get_attribute("role") == "tablist"
    for name in TABS:
        assert browser.one(f"#tab-{name}").get_attribute("aria-controls") == name
        panel = browser.one(f"#{name}")
        assert (panel.get_attribute("role"), panel.get_attribute("aria-labelledby")) == ("tabpanel", f"tab-{name}")


def test_a_link_to_a_part_opens_its_tab(browser: Browser, page: str) -> None:
    browser.open(page, fragment="#results")
    assert browser.shown == ["results"]
    browser.open(page, fragment="#table-clusters")
    assert browser.shown == ["training"]
    browser.run("location.hash = '#limits'")
    assert browser.shown == ["limits"]
    browser.open(page, fragment="#nowhere")
    assert browser.shown == ["overview"]


def test_the_theme_switch_changes_the_background_and_is_remembered(browser: Browser, page: str) -> None:
    from selenium.webdriver.common.keys import Keys

    url = browser.open(page)
    browser.run("localStorage.clear()")
    browser.driver.get(url)
    button = browser.one("#theme")
    light = browser.background
    assert button.text == "Theme: auto"
    browser.prefer(dark=True)
    dark = browser.background
    assert light != dark, "auto follows the system"

    button.click()
    assert (button.text, browser.background) == ("Theme: light", light)
    browser.run("arguments[0].focus()", button)
    browser.press(Keys.ENTER)
    assert (button.text, browser.background) == ("Theme: dark", dark)
    browser.prefer(dark=False)
    assert browser.background == dark, "a choice counts more than the system"
    browser.driver.get(url)
    assert (browser.one("#theme").text, browser.background) == ("Theme: dark", dark)
    browser.run("arguments[0].focus()", browser.one("#theme"))
    browser.press(Keys.SPACE)
    assert (browser.one("#theme").text, browser.background) == ("Theme: auto", light)


def test_charts_follow_the_theme(browser: Browser, page: str) -> None:
    browser.open(page)
    colours = []
    for dark in (False, True):
        browser.prefer(dark=dark)
        script = """const style = (e) => getComputedStyle(document.querySelector(e));
            return [style("#training svg text").fill, style("#training svg path[style*=series-1]").stroke]"""
        colours.append(browser.run(script))
    assert all(light != dark for light, dark in zip(*colours, strict=True))


@pytest.mark.parametrize("width", [320, 360, 768])
@pytest.mark.parametrize("grid", [SourceGrid(("two", "four"), ("purple", "green")), MANY], ids=["few", "many"])
def test_no_page_scrolls_sideways(browser: Browser, width: int, grid: SourceGrid) -> None:
    attended = {"columns": [f"column {i}" for i in range(20)], "rows": [["x" * 60] * 20] * 3, "weights": [0.1] * 3}
    page = render_page(make_content("table", grid=grid, attended_rows=attended, title="averylongtitle" * 6))
    browser.open(page, width=width)
    for name in TABS:
        browser.one(f"#tab-{name}").click()
        assert browser.run("return document.documentElement.scrollWidth") <= width, name
    browser.one("#tab-representation").click()
    inside = browser.run(
        "const box = document.querySelector('#table-attended-rows .scroll');return box.scrollWidth > box.clientWidth"
    )
    assert inside, "a wide table scrolls in its box"


def test_print_shows_every_section_in_light_colours(browser: Browser, page: str) -> None:
    url = browser.open(page)
    browser.run("localStorage.setItem('supportmatch-theme', 'dark')")
    browser.driver.get(url)
    assert browser.shown == ["overview"]
    browser.prefer(dark=True, media="print")
    assert browser.shown == list(TABS)
    assert browser.background == "rgb(255, 255, 255)"
    assert browser.run("return getComputedStyle(document.body).color") == "rgb(29, 33, 38)"
    assert not browser.one("#tabs").is_displayed()
    assert not browser.one("#theme").is_displayed()
    browser.run("localStorage.clear()")
    assert base64.b64decode(browser.driver.print_page()).startswith(b"%PDF")


def test_without_javascript_everything_is_visible(browser: Browser, page: str) -> None:
    browser.open(page, script=False)
    try:
        assert browser.shown == list(TABS)
        assert not browser.one("#theme").is_displayed()
        assert browser.one("#tabs").get_attribute("role") is None
        assert [link.is_displayed() for link in browser.all("#tabs a")] == [True] * len(TABS)
    finally:
        browser.ask("Emulation.setScriptExecutionDisabled", value=False)


def test_names_from_data_do_not_run(browser: Browser) -> None:
    attack = "</script></style><script>document.title = 'taken'</script><img src=x onerror=\"document.title='taken'\">"
    grid = SourceGrid((attack, "four"), (f"{attack}2", "green"))
    url = browser.open(render_page(make_content("table", grid=grid, title=attack, findings=(attack,))))
    assert browser.driver.title != "taken"
    assert browser.complaints() == []
    assert set(browser.requests()) <= {url, "data:,"}
    assert attack in browser.one("h1").text


def test_a_report_that_lacks_most_parts_opens_without_complaint(browser: Browser) -> None:
    lacking = dict.fromkeys(("clusters", "codes", "reconstructions", "attention", "evaluation"))
    empty: dict[str, Any] = {"findings": (), "warnings": (), "history": (), "stages": (), "alternatives": ()}
    browser.open(render_page(make_content(**lacking, **empty, config={}, provenance={})))
    for name in TABS:
        browser.one(f"#tab-{name}").click()
        assert len(browser.one(f"#{name}").text) > 80
    assert browser.complaints() == []


def test_marks_of_the_legend_have_the_colours_of_their_points(browser: Browser) -> None:
    codes = make_content().codes
    group = np.arange(60) % 4
    browser.open(render_page(make_content(codes={**codes, "group": group})))
    browser.one("#tab-representation").click()
    script = """return [...document.querySelectorAll("#representation .legend .mark")].map(
        (mark) => getComputedStyle(mark).color)"""
    legend = browser.run(script)
    drawn = "#figure-codes-after-group g:is([style*='--series'], [style*='--muted'])"
    points = browser.run(f"""return [...document.querySelectorAll("{drawn}")].map(
        (group) => getComputedStyle(group)).map((style) => style.fillOpacity == 0 ? style.stroke : style.fill)""")
    assert len(set(legend[2:])) == 4
    assert set(legend[2:]) == set(points)
