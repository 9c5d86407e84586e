"""The documentation site: `make docs` builds it from the pages of this folder, the docstrings and the gallery."""

import sys
from pathlib import Path

import attnflow

sys.path[:0] = [str(Path(__file__).parent / "_extensions"), str(Path(__file__).parents[1])]

project = "attnflow"
author = copyright = "the attnflow developers"
version = release = attnflow.__version__
extensions = [
    "myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "gallery_pictures", "readable_docstrings",
    "mathtext_formulas", "arxiv_links", "notebook_pages",
]  # fmt: skip
smartquotes = False  # the prime of a derivative is no quotation mark
highlight_language = "none"  # what is not marked as Python or shell are formulas

# Links to headings are spelled as on code hosts, so that they work there too.
myst_heading_anchors = 3
myst_enable_extensions = ["attrs_inline", "dollarmath"]
html_math_renderer = "mathtext"

autodoc_member_order = "groupwise"
autodoc_preserve_defaults = True
# Docstrings say what is given and returned; types of arrays would fill the page.
autodoc_typehints = "none"
python_maximum_signature_line_length = 100
napoleon_google_docstring = False
napoleon_use_ivar = True
napoleon_attr_annotations = False
napoleon_use_rtype = False
# Types of NumPy, Matplotlib and Python have pages elsewhere, which this site does without.
# The default of a parameter that has none is nothing to read about.
nitpick_ignore = [("py:class", "attnflow.core.parameters.REQUIRED")]
nitpick_ignore_regex = [(r"py:.*", r"(?!attnflow\.).*")]

pygments_dark_style = "github-dark"
html_theme = "furo"
html_title = "attnflow"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_copy_source = False
