"""What a browser would see of a page: a small reader on the standard parser."""

from html.parser import HTMLParser
from urllib.parse import parse_qs, urlsplit


class Read(HTMLParser):
    """Ids of the tokens, addresses of the links, scripts, titles and text of a page."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.ids: list[int] = []
        self.articles: list[list[int]] = []
        self.links: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.titles: list[str] = []
        self.text = ""
        self._hidden = False
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        found = dict(attrs)
        self.tags.append((tag, found))
        self._hidden = tag in ("script", "style")
        if tag == "article":
            self.articles.append([])
        if "data-id" in found:
            self.ids.append(int(found["data-id"]))
            self.titles.append(found["title"])
            if self.articles:
                self.articles[-1].append(int(found["data-id"]))
        if tag == "a" and "href" in found:
            self.links.append(found["href"])

    def handle_endtag(self, tag):
        self._hidden = False

    def handle_data(self, data):
        if not self._hidden:
            self.text += data

    def named(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.tags if name == tag]

    def rel(self, rel: str) -> str | None:
        """The address of the link with this relation."""
        return next((a["href"] for a in self.named("a") if a.get("rel") == rel), None)

    def documents(self) -> list[int]:
        """Numbers of the documents that the links of the page lead to, each once, in order."""
        numbers = [
            int(parse_qs(urlsplit(link).query)["n"][0])
            for link in self.links
            if link.startswith("document?") and "n=" in link
        ]
        return list(dict.fromkeys(numbers))
