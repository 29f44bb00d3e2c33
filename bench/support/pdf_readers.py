"""Reads PDF documents with one of Python's readers, each twice; prints the text and the CPU seconds of the second time."""
import json
import sys
import time


def reader_of(name):
    if name == "pymupdf":
        import pymupdf

        return lambda path: "\f".join(page.get_text() for page in pymupdf.open(path))
    if name == "pymupdf4llm":
        import pymupdf4llm

        return lambda path: pymupdf4llm.to_markdown(path, use_ocr=False)
    if name == "markitdown":
        import markitdown

        converter = markitdown.MarkItDown()
        return lambda path: converter.convert(path).text_content
    import pypdfium2

    return lambda path: "\f".join(page.get_textpage().get_text_range() for page in pypdfium2.PdfDocument(path))


question = json.load(sys.stdin)
read = reader_of(question["reader"])
answer = {}
for path in question["paths"] * 2:
    before = time.process_time()
    try:
        answer[path] = {"text": read(path), "cpuS": 0}
    except Exception:
        answer.pop(path, None)
        continue
    answer[path]["cpuS"] = time.process_time() - before
print()
print(json.dumps(answer))
