"""Does the same as pooled.mjs with http.client, which takes a connection for open until a response says otherwise."""

import http.client
import json
import sys
from urllib.parse import urlsplit

url, count = urlsplit(sys.argv[1]), int(sys.argv[2])
counts = {}
connection = http.client.HTTPConnection(url.netloc, timeout=30)
for n in range(count):
    try:
        connection.request("GET", url.path, headers={"connection": "close"} if n % 2 == 0 else {})
        answer = connection.getresponse()
        answer.read()
        outcome = str(answer.status)
    except (OSError, http.client.HTTPException) as error:
        outcome = f"lost: {type(error).__name__}"
        connection.close()
    counts[outcome] = counts.get(outcome, 0) + 1
print(json.dumps(counts))
