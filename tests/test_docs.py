"""Everything written in the documentation is run: Python, commands, what they print, settings, links and names.

The conventions of a page:

- `python` blocks are run in order, in one namespace and one temporary folder; `sh` blocks hold commands of supportmatch
  alone, which are run in the same folder. A comment `# exit code N` says what a command ends with, if not with 0.
- A `text` block after a comment `<!-- output -->` is what the block before it prints. `...` stands for anything, and
  decimal numbers may differ a little, because training is not the same on every machine.
- A `toml` block holds settings that are valid. Whatever cannot be run here is `text`.
"""

from __future__ import annotations

import io
import re
import shlex
import subprocess
import sys
import warnings
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pandas as pd  # noqa: F401  # first: `supportmatch audit` keeps it from being imported where it is not there yet
import pytest
import typer.main

import supportmatch
from supportmatch import cli
from supportmatch.config import PRESETS, Config, read_config

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = sorted(path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md") if "_build" not in path.parts)
SLOW = {
    "tutorial.md": "fits on all of Adult",
    "how-to/own_images.md": "trains on pictures",
    "how-to/many_machines.md": "starts sweeps",
}
NOT_RUN = {"experiments.md": "its commands take hours; their options are checked instead"}
RUN, SETTINGS, SHOWN = ("python", "sh"), ("toml",), ("text",)
TOLERANCE = 0.06
"""Of decimal numbers that are printed."""
GENERATED = re.compile(r"^\{(toctree|eval-rst|stage-settings|preset-differences|command-help)\}$")


@dataclass(frozen=True)
class Block:
    language: str
    text: str
    line: int
    output: str | None = None


def read(page: str) -> str:
    return (DOCS / page).read_text(encoding="utf-8")


def blocks_of(page: str) -> list[Block]:
    """Return the fenced blocks of a page, each with what is said to be its output."""
    text = read(page)
    found: list[Block] = []
    for match in re.finditer(
        r"^(<!-- output -->\n+)?(`{3,})([^\n`]*)\n(.*?)^\2$", text, flags=re.DOTALL | re.MULTILINE
    ):
        is_output, _, language, content = match.groups()
        line = text.count("\n", 0, match.start(4)) + 1
        if is_output:
            assert found, f"{page}:{line} shows the output of nothing"
            assert found[-1].language in RUN, f"{page}:{line} shows the output of something that is not run"
            assert language == "text", f"{page}:{line} is output and must be text"
            found[-1] = Block(found[-1].language, found[-1].text, found[-1].line, content)
        else:
            found.append(Block(language.strip(), content, line))
    return found


def prose_of(page: str) -> str:
    """Return a page without its fenced blocks and comments."""
    text = re.sub(r"^(`{3,})[^\n]*\n.*?^\1$", "", read(page), flags=re.DOTALL | re.MULTILINE)
    return re.sub(r"<!--.*?-->", "", text, flags=re.DOTALL)


def commands_of(block: Block) -> list[tuple[list[str], int]]:
    """Return the arguments of each command and the exit code that it is said to have."""
    commands = []
    for line in block.text.replace("\\\n", " ").splitlines():
        words = shlex.split(line, comments=True)
        if words:
            code = re.search(r"# exit code (\d+)\s*$", line)
            commands.append((words, int(code[1]) if code else 0))
    return commands


def run_command(words: list[str], expected: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run a command in this process: starting a new one takes longer than most of them."""
    monkeypatch.setattr(sys, "argv", words)
    code: Any = 0
    try:
        cli.main()
    except SystemExit as error:
        code = error.code or 0
    assert code == expected, f"{shlex.join(words)} ended with {code}"


def run_page(page: str, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Run a page's blocks in the present folder; return the names that its Python left."""
    names: dict[str, Any] = {"__name__": "__main__"}
    for block in blocks_of(page):
        if block.language not in RUN:
            continue
        printed = io.StringIO()
        with redirect_stdout(printed), redirect_stderr(printed):
            if block.language == "python":
                exec(compile("\n" * (block.line - 1) + block.text, page, "exec"), names)
            else:
                for words, code in commands_of(block):
                    run_command(words, code, monkeypatch)
        if block.output is not None:
            where = f"{page}:{block.line}"
            assert is_same(printed.getvalue(), block.output), f"{where} printed\n{printed.getvalue()}"
    return names


def is_same(printed: str, shown: str) -> bool:
    """Tell whether a text is what a page shows, up to white space, `...` and small differences of decimal numbers."""
    pieces = re.split(r"(\.\.\.|\d+\.\d+|\s+)", shown.strip())
    pattern = ""
    for piece in pieces:
        if piece == "...":
            pattern += ".*?"
        elif re.fullmatch(r"\d+\.\d+", piece):
            pattern += r"(\d+\.\d+)"
        else:
            pattern += r"\s+" if piece.isspace() else re.escape(piece)
    match = re.fullmatch(pattern, printed.strip(), flags=re.DOTALL)
    wanted = [float(number) for number in re.findall(r"\d+\.\d+", shown)]
    return match is not None and all(
        abs(float(number) - other) <= TOLERANCE for number, other in zip(match.groups(), wanted, strict=True)
    )


def runnable() -> list[Any]:
    pages = [page for page in PAGES if page not in NOT_RUN and any(b.language in RUN for b in blocks_of(page))]
    return [pytest.param(page, marks=pytest.mark.slow) if page in SLOW else page for page in pages]


@pytest.mark.parametrize("page", runnable())
def test_every_block_of_a_page_runs_and_prints_what_the_page_shows(
    page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        run_page(page, monkeypatch)


@pytest.mark.parametrize("page", PAGES)
def test_a_page_has_blocks_of_known_languages_only(page: str) -> None:
    for block in blocks_of(page):
        known = block.language in (*RUN, *SETTINGS, *SHOWN) or GENERATED.match(block.language.split(" ")[0])
        assert known, f"{page}:{block.line} is {block.language!r}"
        if block.language == "sh" and page not in NOT_RUN:
            assert {words[0] for words, _ in commands_of(block)} == {"supportmatch"}, f"{page}:{block.line}"


@pytest.mark.parametrize("page", PAGES)
def test_settings_on_a_page_are_valid(page: str, tmp_path: Path) -> None:
    for block in blocks_of(page):
        if block.language in SETTINGS:
            (tmp_path / "settings.toml").write_text(block.text)
            assert read_config(tmp_path / "settings.toml", Config()) != Config(), f"{page}:{block.line}"


def test_the_commands_of_the_experiments_have_options_that_exist() -> None:
    checked = 0
    for block in blocks_of("experiments.md"):
        for words, _ in commands_of(block) if block.language == "sh" else ():
            if words[0] == "supportmatch":
                assert words[1] == "bench"
                command: Any = typer.main.get_command(cli.app)
                for word in words[1:3]:
                    command = command.commands[word]
                command.make_context(words[2], words[3:])
                checked += 1
    assert checked > 20


def anchors_of(page: str) -> set[str]:
    """Return the anchors of a page's headings, as GitHub and the site make them."""
    headings = re.findall(
        r"^#+ (.*)$", re.sub(r"^(`{3,}).*?^\1$", "", read(page), flags=re.DOTALL | re.MULTILINE), re.M
    )
    return {re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES)
def test_every_link_and_picture_of_a_page_is_there(page: str) -> None:
    for target in re.findall(r"\]\(([^()\s]+)\)", prose_of(page)):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = target.partition("#")
        place = (DOCS / page).parent / path if path else DOCS / page
        assert place.is_file(), f"{page} links to {target}"
        if anchor:
            assert anchor in anchors_of(place.resolve().relative_to(DOCS).as_posix()), f"{page} links to {target}"


@pytest.mark.parametrize("page", PAGES)
def test_every_picture_has_a_text_for_those_who_cannot_see_it(page: str) -> None:
    for text in re.findall(r"!\[([^\]]*)\]\(", prose_of(page)):
        assert len(text.split()) >= 5, f"{page}: {text!r}"


@pytest.mark.parametrize("page", PAGES)
def test_every_name_of_the_package_on_a_page_exists(page: str) -> None:
    for name in set(re.findall(r"`(supportmatch(?:\.\w+)+)`", prose_of(page))):
        found: Any = supportmatch
        path = "supportmatch"
        for part in name.split(".")[1:]:
            path = f"{path}.{part}"
            if not hasattr(found, part):
                import_module(path)
            found = getattr(found, part)


def test_the_reference_has_every_public_name_every_setting_every_preset_and_every_command() -> None:
    named = set(re.findall(r"^\.\. auto\w+:: supportmatch\.(\w+)$", read("reference/python.md"), re.MULTILINE))
    assert named >= set(supportmatch.__all__)
    stages = re.findall(r"\{stage-settings\} (\w+)", read("reference/configuration.md"))
    assert stages == [field.annotation.__name__ for field in Config.model_fields.values() if field.annotation]
    presets = re.findall(r"\{preset-differences\} (\S+)", read("reference/configuration.md"))
    assert set(presets) == set(PRESETS)
    group: Any = typer.main.get_command(cli.app)
    commands = {name for name in group.commands if name != "bench"}
    commands |= {f"bench {name}" for name in group.commands["bench"].commands}
    assert set(re.findall(r"\{command-help\} (.+)$", read("reference/command_line.md"), re.MULTILINE)) == commands


def test_the_numbers_that_a_page_quotes_are_those_of_the_committed_results() -> None:
    evidence = read("experiments.md") + (ROOT / "benchmarks" / "trials" / "README.md").read_text(encoding="utf-8")
    for page in ("explanation/when_it_fails.md", "explanation/method.md", "harms_and_limits.md", "tutorial.md"):
        for number in re.findall(r"(?<![\d.])0?(\.\d{3})(?!\d)", prose_of(page)):
            assert number in evidence, f"{page} quotes 0{number}"


@pytest.mark.slow
@pytest.mark.skipif(any(find_spec(name) is None for name in ("sphinx", "myst_parser", "furo")), reason="extra docs")
def test_the_site_is_built_without_a_warning(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "sphinx", "-W", "-n", "--keep-going", "-q", "-b", "html", str(DOCS), str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "index.html").is_file()
