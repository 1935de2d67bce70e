"""The servers at the far end of the tests' internet: HTTP on 80, the same with TLS on 443, a greeting on 22."""
import hashlib, http.server, json, os, socket, socketserver, ssl, sys, threading

place = sys.argv[1]
BLOCK = bytes(range(256)) * 4096  # one MiB


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def answer(self, body, status=200, kind="text/plain", headers=()):
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        for name, value in headers:
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        path = self.path.split("?")[0]
        if path == "/hello":
            self.answer(f"hello from {self.headers['Host']}\n".encode())
        elif path == "/redirect":
            self.answer(b"", 302, headers=[("Location", "http://private.example.net/hello")])
        elif path.startswith("/big/"):
            size = int(path[5:])
            self.send_response(200)
            self.send_header("Content-Length", str(size * len(BLOCK)))
            self.end_headers()
            for _ in range(size):
                self.wfile.write(BLOCK)
        elif path == "/npm/left-pad":
            document = {"name": "left-pad", "dist-tags": {"latest": "1.3.0"},
                        "versions": {"1.3.0": {"name": "left-pad", "version": "1.3.0",
                                               "dist": {"tarball": "http://site.example.net/none", "shasum": "0" * 40}}}}
            self.answer(json.dumps(document).encode(), kind="application/json")
        elif path.startswith("/files/"):
            wanted = os.path.realpath(os.path.join(place, "files", path[7:]))
            if os.path.isdir(wanted):
                wanted = os.path.join(wanted, "index.html")
            if wanted.startswith(os.path.realpath(place)) and os.path.isfile(wanted):
                kind = "text/html" if wanted.endswith(".html") else "application/octet-stream"
                with open(wanted, "rb") as file:
                    self.answer(file.read(), kind=kind)
            else:
                self.answer(b"none\n", 404)
        else:
            self.answer(b"none\n", 404)

    def do_POST(self):
        left, digest = int(self.headers["Content-Length"]), hashlib.sha256()
        while left:
            piece = self.rfile.read(min(left, 1 << 16))
            if not piece:
                return
            digest.update(piece)
            left -= len(piece)
        self.answer(digest.hexdigest().encode())


class Threads(http.server.ThreadingHTTPServer):
    request_queue_size = 4096
    daemon_threads = True

    def handle_error(self, *_):
        pass  # a client that hangs up is what some tests are about


class Greeter(socketserver.BaseRequestHandler):
    def handle(self):
        self.request.sendall(b"SSH-2.0-greeting\r\n")
        self.request.recv(1)


plain = Threads(("0.0.0.0", 80), Handler)
secure = Threads(("0.0.0.0", 443), Handler)
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain(f"{place}/cert.pem", f"{place}/key.pem")
secure.socket = context.wrap_socket(secure.socket, server_side=True)
greeter = socketserver.ThreadingTCPServer(("0.0.0.0", 22), Greeter)
for server in (plain, secure, greeter):
    threading.Thread(target=server.serve_forever, daemon=True).start()
open(f"{place}/ready", "w").close()
threading.Event().wait()
