"""The site: `make docs` runs the gallery, reads the docstrings and writes docs/_build/html."""

import os
import re
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "src")]
os.environ.update(OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1")  # all is small here: threads wait for each other

import torch  # noqa: E402

import rayhull  # noqa: E402

project, author, copyright = "rayhull", "The rayhull developers", "2026, the rayhull developers"
version = release = rayhull.__version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.intersphinx",
    "sphinx.ext.mathjax",
    "sphinx.ext.napoleon",
    "sphinx_copybutton",
    "sphinx_gallery.gen_gallery",
]
myst_enable_extensions = ["dollarmath", "colon_fence"]
myst_heading_anchors = 3
suppress_warnings = ["config.cache"]  # the gallery's sorter cannot be pickled
intersphinx_mapping = {}  # no look-ups: the site builds without a network
exclude_patterns = ["_build", "gallery/**/*.ipynb", "gallery/**/*.py"]
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
copybutton_exclude = ".linenos, .gp, .go"


def fresh_torch(_: object, __: str) -> None:
    """Each script of the gallery starts as if it ran alone."""
    torch.set_default_dtype(torch.float32)
    torch.manual_seed(0)


sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "gallery",
    "filename_pattern": r"\.py$",
    "ignore_pattern": r"__init__\.py|GALLERY_HEADER",
    "within_subsection_order": "ExampleTitleSortKey",
    "remove_config_comments": True,
    "min_reported_time": 5,
    "abort_on_example_error": True,
    "show_memory": False,
    "download_all_examples": False,
    "matplotlib_animations": (True, "jshtml"),
    "image_scrapers": ("matplotlib",),
    "reset_modules": ("matplotlib", fresh_torch),
}

html_theme = "furo"
html_title = "rayhull"
html_static_path = ["_static"]
html_css_files = ["rayhull.css"]
html_theme_options = {"navigation_with_keys": True}


def mend_links(app: Any, docname: str, source: list[str]) -> None:
    """Links that are right in the repository, on the site: a file outside of docs/ is named, not linked."""
    page = Path(app.env.doc2path(docname))
    if docname == "contributing":  # the repository's own file, seen from its root
        source[0] = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8").replace("](docs/", "](")
    elif page.suffix == ".md":
        source[0] = re.sub(r"(?<!!)\[([^\]]+)\]\((\.\./[^)#]+)\)", lambda link: _inside(page, link), source[0])


def _inside(page: Path, link: re.Match[str]) -> str:
    target = (page.parent / link[2]).resolve()
    if target.is_relative_to(ROOT / "docs"):
        return link[0]
    if target == ROOT / "CONTRIBUTING.md":
        return f"[{link[1]}](/contributing.md)"
    place = target.relative_to(ROOT).as_posix()
    return f"`{place}`" if link[1].strip("`") == place else f"{link[1]} (`{place}`)"


def setup(app: Any) -> None:
    """Called by Sphinx."""
    if (ROOT / "docs" / "_static" / "page").exists():  # built by `make page`, where there is Node.js
        app.tags.add("page")
    app.connect("source-read", mend_links)
