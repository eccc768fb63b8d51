"""Requests that must not be read as HTTP/1.1: each has one status, and nothing after it is looked at.

Each shape ends in a request for /version, and some have one in what a lenient server would take for the next message: it
must never be served.
"""
GET = b"GET /health HTTP/1.1\r\n"
POST = b"POST /tokenize HTTP/1.1\r\n"
HOST = b"Host: localhost\r\n"
JSON = b"Content-Type: application/json\r\n"
BODY = b'{"content":"a"}'
SMUGGLED = b"GET /version HTTP/1.1\r\nHost: localhost\r\n\r\n"


def length(n):
    return b"Content-Length: %d\r\n" % n


def post(*fields, body=b""):
    return POST + HOST + JSON + b"".join(fields) + b"\r\n" + body


def get(*fields):
    return GET + HOST + b"".join(fields) + b"\r\n"


def coded(coding, body=b"0\r\n\r\n"):
    return post(b"Transfer-Encoding: " + coding + b"\r\n", body=body)


def chunked(body):
    return coded(b"chunked", body)


def line(text):
    return text + b"\r\n" + HOST + b"\r\n"


CHUNK = b"%x\r\n" % len(BODY) + BODY + b"\r\n"

# name: (bytes, status); None: the connection is closed without an answer. Where OURS has the name, libmicrohttpd lets the
# shape through and the server answers in its own words; all others libmicrohttpd refuses by itself.
SHAPES = {
    # Two lengths of one body.
    "length, then coding": (post(length(len(CHUNK) + 5), b"Transfer-Encoding: chunked\r\n", body=CHUNK + b"0\r\n\r\n"), 400),
    "coding, then length": (post(b"Transfer-Encoding: chunked\r\n", length(4), body=b"0\r\n\r\n" + SMUGGLED), 400),
    "two different lengths": (post(length(15), length(0), body=BODY), 400),
    "two equal lengths": (post(length(15), length(15), body=BODY), 400),
    "a list of lengths": (post(b"Content-Length: 15, 15\r\n", body=BODY), 400),
    "a length with a plus": (post(b"Content-Length: +15\r\n", body=BODY), 400),
    "a length with a minus": (post(b"Content-Length: -15\r\n", body=BODY), 400),
    "an empty length": (post(b"Content-Length: \r\n", body=BODY), 400),
    "a length with a blank inside": (post(b"Content-Length: 1 5\r\n", body=BODY), 400),
    "a hexadecimal length": (post(b"Content-Length: 0xf\r\n", body=BODY), 400),
    "a length beyond 64 bits": (post(b"Content-Length: 18446744073709551631\r\n", body=BODY), 400),
    "a length in quotes": (post(b'Content-Length: "15"\r\n', body=BODY), 400),
    # Transfer codings.
    "xchunked": (coded(b"xchunked"), 501),
    "chunkedx": (coded(b"chunkedx"), 501),
    "identity": (coded(b"identity"), 501),
    "identity, chunked": (coded(b"identity, chunked"), 501),
    "chunked, chunked": (coded(b"chunked, chunked"), 501),
    "chunked, identity": (coded(b"chunked, identity"), 501),
    "gzip, chunked": (coded(b"gzip, chunked"), 501),
    "gzip": (coded(b"gzip"), 501),
    "two fields of codings": (post(b"Transfer-Encoding: chunked\r\n", b"Transfer-Encoding: chunked\r\n", body=b"0\r\n\r\n"), 400),
    "no coding": (coded(b""), 501),
    "a coding with a parameter": (coded(b"chunked;q=1"), 501),
    "a coding in quotes": (coded(b'"chunked"'), 501),
    "a coding after a vertical tab": (coded(b"\x0bchunked"), 501),
    "a coding in HTTP/1.0": (b"POST /tokenize HTTP/1.0\r\n" + HOST + b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400),
    # Chunks.
    "a chunk with a plus": (chunked(b"+f\r\n" + BODY + b"\r\n0\r\n\r\n"), 400),
    "a chunk with a minus": (chunked(b"-f\r\n" + BODY + b"\r\n0\r\n\r\n"), 400),
    "a chunk with 0x": (chunked(b"0xf\r\n" + BODY + b"\r\n0\r\n\r\n"), 400),
    "a chunk after a blank": (chunked(b" f\r\n" + BODY + b"\r\n0\r\n\r\n"), 400),
    "a chunk before a blank": (chunked(b"f \r\n" + BODY + b"\r\n0\r\n\r\n"), 400),
    "a chunk without a size": (chunked(b"\r\n" + BODY + b"\r\n0\r\n\r\n"), 400),
    "a chunk of letters": (chunked(b"xyz\r\n" + BODY + b"\r\n0\r\n\r\n"), 400),
    "a chunk beyond 64 bits": (chunked(b"1000000000000000f\r\n" + BODY + b"\r\n0\r\n\r\n"), 413),
    "a chunk line ended by LF": (chunked(b"f\n" + BODY + b"\r\n0\r\n\r\n"), 400),
    "a chunk line ended by CR": (chunked(b"f\r" + BODY + b"\r\n0\r\n\r\n"), 400),
    "a chunk's end without CR": (chunked(b"f\r\n" + BODY + b"\n0\r\n\r\n"), 400),
    "a chunk without its end": (chunked(b"f\r\n" + BODY + b"0\r\n\r\n"), 400),
    "a chunk longer than it says": (chunked(b"e\r\n" + BODY + b"\r\n0\r\n\r\n"), 400),
    "a last chunk ended by LF": (chunked(CHUNK + b"0\n\r\n"), 400),
    "an end of chunks by LF": (chunked(CHUNK + b"0\r\n\n"), 400),
    "an extension with LF": (chunked(b"f;a\nb\r\n" + BODY + b"\r\n0\r\n\r\n"), 400),
    "a trailer with a blank": (chunked(CHUNK + b"0\r\nA : b\r\n\r\n"), 400),
    "a trailer that is folded": (chunked(CHUNK + b"0\r\nA: b\r\n c\r\n\r\n"), 400),
    "a trailer with a length": (chunked(CHUNK + b"0\r\nContent-Length: 3\r\n\r\n"), 400),
    "a long trailer": (chunked(CHUNK + b"0\r\nA: " + b"b" * 20000 + b"\r\n\r\n"), 431),
    # Lines.
    "a head ended by LF": (GET + b"Host: localhost\n\r\n", 400),
    "a head's end by LF": (GET + HOST + b"\n", 400),
    "a request line ended by LF": (b"GET /health HTTP/1.1\n" + HOST + b"\r\n", 400),
    "a bare CR in a value": (get(b"X-A: b\rc\r\n"), 400),
    "a bare CR before a field": (get(b"\rX-A: b\r\n"), 400),
    "a bare CR in the request line": (b"GET /health\r HTTP/1.1\r\n" + HOST + b"\r\n", 400),
    "two CRs": (get(b"X-A: b\r\r\n"), 400),
    "two empty lines in front": (b"\r\n\r\n" + get(), None),
    # Fields.
    "a blank before the colon": (post(b"Content-Length : 15\r\n", body=BODY), 400),
    "a tab before the colon": (post(b"Content-Length\t: 15\r\n", body=BODY), 400),
    "a folded value": (get(b"X-A: b\r\n c\r\n"), 400),
    "a folded first line": (GET + b" " + HOST + b"\r\n", 400),
    "a field without a colon": (get(b"X-A\r\n"), 400),
    "a field without a name": (get(b": b\r\n"), 400),
    "a name with a parenthesis": (get(b"X(A): b\r\n"), 400),
    "a name that is not ASCII": (get(b"X-\xc3\xa4: b\r\n"), 400),
    "a NUL in a value": (get(b"X-A: b\x00c\r\n"), 400),
    "a NUL in a name": (get(b"X\x00A: b\r\n"), 400),
    "a control character in a value": (get(b"X-A: b\x07c\r\n"), 400),
    "a DEL in a value": (get(b"X-A: b\x7f\r\n"), 400),
    "too many fields": (get(*[b"X-%d: b\r\n" % i for i in range(300)]), 431),
    "a head of 20 KB": (get(b"X-A: " + b"b" * 20000 + b"\r\n"), 431),
    # Hosts.
    "no host": (GET + b"\r\n", 400),
    "two hosts": (get(HOST), 400),
    "two different hosts": (get(b"Host: 127.0.0.1\r\n"), 400),
    "an empty host": (GET + b"Host:\r\n\r\n", 400),
    "a host with a path": (GET + b"Host: localhost/a\r\n\r\n", 400),
    "a host with a blank": (GET + b"Host: local host\r\n\r\n", 400),
    "a host with a name before it": (GET + b"Host: a@localhost\r\n\r\n", 400),
    "a host with a port of letters": (GET + b"Host: localhost:http\r\n\r\n", 400),
    "two hosts in HTTP/1.0": (b"GET /health HTTP/1.0\r\n" + HOST + HOST + b"\r\n", 400),
    # Fields that are read here and must stand once.
    "two keys": (get(b"Authorization: Bearer a\r\n", b"Authorization: Bearer b\r\n"), 400),
    "two x-api-keys": (get(b"X-Api-Key: a\r\n", b"X-Api-Key: b\r\n"), 400),
    "two content types": (post(JSON, length(15), body=BODY), 400),
    "two origins": (get(b"Origin: http://localhost\r\n", b"Origin: http://localhost\r\n"), 400),
    "two priorities": (post(b"X-Priority: low\r\n", b"X-Priority: high\r\n", length(15), body=BODY), 400),
    "two expectations": (post(b"Expect: 100-continue\r\n", b"Expect: 100-continue\r\n", length(15), body=BODY), 400),
    "two request ids": (get(b"X-Request-Id: a\r\n", b"X-Request-Id: b\r\n"), 400),
    # Request lines.
    "HTTP/0.9": (b"GET /health\r\n", 400),
    "HTTP/0.9, said so": (line(b"GET /health HTTP/0.9"), 505),
    "HTTP/2.0": (line(b"GET /health HTTP/2.0"), 505),
    "the preface of HTTP/2": (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505),
    "HTTP/1.2": (line(b"GET /health HTTP/1.2"), 505),
    "HTTP/1.10": (line(b"GET /health HTTP/1.10"), 400),
    "http in small letters": (line(b"GET /health http/1.1"), 400),
    "two blanks": (line(b"GET  /health HTTP/1.1"), 400),
    "a tab for a blank": (line(b"GET\t/health HTTP/1.1"), None),
    "a blank at the end": (line(b"GET /health HTTP/1.1 "), 400),
    "a blank in front": (line(b" GET /health HTTP/1.1"), None),
    "a blank in the path": (line(b"GET /hea lth HTTP/1.1"), 400),
    "no path": (line(b"GET  HTTP/1.1"), 400),
    "a path without a slash": (line(b"GET health HTTP/1.1"), 400),
    "a fragment": (line(b"GET /health#a HTTP/1.1"), 400),
    "a NUL in the path": (line(b"GET /health\x00a HTTP/1.1"), None),
    "an encoded NUL in the path": (line(b"GET /health%00a HTTP/1.1"), 400),
    "half an encoded byte": (line(b"GET /health%a HTTP/1.1"), 400),
    "a path that is not ASCII": (line(b"GET /h\xc3\xa4lth HTTP/1.1"), 400),
    "a method with a control character": (line(b"G\x01ET /health HTTP/1.1"), 400),
    "a method with a bracket": (line(b"G[ET /health HTTP/1.1"), 400),
    "a star for GET": (line(b"GET * HTTP/1.1"), 400),
    "an authority for GET": (line(b"GET localhost:80 HTTP/1.1"), 400),
    "an absolute path of another scheme": (line(b"GET ftp://localhost/health HTTP/1.1"), 400),
    "an absolute path without a host": (line(b"GET http:///health HTTP/1.1"), 400),
    "an absolute path with a name": (line(b"GET http://a@localhost/health HTTP/1.1"), 400),
    "a long request line": (line(b"GET /health?" + b"a" * 12000 + b" HTTP/1.1"), 414),
    "CONNECT": (line(b"CONNECT localhost:80 HTTP/1.1"), 501),
    "a handshake of TLS": (b"\x16\x03\x01\x00\xa5\x01\x00\x00\xa1\x03\x03" + bytes(range(32)) * 4, None),
}

OURS = {
    "too many fields", "a head of 20 KB", "an empty host", "a host with a path", "a host with a blank",
    "a host with a name before it", "a host with a port of letters", "a control character in a value",
    "a DEL in a value", "two keys", "two x-api-keys", "two content types", "two origins", "two priorities",
    "two expectations", "two request ids", "HTTP/1.2", "no path", "a path without a slash", "a fragment",
    "a path that is not ASCII", "a method with a control character", "a method with a bracket", "a star for GET",
    "an authority for GET", "an absolute path of another scheme", "an absolute path without a host",
    "an absolute path with a name", "a long request line", "CONNECT", "a trailer with a length", "a long trailer",
}

# Read as they stand, where RFC 9112 would let a server refuse them: what is between a chunk's size and its CRLF means nothing.
EXTENSIONS = {
    "an extension with NUL": (chunked(b"f;a\x00\r\n" + BODY + b"\r\n0\r\n\r\n"), 200),
    "a long extension": (chunked(b"f;" + b"a" * 10000 + b"\r\n" + BODY + b"\r\n0\r\n\r\n"), 200),
}
