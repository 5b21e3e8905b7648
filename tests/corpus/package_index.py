"""A package index on this machine, with source distributions made by the test."""

import hashlib
import io
import tarfile
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


def source_distribution(files: Mapping[str, str], top: str = "tiny-1.0") -> bytes:
    """Return a .tar.gz of text files below one folder."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        for path, text in files.items():
            add_file(archive, f"{top}/{path}", text.encode())
    return buffer.getvalue()


def add_file(archive: tarfile.TarFile, name: str, content: bytes = b"") -> tarfile.TarInfo:
    """Add a regular file to an archive under any name, and return its entry."""
    member = tarfile.TarInfo(name)
    member.size = len(content)
    archive.addfile(member, io.BytesIO(content))
    return member


class PackageIndex:
    """Files of the index and the number of downloads.

    The next download lacks its last `cut` bytes. With a `status`, every request is answered with that HTTP error.
    """

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.digests: dict[str, str] = {}
        self.downloads = 0
        self.cut = 0
        self.status: int | None = None
        self.url = ""

    def add(self, name: str, content: bytes) -> str:
        """Serve a file of the project `tiny`, and return its digest."""
        self.files[name] = content
        self.digests[name] = hashlib.sha256(content).hexdigest()
        return self.digests[name]


@contextmanager
def serve() -> Iterator[PackageIndex]:
    """Serve an index with the project `tiny` on a free port, as PEP 503 has it."""
    index = PackageIndex()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            name = self.path.removeprefix("/files/")
            links = (f'<a href="/files/{each}#sha256={index.digests[each]}">{each}</a>' for each in index.files)
            content = "".join(links).encode() if self.path == "/simple/tiny/" else index.files.get(name)
            if index.status is not None or content is None:
                self.send_error(index.status or 404)
                return
            cut = 0
            if name in index.files:
                index.downloads += 1
                cut, index.cut = index.cut, 0
            self.send_response(200)
            self.send_header("Content-Type", "application/gzip" if name in index.files else "text/html")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content[: len(content) - cut])

        def log_message(self, *arguments: object) -> None:
            """Print nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    index.url = f"http://127.0.0.1:{server.server_port}/simple/"
    try:
        yield index
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
