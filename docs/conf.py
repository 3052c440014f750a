"""The site: `make docs` runs the gallery, reads the docstrings and writes docs/_build/html."""

import os
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "src")]
os.environ.setdefault("OMP_NUM_THREADS", "1")  # the gallery's networks are tiny: threads would wait for each other

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
    "reset_modules": ("matplotlib", "seaborn"),
}

html_theme = "furo"
html_title = "rayhull"
html_static_path = ["_static"]
html_css_files = ["rayhull.css"]
html_theme_options = {"navigation_with_keys": True}
