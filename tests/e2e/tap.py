"""A TCP relay that keeps a copy of every byte in both directions: what really went over a wire, whatever an SDK makes of it."""

import re
import socket
import threading

CHUNK_BORDER = re.compile(rb"\r\n[0-9a-fA-F]{1,8}\r\n")
PRIVATE_VALUE = re.compile(rb'"(?:signature|data|encrypted_content)"\s*:\s*"([A-Za-z0-9+/_=-]{40,})"')


class Tap:
    """Listens on a free loopback port and relays every connection to one target."""

    def __init__(self, host, port):
        self._target = (host, port)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._lock = threading.Lock()
        self._requests, self._answers = bytearray(), bytearray()
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            try:
                server = socket.create_connection(self._target)
            except OSError:
                client.close()
                continue
            threading.Thread(target=self._relay, args=(client, server), daemon=True).start()

    def _relay(self, client, server):
        with client, server:
            back = threading.Thread(target=self._pump, args=(server, client, self._answers), daemon=True)
            back.start()
            self._pump(client, server, self._requests)
            back.join()

    def _pump(self, source, sink, copy):
        try:
            while data := source.recv(65536):
                with self._lock:
                    copy += data
                sink.sendall(data)
        except OSError:
            pass
        for end, how in ((sink, socket.SHUT_WR), (source, socket.SHUT_RD)):
            try:
                end.shutdown(how)
            except OSError:
                pass

    def requests(self):
        """Every byte sent to the target so far."""
        with self._lock:
            return bytes(self._requests)

    def answers(self):
        """Every byte that came from the target so far."""
        with self._lock:
            return bytes(self._answers)

    def answer_headers(self, name):
        """Values of one header in all answers, in order."""
        return [v.decode().strip() for v in re.findall(rb"(?im)^" + name.encode() + rb":([^\r\n]*)\r$", self.answers())]

    def private_values(self):
        """Signatures, redacted and encrypted data that the target gave out, in order of appearance, each once."""
        return list(dict.fromkeys(v.decode() for v in PRIVATE_VALUE.findall(unchunked(self.answers()))))

    def close(self):
        self._listener.close()


def unchunked(data):
    """Without the borders of HTTP chunks, so that a value that was split over two chunks is whole again."""
    return CHUNK_BORDER.sub(b"", data)


def places_of(secrets, data):
    """Which of the secrets, whole or in part, stand in the data in clear. Parts, since storage may split a value."""
    found = []
    for secret in secrets:
        raw = secret.encode() if isinstance(secret, str) else secret
        size = min(24, len(raw))
        middle = max(0, len(raw) // 2 - size // 2)
        if any(raw[start : start + size] in data for start in (0, middle, len(raw) - size)):
            found.append(secret)
    return found
