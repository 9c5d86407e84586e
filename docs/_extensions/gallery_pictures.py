"""The pictures of the gallery on the pages that ask for them.

`<!-- gallery -->` stands for every figure that is registered, with its picture, caption, parameters and command;
`<!-- figures: fw -->` for small pictures of those whose names begin so. Pictures and captions are the files that
`attnflow figure all` wrote into the folder `gallery_folder`, those for dark screens into `dark` inside it. Figures that
were not drawn are named all the same. Movies among these files, as MP4, play on the page of the gallery; they are
copied beside it, into `_movies`.
"""

from __future__ import annotations

import math
import os
import re
import shutil
from collections.abc import Iterable
from dataclasses import dataclass
from html import escape
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attnflow.figures.gallery import Entry, chosen, entries, named
from tools.typeset import escaped

if TYPE_CHECKING:
    from sphinx.application import Sphinx

# A browser is slow with larger drawings; PNG files take their place.
LARGEST_SVG = 500_000
# The figures whose names begin so: their heading, and the page that tells of them.
GROUPS = {
    "fw": ("Frank-Wolfe", "papers/frank_wolfe.md"),
    "emergence": ("The emergence of clusters", "papers/emergence.md"),
    "hardmax": ("Hardmax transformers", "papers/hardmax.md"),
    "localmax": ("Localmax", "papers/localmax.md"),
    "sphere": ("The sphere", "papers/sphere.md"),
    "laws": ("One cloud under several laws", "models.md"),
    "long-times": ("Long times", "long_times.md"),
    "many-tokens": ("Many tokens", "many_tokens.md"),
    "trained": ("Trained weights", "trained_weights.md"),
    "claims": ("Claims", "claims.md"),
}


# Where the movies are in the site.
MOVIES = "_movies"


@dataclass(frozen=True)
class Pictures:
    """Where the pictures are, seen from the folder of a page; `root` is the folder of all pages."""

    folder: Path
    page: Path
    root: Path

    def path(self, figure: Entry, ending: str, dark: bool = False, largest: float = math.inf) -> str | None:
        """Return the path of a file of a figure, None if it was not drawn or is larger than the limit."""
        file = self.folder / ("dark" if dark else "") / f"{figure.stem}.{ending}"
        if not file.exists() or file.stat().st_size > largest:
            return None
        return Path(os.path.relpath(file, self.page)).as_posix()

    def image(self, figure: Entry, kind: str) -> str:
        """Return the picture in Markdown: one for light screens, and one for dark ones if both were drawn."""
        light, dark = (
            self.path(figure, "svg", dark, LARGEST_SVG) or self.path(figure, "png", dark) for dark in (False, True)
        )
        if light is None:
            return ""
        if dark is None:
            return f"![{figure.title}]({light}){{.{kind}}}"
        shown = ((light, _when(False)), (dark, _when(True)))
        return "".join(f"![{figure.title}]({path}){{.{kind}{when.replace(' ', ' .')}}}" for path, when in shown)

    def movie(self, figure: Entry) -> str:
        """Return the movie of a figure in HTML: one for light screens, and one for dark ones if both were made."""
        made = [dark for dark in (False, True) if (self.folder / _film(figure, dark)).exists()]
        movies = Path(os.path.relpath(self.root / MOVIES, self.page))
        # Some browsers show nothing before a movie is played, unless a time in it is asked for.
        options = f'controls loop muted playsinline preload="metadata" aria-label="{escape(figure.title)}: movie"'
        return "\n".join(
            f'<video class="picture{_when(dark) if len(made) == 2 else ""}" {options} '
            f'src="{(movies / _film(figure, dark)).as_posix()}#t=0.001"></video>'
            for dark in made
        )

    def thumbnails(self, figures: Iterable[Entry], gallery: str) -> str:
        """Return small pictures, or names where nothing was drawn, each a link to the gallery."""
        links = [f"[{self.image(one, 'thumbnail')}{one.title}]({gallery}#{_slug(one.name)})" for one in figures]
        return "\n".join(["```{container} thumbnails", *links, "```"])

    def section(self, figure: Entry) -> str:
        """Return what the gallery says of a figure."""
        lines = [f"### {figure.name}", "", self.image(figure, "picture"), "", self.movie(figure), ""]
        caption = self.folder / f"{figure.stem}.txt"
        if caption.exists():
            title, text, *rest = caption.read_text(encoding="utf-8").split("\n\n")
            numbers = "\n\n".join(part for part in rest if part.startswith(("Parameters:", "Shown:")))
            lines += [f"**{escaped(title)}** {escaped(text)}", ""]
            if numbers:
                lines += ["<details><summary>Parameters, and what is shown</summary>", ""]
                lines += ["```text", numbers, "```", "", "</details>", ""]
        else:
            lines += [f"**{figure.title}.**", ""]
        files = [(ending, self.path(figure, ending)) for ending in ("svg", "png", "txt")]
        downloads = ", ".join(f"{{download}}`{ending.upper()} <{path}>`" for ending, path in files if path is not None)
        lines += [f"{escaped(figure.source)}. Drawn by `attnflow figure {figure.name}`. {downloads}", ""]
        return "\n".join(lines)

    def gallery(self) -> str:
        """Return the sections of all figures, paper by paper."""
        order = [*GROUPS, *sorted({_group(name) for name in entries()} - set(GROUPS))]
        names = sorted(entries(), key=lambda name: (order.index(_group(name)), name))
        parts = []
        for group, members in groupby(names, key=_group):
            title, page = GROUPS.get(group, (group.capitalize(), None))
            parts += [f"## {title}\n", f"[What they are about]({page})\n" if page else ""]
            parts += [self.section(named(name)) for name in members]
        return "\n".join(parts)


def _film(figure: Entry, dark: bool) -> Path:
    """Return the file of a movie, seen from the folder of all."""
    return Path("dark" if dark else "", f"{figure.stem}.mp4")


def _when(dark: bool) -> str:
    """Return the class of what is for light or for dark screens only."""
    return " only-dark" if dark else " only-light"


def _group(name: str) -> str:
    return name.partition("/")[0]


def _slug(name: str) -> str:
    """Return the anchor that code hosts and the site give to a heading.

    >>> _slug("fw/cells")
    'fwcells'
    """
    return re.sub(r"[^\w-]", "", name.lower())


def fill(app: Sphinx, page: str, source: list[str]) -> None:
    """Put pictures in the place of the comments that ask for them."""
    here = (Path(app.srcdir) / page).parent
    pictures = Pictures(_drawn(app), here, Path(app.srcdir))
    gallery = Path(os.path.relpath(Path(app.srcdir) / "gallery.md", here)).as_posix()

    def small(found: re.Match[str]) -> str:
        return pictures.thumbnails(map(named, chosen([found[1]])), gallery)

    text = re.sub(r"^<!-- figures: (\S+) -->$", small, source[0], flags=re.MULTILINE)
    source[0] = re.sub(r"^<!-- gallery -->$", lambda _: pictures.gallery(), text, flags=re.MULTILINE)


def copy_movies(app: Sphinx, failed: Exception | None) -> None:
    """Put the movies into the site: Sphinx copies pictures, but does not know of these."""
    if failed is not None or app.builder.format != "html":
        return
    for name in entries():
        for film in (_film(named(name), dark) for dark in (False, True)):
            if (_drawn(app) / film).exists():
                (Path(app.outdir) / MOVIES / film).parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(_drawn(app) / film, Path(app.outdir) / MOVIES / film)


def _drawn(app: Sphinx) -> Path:
    """Return the folder of the files that were drawn."""
    return (Path(app.srcdir) / app.config.gallery_folder).resolve()


def setup(app: Sphinx) -> dict[str, Any]:
    """Register with Sphinx."""
    app.add_config_value("gallery_folder", "../out/gallery", "env")
    app.connect("source-read", fill)
    app.connect("build-finished", copy_movies)
    return {"parallel_read_safe": True}
