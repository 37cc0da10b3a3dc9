"""Uses the package shruti_client as a customer's program does, and prints what it saw as JSON.

src/e2e/client-packages.test.ts runs it through a proxy that cuts the first connection with a large body.
"""

import base64
import concurrent.futures
import http.server
import json
import os
import socket
import threading
import time

import shruti_client as api
from shruti_client.transport import Transport

API_URL, API_KEY = os.environ["API_URL"], os.environ["API_KEY"]
LONG, SHORT = os.environ["LONG"], os.environ["SHORT"]
seen = {}
exchanges = []


class Watched(Transport):
    """Notes every exchange."""

    def exchange(self, method, url, headers, body, read, timeout=None):
        entry = {"method": method, "offset": headers.get("Upload-Offset"), "key": headers.get("Idempotency-Key")}
        exchanges.append(entry)
        try:
            answer = super().exchange(method, url, headers, body, read, timeout)
        except api.ApiError as error:
            entry.update(status=error.status, retry_after=error.retry_after)
            raise
        entry["status"] = 200
        return answer


def watched():
    client = api.Shruti(API_URL + "/", API_KEY)
    client._transport = Watched(API_URL + "/", API_KEY, 600, 4, 60, None)
    return client


def caught(act):
    try:
        act()
    except Exception as error:
        facts = {name: getattr(error, name, None) for name in ("status", "code", "detail")}
        request_id = getattr(error, "request_id", None)
        is_api_error = isinstance(error, api.ApiError)
        return {"name": type(error).__name__, **facts, "requestId": request_id, "isApiError": is_api_error}
    return "nothing was raised"


def offsets():
    return [int(each["offset"]) for each in exchanges if each["method"] == "PATCH"]


shruti = watched()

# The proxy cuts the connection while the first piece is sent.
upload = shruti.upload(LONG)
seen["upload"] = {"state": upload["state"], "bytes": upload["bytes"]}
seen["offsets"] = offsets()


# A program that ends in the middle, and another one that continues.
class Stopped(Exception):
    pass


def stop(sent):
    if sent > 0:
        raise Stopped


kept = []
stopped = caught(lambda: shruti.upload(LONG, on_created=lambda made: kept.append(json.dumps(made)), on_progress=stop))
exchanges.clear()
created = json.loads(kept[0])
resumed = shruti.upload(LONG, resume=created)
seen["stopped"] = stopped["name"]
seen["resumed"] = {"isSame": resumed["id"] == created["id"], "state": resumed["state"], "offsets": offsets()}

# A webhook of the server, checked by the package.
deliveries = []
delivered = threading.Event()


class Receiver(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        deliveries.append((dict(self.headers), self.rfile.read(int(self.headers["Content-Length"]))))
        self.send_response(204)
        self.end_headers()
        delivered.set()

    def log_message(self, *_):
        pass


receiver = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Receiver)
threading.Thread(target=receiver.serve_forever, daemon=True).start()
hook = shruti.create_webhook_endpoint(url=f"http://127.0.0.1:{receiver.server_port}/hook")
order = {"audio": {"upload_id": upload["id"]}, "language": "en", "webhook_endpoint_id": hook["id"]}
key = f"scenario-{upload['id']}"
started = shruti.create_transcription(**order, idempotency_key=key)
again = shruti.create_transcription(**order, idempotency_key=key)
states = []
ended = shruti.wait_for_transcription(started["id"], on_progress=lambda latest: states.append(latest["state"]))
is_same = again["id"] == started["id"]
seen["transcription"] = {"isSame": is_same, "state": ended["state"], "last": states[-1]}
seen["text"] = shruti.get_transcription_result(started["id"])["text"]
seen["subtitles"] = shruti.get_transcription_result_text(started["id"], format="srt")
with shruti.get_transcription_audio(started["id"]) as audio:
    seen["audio"] = audio.read(4).decode()
delivered.wait(60)
headers, body = deliveries[0]
secret = hook["secret"]
event = api.verify_webhook(secret, headers, body)
seen["event"] = {"type": event["type"], "isOwn": event["data"]["id"] == started["id"]}
other = "whsec_" + base64.b64encode(bytes(32)).decode()
seen["forged"] = {
    "body": caught(lambda: api.verify_webhook(secret, headers, body.replace(b"completed", b"cancelled"))),
    "secret": caught(lambda: api.verify_webhook(other, headers, body)),
    "late": caught(lambda: api.verify_webhook(secret, headers, body, now=time.time() + 86_400)),
    "none": caught(lambda: api.verify_webhook(secret, {}, body)),
}
rotated = shruti.rotate_webhook_secret(hook["id"])
seen["rotated"] = api.verify_webhook([rotated["secret"], secret], headers, body)["type"]
shruti.delete_webhook_endpoint(hook["id"])
receiver.shutdown()
receiver.server_close()

# Everything in one call; then the list, one element a page.
with open(SHORT, "rb") as file:
    seen["transcribed"] = shruti.transcribe(file, language="en")["text"]
listed = [each["id"] for each in shruti.iterate_transcriptions(limit=1)]
seen["listed"] = {"count": len(listed), "distinct": len(set(listed))}

# Refusals.
seen["refused"] = caught(lambda: shruti.create_transcription(**{**order, "language": "xx"}))
seen["notFound"] = caught(lambda: shruti.get_transcription("tr_01KAJ5M0X2V7Q4N8R6T3Y9ZB1C"))
seen["noIdentifier"] = caught(lambda: shruti.get_transcription(".."))
seen["wrongKey"] = caught(lambda: api.Shruti(API_URL, "shr_wrong_key").list_models())
nowhere = api.Shruti("http://127.0.0.1:9", API_KEY, max_retries=1)
seen["nowhere"] = caught(nowhere.list_models)
seen["noAudio"] = caught(lambda: shruti.upload(b"no recording"))
with socket.create_server(("127.0.0.1", 0)) as silent:
    patient = api.Shruti(f"http://127.0.0.1:{silent.getsockname()[1]}", API_KEY)
    seen["slow"] = caught(lambda: patient.list_models(timeout=0.1, max_retries=0))
seen["printed"] = API_KEY in repr(shruti)

# More requests than the key may send at once, and more synchronous ones than there are places.
pool = concurrent.futures.ThreadPoolExecutor(16)


def together(count, act):
    return [each.result() for each in [pool.submit(act) for _ in range(count)]]


exchanges.clear()
answered = len(together(16, lambda: shruti.get_usage(limit=1)))
refused = [each for each in exchanges if each["status"] == 429 and each["retry_after"] >= 1]
seen["limited"] = {"answered": answered, "refused": len(refused)}
seen["limitedAtOnce"] = caught(lambda: together(16, lambda: shruti.get_usage(limit=1, max_retries=0)))
exchanges.clear()
texts = together(4, lambda: shruti.transcribe_audio(file=SHORT, language="en", max_retries=20)["text"])
used = {status: [each["key"] for each in exchanges if each["status"] == status] for status in (200, 503)}
seen["full"] = {
    "texts": len(set(texts)),
    "refused": len(used[503]),
    "reused": len([each for each in used[200] if each in used[503]]),
    "distinct": len(set(used[200])),
}
print(json.dumps(seen))
