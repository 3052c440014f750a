"""The site: `make docs` runs the gallery, reads the docstrings and writes docs/_build/html."""

import os
import re
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "src")]
os.environ.update(OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1")  # all is small here: threads wait for each other

import numpy as np  # noqa: E402
import torch  # noqa: E402
from matplotlib import image  # noqa: E402
from sphinx.ext.napoleon import GoogleDocstring  # noqa: E402
from sphinx_gallery import gen_rst  # noqa: E402
from sphinx_gallery.utils import scale_image  # noqa: E402

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
templates_path = ["_templates"]  # of a class: our methods, without those of nn.Module
exclude_patterns = ["_build", "gallery/**/*.ipynb", "gallery/**/*.py"]
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
napoleon_use_ivar = True  # a class's "Attributes" are a list, beside the properties' own entries
GoogleDocstring._parse_attribute_docstring = lambda self: self._consume_to_end()  # "A colon: in a property" is no type
copybutton_exclude = ".linenos, .gp, .go"


def fresh_torch(_: object, __: str) -> None:
    """Each script of the gallery starts as if it ran alone."""
    torch.set_default_dtype(torch.float32)
    torch.manual_seed(0)


def one_panel(source: str, target: str, *size: int) -> None:
    """A thumbnail that one can read: of a wide figure the last panel, after the widest gap before it."""
    picture = image.imread(source)
    height, width = picture.shape[:2]
    empty = np.flatnonzero((picture[..., :3] > 0.98).all((0, 2)))  # columns of pixels
    gaps = [gap for gap in np.split(empty, np.flatnonzero(np.diff(empty) > 1) + 1) if len(gap)]
    inner = [gap for gap in gaps if 0.4 < gap[-1] / width < 0.8]
    if width > 1.8 * height and inner:
        picture = picture[:, max(inner, key=len)[-1] - 5 :]
    image.imsave(target, np.ascontiguousarray(picture))
    scale_image(target, target, *size)


gen_rst.scale_image = one_panel
sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "gallery",
    "backreferences_dir": "gallery/backreferences",  # the pictures of the start page come by it
    "filename_pattern": r"\.py$",
    "ignore_pattern": r"__init__\.py|GALLERY_HEADER",
    "within_subsection_order": "ExampleTitleSortKey",
    "remove_config_comments": True,
    "min_reported_time": 5,
    "abort_on_example_error": True,
    "nested_sections": True,
    "show_memory": False,
    "download_all_examples": False,
    "image_scrapers": ("matplotlib",),
    "reset_modules": ("matplotlib", fresh_torch),
}

html_theme = "furo"
html_title = "rayhull"
pygments_dark_style = "github-dark"  # modules are not blue and underlined, as if they were links
html_static_path = ["_static"]
html_css_files = ["rayhull.css"]
html_theme_options = {"navigation_with_keys": True}


def mend_links(app: Any, docname: str, source: list[str]) -> None:
    """Links that are right in the repository, on the site: a file outside of docs/ is named, not linked."""
    page = Path(app.env.doc2path(docname))
    if docname in ("contributing", "changelog"):  # the repository's own files, seen from its root
        source[0] = (ROOT / f"{docname.upper()}.md").read_text(encoding="utf-8").replace("](docs/", "](")
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
