"""Owns the words of a document as Python's own libraries find them, to compare with.

It must never use a part of this project, or leave out a word that a reader of the document sees.
"""

import email
import email.policy
import html.parser
import posixpath
import re
import sys
import zipfile
from urllib.parse import unquote
from xml.etree import ElementTree


def local(element):
    return element.tag.rsplit("}", 1)[-1] if isinstance(element.tag, str) else ""


def texts(root, wanted, breaks, skipped):
    """Text of the wanted elements, with a line end after each of the others."""
    out = []

    def walk(element, inside):
        name = local(element)
        if name in skipped:
            return
        inside = inside or name in wanted
        if inside and element.text:
            out.append(element.text)
        for child in element:
            walk(child, inside)
            if inside and child.tail:
                out.append(child.tail)
        if name in breaks:
            out.append("\n")

    walk(root, False)
    return "".join(out)


def parts(archive, pattern):
    names = [name for name in archive.namelist() if re.fullmatch(pattern, name)]
    return [archive.read(name) for name in sorted(names, key=lambda name: (len(name), name))]


def of_xml(archive, pattern, wanted, breaks, skipped=()):
    roots = [ElementTree.fromstring(part) for part in parts(archive, pattern)]
    return "\n".join(texts(root, set(wanted), set(breaks), set(skipped)) for root in roots)


def docx(path):
    with zipfile.ZipFile(path) as archive:
        return of_xml(archive, r"word/document\d*\.xml", ["t"], ["p", "tab", "br", "tc"], ["del", "Fallback", "rt", "oMath", "moveFrom"])


def pptx(path):
    with zipfile.ZipFile(path) as archive:
        return of_xml(archive, r"ppt/slides/slide\d+\.xml", ["t"], ["p", "br"], ["Fallback", "fld", "oMath"])


def xlsx(path):
    """Words of cells: how numbers are shown is a matter of formats."""
    with zipfile.ZipFile(path) as archive:
        shared = [
            texts(item, {"t"}, set(), {"rPh"})
            for part in parts(archive, r"xl/sharedStrings\.xml")
            for item in ElementTree.fromstring(part)
        ]
        out = []
        for part in parts(archive, r"xl/worksheets/sheet\d+\.xml"):
            for cell in ElementTree.fromstring(part).iter():
                if local(cell) != "c":
                    continue
                kind = cell.get("t")
                value = next((child.text for child in cell if local(child) == "v"), None)
                if kind == "s" and value is not None:
                    out.append(shared[int(value)])
                elif kind in ("inlineStr", "str"):
                    out.append(value or texts(cell, {"t"}, set(), {"rPh"}))
        return "\n".join(out)


def odf(path):
    with zipfile.ZipFile(path) as archive:
        skipped = ["tracked-changes", "note-citation", "binary-data", "ruby-text", "date", "creator"]
        return of_xml(archive, r"content\.xml", ["p", "h"], ["p", "h", "tab", "line-break", "s"], skipped)


class Page(html.parser.HTMLParser):
    HIDDEN = {"script", "style", "head", "template", "svg", "math", "rt", "rp"}
    VOID = {"br", "hr", "img", "meta", "link", "input", "col", "area", "base", "wbr", "source", "embed", "param"}
    INLINE = {"a", "b", "i", "em", "strong", "span", "font", "u", "s", "sub", "sup", "small", "big", "tt", "code", "abbr", "q", "cite", "ins", "mark", "ruby", "rb", "wbr", "nobr", "acronym", "var", "kbd", "samp", "dfn", "label"}

    def __init__(self):
        super().__init__()
        self.out = []
        self.hidden = []

    def handle_starttag(self, tag, attributes):
        if tag in self.VOID:
            self.out.append("\n" if tag != "wbr" else "")
        elif self.hidden or tag in self.HIDDEN:
            self.hidden.append(tag)
        elif tag not in self.INLINE:
            self.out.append("\n")

    def handle_endtag(self, tag):
        if self.hidden:
            if tag in self.hidden:
                while self.hidden.pop() != tag:
                    pass
        elif tag not in self.INLINE:
            self.out.append("\n")

    def handle_data(self, data):
        if not self.hidden:
            self.out.append(data)


def decoded(data):
    """By its mark, then by what it declares, then as UTF-8, and as browsers do where that fails."""
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        return data.decode("utf-16", "replace")
    if data[:2].count(0) == 1:
        return data.decode("utf-16-le" if data[1] == 0 else "utf-16-be", "replace")
    head = data.decode("latin-1")
    found = re.search(r"charset=[\"']?([\w-]+)|encoding=[\"']([\w-]+)", head)
    try:
        if found:
            return data.decode(found.group(1) or found.group(2), "replace")
        return data.decode("utf-8-sig")
    except LookupError:
        return data.decode("utf-8", "replace")
    except UnicodeDecodeError:
        return data.decode("cp1252", "replace")


def page(data):
    reader = Page()
    reader.feed(decoded(data))
    return "".join(reader.out)


def of_html(path):
    with open(path, "rb") as file:
        return page(file.read())


def epub(path):
    """The parts that its spine names, in order: a list of contents beside it is not read."""
    with zipfile.ZipFile(path) as archive:
        root = ElementTree.fromstring(archive.read("META-INF/container.xml"))
        opf = next(each.get("full-path") for each in root.iter() if local(each) == "rootfile")
        package = list(ElementTree.fromstring(archive.read(opf)).iter())
        items = {each.get("id"): each.get("href") for each in package if local(each) == "item"}
        spine = [items[each.get("idref")] for each in package if local(each) == "itemref"]
        folder = posixpath.dirname(opf)
        paths = [posixpath.normpath(posixpath.join(folder, unquote(href))) for href in spine]
        return "\n".join(page(archive.read(path)) for path in paths)


def eml(path):
    with open(path, "rb") as file:
        data = file.read()
    if 0 in data[:4]:
        data = decoded(data).encode()
    message = email.message_from_bytes(data, policy=email.policy.default)
    body = message.get_body(("plain", "html"))
    if body is None:
        return ""
    content = body.get_content()
    return content if body.get_content_subtype() == "plain" else page(content.encode())


READERS = {
    "docx": docx, "docm": docx, "pptx": pptx, "pptm": pptx, "xlsx": xlsx, "xlsm": xlsx,
    "odt": odf, "ods": odf, "odp": odf, "html": of_html, "htm": of_html, "epub": epub, "eml": eml,
}

if __name__ == "__main__":
    path = sys.argv[1]
    sys.stdout.buffer.write(READERS[path.rsplit(".", 1)[-1].lower()](path).encode("utf-8", "replace"))
