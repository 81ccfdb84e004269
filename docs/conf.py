"""The site: Markdown pages, the API from docstrings, and reference pages made from the objects they describe.

Build it with `sphinx-build -W -n --keep-going -b html docs docs/_build`. It needs no network.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, ClassVar

import tomli_w
import typer.main
from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.transforms import SphinxTransform
from sphinx.util.docutils import SphinxDirective

import supportmatch
from supportmatch import config as settings
from supportmatch.cli import app as command_line

project = "supportmatch"
author = "The supportmatch developers"
release = version = supportmatch.__version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
exclude_patterns = ["_build"]
default_role = "literal"  # docstrings put code between single backticks
nitpicky = True
# Other packages' names have no page to link to, for the site is built without a network.
nitpick_ignore_regex = [(r"py:.*", rf"({name})(\..*)?") for name in ("np", "numpy", "pd", "pandas", "sklearn", "torch")]
nitpick_ignore = [
    ("py:class", name)
    for name in (
        *("Array", "Features", "Ids", "Label", "Names"),  # explained at the top of the page
        "AbstractContextManager",
        "NDArray",
        "Path",
        "nn.Module",
        "pathlib.Path",
        "pydantic.main.BaseModel",
        "collections.abc.Iterable",
        "collections.abc.Mapping",
        "collections.abc.Sequence",
        "supportmatch.baselines.interface.BaselineT",
        "supportmatch.matching.EncoderPlayer",  # made by `fit`, as the next
        "supportmatch.data.inputs.FeatureReader",  # nobody builds one
    )
]

autodoc_member_order = "bysource"
autodoc_typehints_format = "short"
python_maximum_signature_line_length = 88
autodoc_default_options = {"members": True}
napoleon_google_docstring = True
napoleon_numpy_docstring = False

myst_enable_extensions = ["deflist"]
myst_heading_anchors = 4

html_theme = "furo"
html_title = "supportmatch"
html_show_sphinx = False
html_show_copyright = False

ROOT = Path(__file__).parents[1]


class RepositoryLinks(SphinxTransform):
    """Shows links to files of the repository that are no pages as code: there is nothing to link to on the site."""

    default_priority = 100

    def apply(self, **_: Any) -> None:
        """Replace every link that leads out of the folder of pages."""
        page = Path(self.env.doc2path(self.env.docname))
        for kind in (addnodes.download_reference, addnodes.pending_xref, nodes.reference):
            for link in list(self.document.findall(kind)):
                target = str(link.get("reftarget") or link.get("refuri") or "")
                place = (page.parent / target.partition("#")[0]).resolve()
                outside = place.is_relative_to(ROOT) and not place.is_relative_to(ROOT / "docs")
                if re.match(r"\w+:", target) or target.startswith("#") or not outside:
                    continue
                if not place.exists():
                    place = place.with_name(f"{place.name}.md")  # whose suffix a link between pages loses
                path, text = place.relative_to(ROOT).as_posix(), link.astext()
                said: list[nodes.Node] = [nodes.literal(path, path)]
                if text not in (path, target):
                    said = [nodes.Text(f"{text} ("), *said, nodes.Text(")")]
                link.replace_self(said)


class Generated(SphinxDirective):
    """A part of a page that is written here, as Markdown, from the object that it describes."""

    has_content = False
    required_arguments = 1
    final_argument_whitespace = True

    def run(self) -> list[nodes.Node]:
        """Return the parsed Markdown."""
        return self.parse_text_to_nodes(self.write(self.arguments[0]))

    def write(self, name: str) -> str:
        """Return Markdown about the object of that name."""
        raise NotImplementedError


class StageSettings(Generated):
    """The settings of one stage: every field with what it may be, its default and its docstring."""

    def write(self, name: str) -> str:
        """Return Markdown about a class of `supportmatch.config`."""
        schema = getattr(settings, name).model_json_schema()
        parts = [f"````{{py:class}} supportmatch.config.{name}\n{schema['description']}"]
        for field, about in schema["properties"].items():
            default = about.get("default")
            is_stage = "$ref" in about
            shown = (
                "" if is_stage else f"; default `{_toml(default)}`" if default is not None else "; not set by default"
            )
            parts.append(f"`{field}` ({_kind(about)}{shown})\n: {_flat(about['description'])}")
        return "\n\n".join([*parts, "````"])


class PresetDifferences(Generated):
    """What a preset changes from the defaults of the stages."""

    def write(self, name: str) -> str:
        """Return Markdown about a preset."""
        changed = _differences(settings.preset(name).model_dump(mode="json"), settings.Config().model_dump(mode="json"))
        if not changed:
            return "Nothing differs from the defaults above."
        return f"```toml\n{tomli_w.dumps(changed).strip()}\n```"


class CommandHelp(Generated):
    """The help of a command, from the command itself."""

    skipped: ClassVar = ("--help",)

    def write(self, name: str) -> str:
        """Return Markdown about a command such as `bench run`."""
        command: Any = typer.main.get_command(command_line)
        for word in name.split():
            command = command.commands[word]
        with command.make_context(f"supportmatch {name}", [], resilient_parsing=True) as context:
            usage = " ".join(command.get_usage(context).removeprefix("Usage: ").split())
            parts = [str(command.help).strip(), f"```text\n{usage}\n```"]
            for parameter in command.get_params(context):
                record = parameter.get_help_record(context)
                if record is None:  # it is hidden
                    continue
                option, text = record
                if parameter.opts[0] not in self.skipped:
                    parts.append(f"`{option}`\n: {_escape(text)}")
        return "\n\n".join(parts)


def _kind(about: dict[str, Any]) -> str:
    """Say in words what a setting may be."""
    if "anyOf" in about:
        (about,) = (kind for kind in about["anyOf"] if kind.get("type") != "null")
    if "$ref" in about:
        return f"the fields of {about['$ref'].rpartition('/')[2]}"
    if "enum" in about:
        return " or ".join(f"`{_toml(value)}`" for value in about["enum"])
    if about["type"] == "array":
        return f"list, each {_kind(about['items'])}"
    name = {"integer": "whole number", "number": "number", "boolean": "true or false", "string": "text"}[about["type"]]
    limits = {"exclusiveMinimum": "above", "minimum": "at least"}
    return ", ".join([name, *(f"{word} {about[limit]:g}" for limit, word in limits.items() if limit in about)])


def _differences(values: dict[str, Any], others: dict[str, Any]) -> dict[str, Any]:
    """Return what differs; TOML has no word for None, which no preset sets over a default."""
    found = {}
    for name, value in values.items():
        if isinstance(value, dict):
            value = _differences(value, others[name])  # noqa: PLW2901
            if value:
                found[name] = value
        elif value != others[name]:
            found[name] = value
    return found


def _toml(value: Any) -> str:
    """Return a value as TOML, on one line."""
    if isinstance(value, list):
        return f"[{', '.join(map(_toml, value))}]"
    return tomli_w.dumps({"value": value}).partition("= ")[2].strip()


def _flat(text: str) -> str:
    return " ".join(text.split())


def _escape(text: str) -> str:
    return re.sub(r"([\[\]*_<>])", r"\\\1", _flat(text))


def _skip(_: Sphinx, what: str, name: str, __: object, skip: bool, ___: object) -> bool | None:
    """Leave out what scikit-learn adds to every estimator."""
    return True if name.startswith("set_") and name.endswith("_request") else None


_KEPT: dict[str, list[str]] = {}


def _hide_attribute(_: Sphinx, what: str, name: str, __: object, ___: object, lines: list[str]) -> None:
    """Hide docstrings of attributes from napoleon, which takes the text before a colon for a type."""
    if what in ("attribute", "property"):
        _KEPT[name] = lines[:]
        lines[:] = [""]


def _show_attribute(_: Sphinx, what: str, name: str, __: object, ___: object, lines: list[str]) -> None:
    if what in ("attribute", "property"):
        lines[:] = _KEPT.pop(name)


def _shorten(
    _: Sphinx, __: str, ___: str, ____: object, _____: object, signature: str | None, returned: str | None
) -> tuple[str | None, str | None]:
    """Call long types by the names that the page explains."""

    def shorten(text: str | None) -> str | None:
        return None if text is None else _ALIAS.sub(lambda found: _ALIASES[found[0]], text)

    return shorten(signature), shorten(returned)


_ARRAY = "~numpy.ndarray[tuple[~typing.Any, ...], ~numpy.dtype[~{}]]"
_LABEL = "str | int | float | bool"
_ALIASES = {
    f"{_ARRAY.format('typing.Any')} | ~pandas.DataFrame": "Features",
    f"~collections.abc.Sequence[{_LABEL}] | {_ARRAY.format('typing.Any')}": "Names",
    f"~collections.abc.Sequence[{_LABEL}] | {_ARRAY.format('numpy.generic')}": "Names",
    _ARRAY.format("numpy.int64"): "Ids",
    _ARRAY.format("typing.Any"): "Array",
    _ARRAY.format("numpy.float64"): "Array",
    _ARRAY.format("numpy.float32"): "Array",
    _LABEL: "Label",
}
_ALIAS = re.compile("|".join(re.escape(long) for long in sorted(_ALIASES, key=len, reverse=True)))


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the transform and the directives."""
    app.add_transform(RepositoryLinks)
    app.add_directive("stage-settings", StageSettings)
    app.add_directive("preset-differences", PresetDifferences)
    app.add_directive("command-help", CommandHelp)
    app.connect("autodoc-skip-member", _skip)
    app.connect("autodoc-process-signature", _shorten)
    app.connect("autodoc-process-docstring", _hide_attribute, priority=1)
    app.connect("autodoc-process-docstring", _show_attribute, priority=999)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
