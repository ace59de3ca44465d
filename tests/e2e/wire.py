"""Raw HTTP without any SDK: whole answers, and event streams that can be cut off at any moment."""

import http.client
import json
import socket
import struct
import urllib.parse


class Answer:
    """A whole answer."""

    def __init__(self, status, headers, body):
        self.status, self.headers, self.body = status, headers, body

    def json(self):
        return json.loads(self.body)

    def text(self):
        return self.body.decode()

    def __repr__(self):
        return f"<{self.status} {self.body[:400]!r}>"


class Frame:
    """One server-sent event as it stood on the wire."""

    def __init__(self, lines):
        self.lines = lines
        self.event = self._field("event")
        self.id = self._field("id")
        self.data = self._field("data")

    def _field(self, name):
        found = [line[len(name) + 1 :].removeprefix(" ") for line in self.lines if line.startswith(name + ":")]
        return "\n".join(found) if found else None

    def json(self):
        return json.loads(self.data)

    def __repr__(self):
        return f"<frame {self.lines}>"


def encode(body):
    return body if isinstance(body, bytes | None) else json.dumps(body, ensure_ascii=False).encode()


def connect(url, timeout):
    parts = urllib.parse.urlsplit(url)
    return http.client.HTTPConnection(parts.hostname, parts.port, timeout=timeout)


def send(connection, method, path, body, headers):
    data = encode(body)
    named = {"Content-Type": "application/json"} if data is not None else {}
    try:
        connection.request(method, path, data, {**named, **(headers or {})})
    except (BrokenPipeError, ConnectionResetError):
        pass  # the server answered before it had read everything: its answer may still be there to read


def request(url, method, path, body=None, headers=None, timeout=30):
    """One request; the whole answer, whatever its status."""
    connection = connect(url, timeout)
    try:
        send(connection, method, path, body, headers)
        answer = connection.getresponse()
        return Answer(answer.status, {k.lower(): v for k, v in answer.getheaders()}, answer.read())
    finally:
        connection.close()


class Stream:
    """A request whose answer is read event by event."""

    def __init__(self, url, method, path, body=None, headers=None, timeout=30):
        self._connection = connect(url, timeout)
        self._connection.connect()
        self._socket = self._connection.sock
        send(self._connection, method, path, body, headers)
        self._answer = self._connection.getresponse()
        self.status = self._answer.status
        self.headers = {k.lower(): v for k, v in self._answer.getheaders()}
        self.is_broken = False
        self._frames = None

    def frames(self):
        """Events as they come; ends with the stream. A connection that breaks sets `is_broken`. May be taken up again."""
        if self._frames is None:
            self._frames = self._read_frames()
        return self._frames

    def _read_frames(self):
        lines = []
        for line in self._lines():
            text = line.decode().removesuffix("\r")
            if text:
                if not text.startswith(":"):
                    lines.append(text)
            elif lines:
                yield Frame(lines)
                lines = []
        if lines:
            self.is_broken = True

    def _lines(self):
        rest = b""
        for piece in self._pieces():
            *whole, rest = (rest + piece).split(b"\n")
            yield from whole
        if rest:
            self.is_broken = True

    def _pieces(self):
        """The body as it arrives. The standard library takes a broken chunked body for a whole one, so chunks are read here."""
        source = self._answer.fp
        try:
            while self._answer.chunked:
                size = int(source.readline().split(b";")[0], 16)
                piece = source.read(size)
                yield piece
                if source.readline() != b"\r\n" or len(piece) < size:
                    self.is_broken = True
                    return
                if size == 0:
                    return
            while piece := self._answer.read1(65536):
                yield piece
        except (ValueError, OSError, http.client.HTTPException):
            self.is_broken = True

    def take(self, count):
        """The next events, at most `count`."""
        frames = []
        for frame in self.frames():
            frames.append(frame)
            if len(frames) == count:
                break
        return frames

    def rest(self):
        """All events up to the end."""
        return list(self.frames())

    def read(self):
        """The rest of the body as it is (not after `frames`)."""
        return self._answer.read()

    def kill(self):
        """Breaks the connection off as the death of the client's machine does: reset, no goodbye."""
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.close()

    def close(self):
        self._answer.close()
        self._connection.close()
        self._socket.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()
