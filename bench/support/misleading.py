"""Makes documents that mislead a reader from sound ones: turned, skewed, mirrored, stamped, faint and misnamed ones.

`misleading.py FOLDER OUT COUNT SEED` takes COUNT pages from the PDF documents of a folder and one document of each other format.
It needs PyMuPDF, Pillow and numpy, and prints as JSON what it made, each with the text that it shows; null stands for none.
"""
import io
import json
import pathlib
import random
import re
import shutil
import sys
import zlib

import numpy
import pymupdf
from PIL import Image, ImageFilter, ImageOps

DPI = 150
WORDS_MIN = 120
WORD = re.compile(r"[A-Za-z]{2,}")
BYTES_MAX = 200_000
FORMATS = "docx pptx xlsx doc ppt xls pdf epub odt html rtf eml".split()
WRONG_ENDINGS = "txt pdf doc xlsx html png csv".split()
TEXT_ENDINGS = ("txt", "csv")


def pages(paths):
    """Those with text of Latin letters that runs level and covers the page."""
    for path in paths:
        try:
            page = pymupdf.open(path)[0]
            text = page.get_text()
            blocks = page.get_text("dict")["blocks"]
        except Exception:
            continue
        words = text.split()
        latin = sum(len(word) for word in WORD.findall(text)) / max(1, len("".join(words)))
        lines = [line for block in blocks for line in block.get("lines", [])]
        level = sum(abs(line["dir"][1]) < 0.01 for line in lines) / max(1, len(lines))
        pictures = any(block["type"] == 1 for block in blocks)
        if len(words) >= WORDS_MIN and latin > 0.7 and level == 1 and not pictures and page.rotation == 0:
            yield path, page, text


def drawn(page):
    shot = page.get_pixmap(dpi=DPI, colorspace=pymupdf.csGRAY)
    return Image.frombytes("L", (shot.width, shot.height), shot.samples)


def noisy(picture, seed):
    noise = numpy.random.default_rng(seed).normal(0, 14, (picture.height, picture.width))
    return Image.fromarray(numpy.clip(numpy.asarray(picture) * 0.85 + 25 + noise, 0, 255).astype("uint8"))


def skewed(picture, degrees):
    return picture.rotate(degrees, Image.BICUBIC, expand=True, fillcolor=255)


def png(picture):
    out = io.BytesIO()
    picture.save(out, "PNG")
    return out.getvalue()


def scan(pictures, stamps=(), slanted=False):
    """A PDF of pictures, with text of its own over each."""
    document = pymupdf.open()
    for picture in pictures:
        page = document.new_page(width=picture.width * 72 / DPI, height=picture.height * 72 / DPI)
        page.insert_image(page.rect, stream=png(picture))
        for at, stamp in enumerate(stamps):
            point = pymupdf.Point(60, page.rect.height - 30 - 20 * at)
            turn = (point, pymupdf.Matrix(30)) if slanted else None
            page.insert_text(point, stamp, fontsize=11, morph=turn)
    return document.tobytes()


def variants(picture, seed):
    """Name, ending, bytes, and whether the page's text can be read."""
    yield "turned 90", "png", png(picture.transpose(Image.ROTATE_90)), True
    yield "turned 180", "png", png(picture.transpose(Image.ROTATE_180)), True
    yield "turned 270", "png", png(picture.transpose(Image.ROTATE_270)), True
    yield "skewed 4", "png", png(skewed(picture, 4)), True
    yield "skewed -12", "png", png(skewed(picture, -12)), True
    yield "skewed 30", "png", png(skewed(picture, 30)), True
    yield "turned 90 and skewed 5", "png", png(skewed(picture.transpose(Image.ROTATE_90), 5)), True
    yield "mirrored", "png", png(ImageOps.mirror(picture)), False
    yield "turned 180, noisy", "png", png(noisy(picture.transpose(Image.ROTATE_180), seed)), True
    yield "blurred beyond reading", "png", png(picture.filter(ImageFilter.GaussianBlur(9))), False
    yield "40 dpi", "png", png(picture.resize((picture.width * 40 // DPI, picture.height * 40 // DPI), Image.BOX)), False
    yield "negative", "png", png(ImageOps.invert(picture)), True
    yield "stamped", "pdf", scan([picture], ["Page 1 of 3", "Received 2024-03-05"]), True
    yield "stamped slantwise", "pdf", scan([picture], ["CONFIDENTIAL COPY"], slanted=True), True
    yield "stamped, turned 90", "pdf", scan([picture.transpose(Image.ROTATE_90)], ["Page 1 of 3"]), True
    yield "stamped, turned 180", "pdf", scan([picture.transpose(Image.ROTATE_180)], ["Page 1 of 3"]), True
    yield "stamped, skewed 6", "pdf", scan([skewed(picture, 6)], ["Page 1 of 3"]), True
    yield "stamped, mirrored", "pdf", scan([ImageOps.mirror(picture)], ["Page 1 of 3"]), False


def textures(seed):
    """Pictures without a letter."""
    random_numbers = numpy.random.default_rng(seed)
    grain = random_numbers.integers(0, 256, (900, 700)).astype("uint8")
    waves = numpy.fromfunction(lambda y, x: 127 + 120 * numpy.sin(x / 7) * numpy.sin(y / 5), (900, 700)).astype("uint8")
    yield "grain", png(Image.fromarray(grain))
    yield "waves", png(Image.fromarray(waves))
    yield "clouds", png(Image.fromarray(grain).filter(ImageFilter.GaussianBlur(6)))
    yield "checks", png(Image.fromarray((numpy.indices((900, 700)).sum(axis=0) // 25 % 2 * 255).astype("uint8")))


def bytes_without_text(seed):
    numbers = random.Random(seed)
    noise = numbers.randbytes(40_000)
    yield "random bytes", noise
    yield "packed bytes", zlib.compress(noise * 2)
    yield "a program", pathlib.Path(sys.executable).resolve().read_bytes()[:BYTES_MAX]
    yield "numbers of 32 bits", b"".join(number.to_bytes(4, "little") for number in range(0, 60_000, 7))
    yield "sound", b"RIFF\x24\x80\0\0WAVEfmt \x10\0\0\0\x01\0\x01\0\x44\xac\0\0\x88\x58\x01\0\x02\0\x10\0data" + noise


def main():
    folder, out, count, seed = sys.argv[1], pathlib.Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
    numbers = random.Random(seed)
    files = sorted(path for path in pathlib.Path(folder).rglob("*") if path.is_file())
    numbers.shuffle(files)
    made = []

    def make(kind, ending, data, truth, like=None):
        path = out / f"{len(made):04}.{ending}"
        path.write_bytes(data)
        made.append({"path": str(path), "kind": kind, "truth": truth, "like": like})

    chosen = pages(path for path in files if path.suffix.lower() == ".pdf")
    for at, (path, page, text) in zip(range(count), chosen):
        for name, ending, data, readable in variants(drawn(page), seed + at):
            make(name, ending, data, text, like=str(path) if readable else None)
    for name, data in textures(seed):
        make(f"no text: {name}", "png", data, "")
    for name, data in bytes_without_text(seed):
        for ending in WRONG_ENDINGS:
            make(f"{name} as .{ending}", ending, data, "")
    for format in FORMATS:
        small = [path for path in files if path.suffix.lower() == f".{format}" and 2_000 < path.stat().st_size < BYTES_MAX]
        for source in small[:2]:
            data = source.read_bytes()
            # What is named as text is shown as it is written.
            written = data.decode("utf-8", "replace") if format == "html" else None
            for ending in WRONG_ENDINGS:
                if ending != format:
                    truth = written if ending in TEXT_ENDINGS else None
                    make(f"{format} as .{ending}", ending, data, truth, like=str(source))
            cut = data[: len(data) * 2 // 3]
            make(f"{format}, its end missing", format, cut, None, like=str(source))
            make(f"{format}, its end missing, as .txt", "txt", cut, written, like=str(source))
    print(json.dumps(made))


out = pathlib.Path(sys.argv[2])
shutil.rmtree(out, ignore_errors=True)
out.mkdir(parents=True)
main()
