"""The site: `make docs` runs the gallery, reads the docstrings and writes docs/_build/html."""

import html
import io
import os
import re
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "src")]
os.environ.update(OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1")  # all is small here: threads wait for each other

import matplotlib  # noqa: E402
import numpy as np  # noqa: E402
import torch  # noqa: E402
from matplotlib import image, mathtext  # noqa: E402
from matplotlib.font_manager import FontProperties  # noqa: E402
from sphinx.domains.python import PyObject  # noqa: E402
from sphinx.ext.napoleon import GoogleDocstring  # noqa: E402
from sphinx.util.docutils import nodes  # noqa: E402
from sphinx_gallery import gen_rst  # noqa: E402
from sphinx_gallery.utils import scale_image  # noqa: E402

import rayhull  # noqa: E402

rayhull.paper_layer.__name__ = "paper_layer"  # classes with a function's name, documented under it
rayhull.distributions.polyhedron.__name__ = "polyhedron"

project, author, copyright = "rayhull", "The rayhull developers", "2026, the rayhull developers"
version = release = rayhull.__version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.intersphinx",
    "sphinx.ext.napoleon",
    "sphinx_copybutton",
    "sphinx_gallery.gen_gallery",
]
myst_enable_extensions = ["colon_fence"]
myst_heading_anchors = 3
suppress_warnings = ["config.cache"]  # the gallery's sorter cannot be pickled
intersphinx_mapping = {}  # no look-ups: the site builds without a network
templates_path = ["_templates"]  # of a class: our methods, without those of nn.Module
exclude_patterns = ["_build", "gallery/**/*.ipynb", "gallery/**/*.py"]
autodoc_member_order = "alphabetical"
autodoc_typehints = "signature"
napoleon_use_ivar = True  # a class's "Attributes" are a list, beside the properties' own entries
GoogleDocstring._parse_attribute_docstring = lambda self: self._consume_to_end()  # "A colon: in a property" is no type
copybutton_exclude = ".linenos, .gp, .go"


def fresh_torch(_: object, __: str) -> None:
    """Each script of the gallery starts as if it ran alone."""
    torch.set_default_dtype(torch.float32)
    torch.manual_seed(0)


def one_panel(source: str, target: str, *size: int) -> None:
    """A thumbnail that one can read: of a wide figure the last panel, after the last of its wide gaps."""
    picture = image.imread(source)
    height, width = picture.shape[:2]
    empty = np.flatnonzero((picture[..., :3] > 0.98).all((0, 2)))  # columns of pixels
    gaps = [gap for gap in np.split(empty, np.flatnonzero(np.diff(empty) > 1) + 1) if len(gap)]
    inner = [gap for gap in gaps if 0.4 < gap[-1] / width < 0.8]
    if width > 1.8 * height and inner:
        wide = [gap for gap in inner if 2 * len(gap) >= max(map(len, inner))]
        picture = picture[:, wide[-1][-1] - 5 :]
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
    "write_computation_times": False,
    "download_all_examples": False,
    "image_scrapers": ("matplotlib",),
    "reset_modules": ("matplotlib", fresh_torch),
}

html_theme = "furo"
html_math_renderer = "svg"  # drawn when the site is built: no script, nothing from elsewhere
html_title = "rayhull"
pygments_dark_style = "github-dark"  # modules are not blue and underlined, as if they were links
html_static_path = ["_static"]
html_css_files = ["rayhull.css"]
html_theme_options = {"navigation_with_keys": True}


def mend_text(_: Any, __: str, source: list[str]) -> None:
    """Numbers stay on one line with their units and exponents, and code does not end in an empty line."""
    code = r"(```.*?^ *```$|`[^`\n]*`|^#[^\n]*$|\]\([^)]*\))"  # as it stands; headings and links, for their anchors
    parts = re.split(code, source[0], flags=re.DOTALL | re.MULTILINE)
    parts[::2] = [_unbroken(text) for text in parts[::2]]
    source[0] = re.sub(r"\n\n```$", "\n```", "".join(parts), flags=re.MULTILINE)


def _unbroken(text: str) -> str:
    text = re.sub(r"(?<=\de)-(?=\d)", "\N{NON-BREAKING HYPHEN}", text)
    return re.sub(r"(?<=\d) (?=%|±)|(?<=±) ", "\N{NO-BREAK SPACE}", text)


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


IN_MATHTEXT = {
    r"\le ": r"\leq ",
    r"\ge ": r"\geq ",
    r"\tfrac12": r"\frac{1}{2}",
    r"\tfrac": r"\frac",
    r"\iff": r"\Leftrightarrow",
}
IN_MATHTEXT |= {r"\Bigl": r"\left", r"\Bigr": r"\right"}


def formula(tex: str) -> str:
    """A formula as SVG in the colour of the text, by matplotlib; its alternative text is the formula itself."""
    for latex, ours in IN_MATHTEXT.items():
        tex = tex.replace(latex, ours)
    with matplotlib.rc_context({"svg.hashsalt": tex, "mathtext.fontset": "cm", "savefig.transparent": True}):
        buffer = io.BytesIO()
        drawn, size = f"${' '.join(tex.split())}$", FontProperties(size=13)
        depth = mathtext.math_to_image(drawn, buffer, prop=size, dpi=72, format="svg", color="#123456")
    svg = buffer.getvalue().decode().partition("<svg")[2].replace("#123456", "currentColor")
    place = f'role="img" aria-label="{html.escape(tex)}" style="vertical-align: -{depth:.1f}pt; overflow: visible"'
    return f"<svg {place}{svg}"


def draw_inline(self: Any, node: nodes.Element) -> None:
    """``:math:`` within a line."""
    self.body.append(formula(node.astext()))
    raise nodes.SkipNode


def draw_display(self: Any, node: nodes.Element) -> None:
    """``.. math::`` on a line of its own."""
    self.body.append(f'<div class="math">{formula(node.astext())}</div>')
    raise nodes.SkipNode


def setup(app: Any) -> None:
    """Called by Sphinx."""
    if (ROOT / "docs" / "_static" / "page").exists():  # built by `make page`, where there is Node.js
        app.tags.add("page")
    for field in PyObject.doc_field_types:
        if field.name == "variable":  # what Sphinx calls "Variables" of a class
            field.label = "Attributes"
    app.connect("source-read", mend_links)
    app.connect("source-read", mend_text)
    app.add_html_math_renderer("svg", (draw_inline, None), (draw_display, None))
