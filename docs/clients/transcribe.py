"""Sends a recording by tus, waits for the webhook, and saves SubRip subtitles. Standard library only.

    API_URL=https://speech.example API_KEY=shr_… HOOK_URL=https://me.example/hook HOOK_PORT=8443 \
      python3 transcribe.py FILE LANGUAGE OUTPUT.srt

HOOK_URL is the address under which the server reaches HOOK_PORT of this machine.
"""

import base64
import hashlib
import hmac
import http.server
import json
import os
import queue
import sys
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
import uuid

API_URL, API_KEY = os.environ["API_URL"], os.environ["API_KEY"]
ATTEMPTS = 8


def request(method, url, body=None, headers=None):
    sent = urllib.request.Request(url, method=method, data=body, headers=headers or {})
    return urllib.request.urlopen(sent, timeout=180)


def api(method, address, body=None, headers=None):
    """Calls the interface. After 429, 500 and 503 the same request may be sent again (docs/interface.md section 7.2)."""
    fields = {"Authorization": f"Bearer {API_KEY}", "Content-Type": "application/json", **(headers or {})}
    data = None if body is None else json.dumps(body).encode()
    for attempt in range(1, ATTEMPTS + 1):
        try:
            with request(method, API_URL + address, data, fields) as response:
                return response.read()
        except urllib.error.HTTPError as error:
            if error.code not in (429, 500, 503) or attempt == ATTEMPTS:
                raise RuntimeError(f"{method} {address}: {error.code} {error.read().decode()}") from error
            time.sleep(float(error.headers.get("Retry-After") or 2**attempt))


def send(path, size, tus):
    """Sends a file by tus 1.0. After a broken connection it continues where the server's bytes end."""
    fields = {**tus["headers"], "Tus-Resumable": "1.0.0"}
    pairs = [f"{name} {base64.b64encode(value.encode()).decode()}" for name, value in tus["metadata"].items()]
    creation = {**fields, "Upload-Length": str(size), "Upload-Metadata": ",".join(pairs)}
    with request("POST", tus["endpoint"], b"", creation) as created:
        address = urllib.parse.urljoin(tus["endpoint"], created.headers["Location"])
    offset, failures = 0, 0
    with open(path, "rb") as file:
        while offset < size:
            file.seek(offset)
            chunk = file.read(tus["chunk_size"])
            patch = {"Upload-Offset": str(offset), "Content-Type": "application/offset+octet-stream"}
            try:
                with request("PATCH", address, chunk, {**fields, **patch}) as sent:
                    offset = int(sent.headers["Upload-Offset"])
                failures = 0
            except OSError:
                failures += 1
                if failures == ATTEMPTS:
                    raise
                time.sleep(2**failures)
                with request("HEAD", address, None, fields) as head:
                    offset = int(head.headers["Upload-Offset"])


def is_genuine(secret, headers, body):
    """Checks a delivery as Standard Webhooks 1.0 says. While a secret is replaced there are two signatures."""
    stamp = headers.get("webhook-timestamp", "0")
    if abs(time.time() - float(stamp)) > 300:
        return False
    key = base64.b64decode(secret.removeprefix("whsec_"))
    signed = f"{headers['webhook-id']}.{stamp}.".encode() + body
    expected = "v1," + base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()
    given = headers.get("webhook-signature", "").split(" ")
    return any(hmac.compare_digest(expected, signature) for signature in given)


def listen(port, events, secret):
    class Receiver(http.server.BaseHTTPRequestHandler):
        def do_POST(self):
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            genuine = is_genuine(secret(), self.headers, body)
            # What is slow comes after the answer.
            self.send_response(204 if genuine else 401)
            self.end_headers()
            if genuine:
                events.put(json.loads(body)["data"])

        def log_message(self, *_):
            pass

    server = http.server.ThreadingHTTPServer(("", port), Receiver)
    threading.Thread(target=server.serve_forever, daemon=True).start()


def wait_for(transcription_id, events):
    """Waits for the event of the end. An event may be late: after a minute without one the program asks."""
    while True:
        try:
            found = events.get(timeout=60)
        except queue.Empty:
            found = json.loads(api("GET", f"/v1/transcriptions/{transcription_id}"))
            if found["finished_at"] is None:
                continue
        if found["id"] == transcription_id:
            return found


def main(path, language, output):
    size, events, hook = os.path.getsize(path), queue.Queue(), {"secret": ""}
    listen(int(os.environ["HOOK_PORT"]), events, lambda: hook["secret"])
    hook = json.loads(api("POST", "/v1/webhook_endpoints", {"url": os.environ["HOOK_URL"]}))
    try:
        upload = json.loads(api("POST", "/v1/uploads", {"bytes": size}))
        send(path, size, upload["resumable_upload"])
        verified = json.loads(api("POST", f"/v1/uploads/{upload['id']}/complete"))
        while verified["state"] == "verifying":
            time.sleep(2)
            verified = json.loads(api("GET", f"/v1/uploads/{upload['id']}"))
        if verified["state"] != "complete":
            raise RuntimeError(verified["error"])
        order = {"audio": {"upload_id": upload["id"]}, "language": language, "webhook_endpoint_id": hook["id"]}
        key = {"Idempotency-Key": str(uuid.uuid4())}
        transcription_id = json.loads(api("POST", "/v1/transcriptions", order, key))["id"]
        found = wait_for(transcription_id, events)
        if found["state"] not in ("completed", "partial"):
            raise RuntimeError(f"{found['state']} {found.get('error')}")
        subtitles = api("GET", f"/v1/transcriptions/{transcription_id}/result?format=srt")
        with open(output, "wb") as file:
            file.write(subtitles)
        print(f"{transcription_id} is {found['state']}")
    finally:
        api("DELETE", f"/v1/webhook_endpoints/{hook['id']}")


main(*sys.argv[1:4])
