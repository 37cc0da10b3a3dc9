"""Does the same as client.mjs with http.client of Python's standard library, which sends the whole body before it reads."""

import http.client
import json
import sys
from urllib.parse import urlsplit

order = json.loads(sys.argv[1])
BOUNDARY = "boundary-of-the-form"
PIECE = b"a" * 65536


def body():
    if order["isForm"]:
        part = 'Content-Disposition: form-data; name="file"; filename="a.wav"'
        yield f"--{BOUNDARY}\r\n{part}\r\n\r\n".encode()
    left = order["bytes"]
    while left > 0:
        yield PIECE[:left]
        left -= len(PIECE)
    if order["isForm"]:
        part = 'Content-Disposition: form-data; name="language"'
        yield f"\r\n--{BOUNDARY}\r\n{part}\r\n\r\nhi\r\n--{BOUNDARY}--\r\n".encode()


def attempt(connection):
    headers = dict(order["headers"])
    if order["isForm"]:
        headers["content-type"] = f"multipart/form-data; boundary={BOUNDARY}"
    if not order["isChunked"]:
        headers["content-length"] = str(sum(len(piece) for piece in body()))
    path = urlsplit(order["url"]).path
    connection.request(order["method"], path, body(), headers, encode_chunked=order["isChunked"])
    answer = connection.getresponse()
    text = answer.read()
    try:
        code = json.loads(text)["error"]["code"]
    except (ValueError, KeyError, TypeError):
        code = "no code"
    outcome = f"{answer.status} {code}"
    if answer.getheader("retry-after"):
        outcome += " retry-after"
    return outcome if answer.getheader("x-request-id") else outcome + " without x-request-id"


counts = {}
connection = None
done = repeats = 0
while done < order["tries"]:
    # One connection for all requests while it is open, as connection pools do.
    connection = connection or http.client.HTTPConnection(urlsplit(order["url"]).netloc, timeout=60)
    try:
        outcome = attempt(connection)
    except (OSError, http.client.HTTPException) as error:
        outcome = f"lost: {type(error).__name__}"
        connection.close()
        connection = None
    if repeats < 100 and any(outcome.startswith(status) for status in order.get("again", [])):
        repeats += 1
        continue
    done += 1
    counts[outcome] = counts.get(outcome, 0) + 1
print(json.dumps(counts))
