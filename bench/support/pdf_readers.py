"""Reads PDF documents with one of Python's readers, each twice; prints the text and the CPU seconds of the second time.

The reader works in a process of its own, which is ended when a document takes too long: some readers never come to an end.
"""
import json
import multiprocessing
import sys
import time

SECONDS_MAX = 60


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


def begin(name):
    global read
    read = reader_of(name)


def timed(path):
    before = time.process_time()
    try:
        return {"text": read(path), "cpuS": time.process_time() - before}
    except Exception:
        return None


def main():
    question = json.load(sys.stdin)
    reader_of(question["reader"])  # One that is not installed ends the run.
    answer = {}
    late = set()

    def process():
        return multiprocessing.Pool(1, begin, (question["reader"],))

    pool = process()
    for path in question["paths"] * 2:
        if path in late:
            continue
        try:
            reading = pool.apply_async(timed, (path,)).get(SECONDS_MAX)
        except multiprocessing.TimeoutError:
            late.add(path)
            reading = None
            pool.terminate()
            pool = process()
        if reading is None:
            answer.pop(path, None)
        else:
            answer[path] = reading
    pool.terminate()
    print()
    print(json.dumps(answer))


main()
