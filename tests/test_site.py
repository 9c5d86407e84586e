"""The documentation site: it builds without a warning, its links lead somewhere, and it asks nothing of other hosts."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from html import unescape
from html.parser import HTMLParser
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest

import attnflow as af
from attnflow.figures import gallery
from tools import claims_pages as pages

# Looked for, not imported: that would take a second of every collection.
if any(find_spec(name) is None for name in ("furo", "myst_parser")):
    pytest.skip("furo and myst-parser, which make the site, are not installed", allow_module_level=True)

DOCS = Path(__file__).parents[1] / "docs"
# The page of each paper, and how the ids of its claims begin.
PAPERS = {
    "frank_wolfe": "fw",
    "normalisation": "norm",
    "sinkformers": "sinkhorn",
    "long_context": "long-context",
    "perceptron": "mlp",
}
PAPERS |= {"random_weights": "random", "densities": "noise"}
PAPERS |= {name: name for name in ("emergence", "hardmax", "localmax", "sphere")}
DRAWN = "sphere/staircase"
SVG = '<svg xmlns="http://www.w3.org/2000/svg" width="9" height="9"><title>{}</title></svg>'


@dataclass
class Page(HTMLParser):
    """What a page of the site names: anchors, links, and what a browser loads by itself."""

    ids: set[str] = field(default_factory=set)
    links: list[str] = field(default_factory=list)
    loaded: list[str] = field(default_factory=list)
    words: str = ""
    prose: str = ""
    code: bool = False

    def __post_init__(self) -> None:
        super().__init__()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note the addresses of a tag."""
        given = {name: value or "" for name, value in attrs}
        self.ids.add(given.get("id", ""))
        self.code |= tag == "pre"
        if tag == "a" and "href" in given:
            self.links.append(given["href"])
        elif tag == "link" and given.get("rel") not in ("author", "license"):
            self.loaded.append(given.get("href", ""))
        self.loaded += [given[name] for name in ("src", "data", "poster") if name in given]
        self.loaded += [part.split()[0] for part in given.get("srcset", "").split(",") if part.strip()]
        self.loaded += re.findall(r"url\(([^)]*)\)", given.get("style", ""))

    def handle_endtag(self, tag: str) -> None:
        """Note where code ends."""
        self.code &= tag != "pre"

    def handle_data(self, data: str) -> None:
        """Note what can be read, and what of it is no code, where nothing is a link."""
        self.words += data
        self.prose += "" if self.code else data


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built with warnings as errors, with one picture in the gallery."""
    drawn, built = tmp_path_factory.mktemp("gallery"), tmp_path_factory.mktemp("site")
    figure = gallery.named(DRAWN)
    for folder, title in ((drawn, "light"), (drawn / "dark", "dark")):
        folder.mkdir(exist_ok=True)
        (folder / f"{figure.stem}.svg").write_text(SVG.format(title))
        (folder / f"{figure.stem}.mp4").write_text(f"a movie on {title} paper")
    (drawn / f"{figure.stem}.txt").write_text("A title.\n\nWith <x_i, x_j> *and* |x|.\n\nParameters:\n  seed = 7\n")
    # To look for garbage among what is kept to the end would take a seventh of the time.
    build = [sys.executable, "-c", "import gc, sys; gc.disable(); from sphinx.cmd.build import main; sys.exit(main())"]
    options = ["-W", "--keep-going", "-n", "-q", "-E", "-D", f"gallery_folder={drawn}"]
    done = subprocess.run([*build, *options, str(DOCS), str(built)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return built


@pytest.fixture(scope="module")
def read(site: Path) -> Mapping[Path, Page]:
    """Every page of the site."""
    found = {}
    for path in sorted(site.rglob("*.html")):
        if "_static" not in path.parts:
            found[path] = Page()
            found[path].feed(path.read_text(encoding="utf-8"))
    return found


def broken(read: Mapping[Path, Page]) -> Iterator[str]:
    """Yield local addresses that lead nowhere."""
    for path, page in read.items():
        for address in page.links + page.loaded:
            parts = urlsplit(address)
            if parts.scheme or parts.netloc:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            if not target.exists():
                yield f"{path.name}: {address}"
            elif parts.fragment and target in read and unquote(parts.fragment) not in read[target].ids:
                yield f"{path.name}: {address} has no such place"


def test_every_local_link_and_picture_leads_somewhere(read: Mapping[Path, Page]) -> None:
    assert sum(len(page.links) for page in read.values()) > 1000
    assert list(broken(read)) == []


def test_nothing_is_loaded_from_another_host(site: Path, read: Mapping[Path, Page]) -> None:
    loaded = [(path.name, address) for path, page in read.items() for address in page.loaded]
    styles = [
        (path.name, address)
        for path in site.rglob("*.css")
        for address in re.findall(r"""(?:url\(|@import)\s*["']?([^"')\s;]+)""", path.read_text(encoding="utf-8"))
    ]
    assert loaded
    assert styles
    assert [at for at in loaded + styles if urlsplit(at[1]).scheme not in ("", "data") or urlsplit(at[1]).netloc] == []


@pytest.mark.parametrize("module", [af, af.claims, af.figures, af.geometry, af.measure, af.tokens, af.watch])
def test_every_public_name_is_in_the_reference(module: ModuleType, read: Mapping[Path, Page]) -> None:
    described = set().union(*(page.ids for path, page in read.items() if path.parent.name == "reference"))
    for name in getattr(module, "__all__", None) or [name for name in vars(module) if own(module, name)]:
        thing = getattr(module, name)
        if isinstance(thing, ModuleType):
            continue
        also = f"attnflow.{name}" if getattr(af, name, None) is thing else None
        assert {f"{module.__name__}.{name}", also} & described, f"{module.__name__}.{name}"


def own(module: ModuleType, name: str) -> bool:
    """Whether a module without a list of public names defines this one, for everybody."""
    return not name.startswith("_") and getattr(vars(module)[name], "__module__", None) == module.__name__


@pytest.mark.parametrize(("page", "short"), PAPERS.items())
def test_the_page_of_a_paper_lists_its_claims_with_their_statuses(page: str, short: str) -> None:
    text = (DOCS / "papers" / f"{page}.md").read_text(encoding="utf-8")
    row = rf"^\| \[({short}/\S+)\]\(\.\./claims/{short}\.md#(\S+)\) \| .* \| ([a-z ]+) \|$"
    listed = {id: (anchor, status) for id, anchor, status in re.findall(row, text, re.MULTILINE)}
    assert listed == {claim.id: (claim.id.replace("/", ""), claim.status) for claim in pages.pages()[short]}
    assert all(claim.paper.arxiv in text for claim in pages.pages()[short])


def test_the_gallery_shows_every_figure(site: Path, read: Mapping[Path, Page]) -> None:
    page = read[site / "gallery.html"]
    words = " ".join(page.words.split())
    for name, figure in gallery.entries().items():
        assert name.replace("/", "") in page.ids
        assert f"attnflow figure {name}" in words
        assert figure.title in words or name == DRAWN
    assert "With <x_i, x_j> *and* |x|." in words
    assert "seed = 7" in words


def test_a_figure_has_a_picture_for_light_and_one_for_dark_screens(site: Path) -> None:
    for path in (site / "gallery.html", site / "papers" / "sphere.html"):
        shown = re.findall(r'<img [^>]*only-(light|dark)[^>]*src="([^"]+)"', path.read_text(encoding="utf-8"))
        titles = {kind: re.findall("<title>(.*?)<", (path.parent / file).read_text())[0] for kind, file in shown}
        assert titles == {"light": "light", "dark": "dark"}


def test_a_figure_that_moves_has_its_movies_in_the_gallery(site: Path) -> None:
    """One for light and one for dark screens, in the site itself; others have none."""
    page = (site / "gallery.html").read_text(encoding="utf-8")
    shown = dict(re.findall(r'<video [^>]*only-(light|dark)[^>]*controls[^>]*src="([^"#]+)#', page))
    assert {kind: (site / file).read_text() for kind, file in shown.items()} == {
        kind: f"a movie on {kind} paper" for kind in ("light", "dark")
    }
    assert page.count("<video") == 2
    assert page.index(f'id="{DRAWN.replace("/", "")}"') < page.index("<video") < page.index("With &lt;x_i")


def test_every_number_of_a_paper_is_a_link(read: Mapping[Path, Page]) -> None:
    linked = 0
    for path, page in read.items():
        said = Counter(re.findall(r"arXiv[\s:]+(\d{4}\.\d{5})", page.prose))
        links = Counter(re.findall(r"https://arxiv\.org/abs/(\S+)", "\n".join(page.links)))
        assert links == said, path.name
        linked += links.total()
    assert linked > 50


FORMULAS = [*(f"papers/{name}" for name in PAPERS), *(f"claims/{short}" for short in pages.pages())]
FORMULAS += ["models", "glossary", "measurements", "long_times", "many_tokens"]


@pytest.mark.parametrize("page", FORMULAS)
def test_formulas_are_drawings_in_the_colour_of_the_text_that_say_what_they_are(page: str, site: Path) -> None:
    html = (site / f"{page}.html").read_text(encoding="utf-8")
    prose = re.sub(r"(?ms)^```.*?^```$", "", (DOCS / f"{page}.md").read_text(encoding="utf-8"))
    written = [" ".join(formula.split()) for formula in re.findall(r"(?s)(?<!\$)\${1,2}(?!\$)(.+?)\${1,2}", prose)]
    drawings = re.findall(r'<svg class="formula" role="img" aria-label="([^"]*)".*?<path d="(M[^"]*)"/></svg>', html)
    assert [unescape(said) for said, _ in drawings] == written
    assert len(written) >= (1 if page.startswith("claims/") else 11)  # a new paper may have one short claim
    assert "$" not in "".join(re.findall(r"(?s)<p>(.*?)</p>", html))
    style = next((site / "_static").glob("site.css")).read_text(encoding="utf-8")
    assert re.search(r"svg\.formula \{[^}]*fill: currentColor", style)


def index(site: Path) -> dict[str, Any]:
    """Return the index that the search of the site reads in a browser."""
    text = (site / "searchindex.js").read_text(encoding="utf-8")
    found: dict[str, Any] = json.loads(text.removeprefix("Search.setIndex(").removesuffix(")"))
    return found


def ranked(index: dict[str, Any], word: str) -> list[str]:
    """Return the pages that a word leads to, those with it in a heading first, then those with it in the text."""
    from snowballstemmer import stemmer  # it comes with Sphinx

    stem = stemmer("english").stemWord(word.lower())
    named = [index["docnames"][k] for key in (word.lower(), stem) for k in _list(index["titleterms"].get(key, []))]
    said = [index["docnames"][k] for key in (word.lower(), stem) for k in _list(index["terms"].get(key, []))]
    return list(dict.fromkeys([*named, *said]))


def _list(found: int | list[int]) -> list[int]:
    return found if isinstance(found, list) else [found]


@pytest.mark.parametrize(
    ("word", "wanted"),
    [
        ("causal", {"papers/causal", "claims/causal", "glossary", "many_tokens"}),
        ("LayerNorm", {"glossary", "papers/normalisation", "checkpoints"}),
        ("noise", {"papers/densities", "runs", "glossary", "claims/noise"}),
        ("hardmax", {"papers/hardmax", "glossary"}),
        ("witness", {"glossary"}),
    ],
)
def test_a_search_finds_the_pages_about_a_word(word: str, wanted: set[str], site: Path) -> None:
    found = ranked(index(site), word)
    assert wanted <= set(found), found
    # The page that defines the word, and that of the paper, are among the first: they have it in a heading.
    assert "glossary" in found[:10], found


def test_a_search_does_not_find_what_is_not_there(site: Path) -> None:
    assert ranked(index(site), "zebrafish") == []


def test_notebooks_are_pages_with_their_outputs(site: Path, read: Mapping[Path, Page]) -> None:
    stored = sorted((DOCS / "notebooks").glob("*.ipynb"))
    assert stored
    for path in stored:
        page = read[site / "notebooks" / f"{path.stem}.html"]
        cells = [cell for cell in json.loads(path.read_text(encoding="utf-8"))["cells"] if cell["cell_type"] == "code"]
        shown = [output for cell in cells for output in cell["outputs"]]
        pictures = [one for one in shown if "image/png" in one.get("data", {})]
        assert sum(address.startswith("data:image/png") for address in page.loaded) == len(pictures) > 0
        words = " ".join(page.words.split())
        for text in ["".join(one["text"]) for one in shown if "text" in one]:
            assert " ".join(text.split()) in words, path.stem
        assert any(address.endswith(".ipynb") for address in page.links), path.stem


STATED = [path for path in DOCS.rglob("*.md") if path.parent.name != "claims" and path.stem not in ("index", "claims")]


@pytest.mark.parametrize("path", STATED, ids=lambda path: path.stem)
def test_every_page_says_what_is_proved_and_what_is_evidence(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    (said,) = re.findall(r"(?s)\*Standing: (.*?)\.\*", text)
    assert re.search("proved|derived|evidence|tested|measured|states? no results", said)


def test_formulas_of_docstrings_are_drawings_too(site: Path, read: Mapping[Path, Page]) -> None:
    for name, formula in {
        "laws": r"N_i = \{j: s_{ij} \geq M_i - \delta\}",
        "motions": r"x_i \leftarrow x_i + \gamma (m_i - x_i)",
        "geometry": r"J(v_i) = \frac{1}{2} \langle B v_i, v_i\rangle",
    }.items():
        path = site / "reference" / f"{name}.html"
        labels = re.findall(r'aria-label="([^"]*)"', path.read_text(encoding="utf-8"))
        assert formula in [unescape(label) for label in labels]
    for path, page in read.items():
        assert ":math:" not in page.words, path.name
