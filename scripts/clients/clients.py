"""The clients of run.sh that are Python packages. Prints a line for each; the exit status is 1 when one fails."""

import asyncio
import http.server
import importlib.metadata
import json
import os
import socket
import sys
import threading
import time
import urllib.request
import wave

import litellm
import openai
import pysrt
import speech_recognition
import standardwebhooks
import webvtt
from tusclient.client import TusClient
from tusclient.exceptions import TusUploadFailed
from tusclient.storage.filestorage import FileStorage
from tusclient.uploader import Uploader

API_URL, API_KEY = os.environ["API_URL"], os.environ["API_KEY"]
RECORDING, WORK = os.environ["RECORDING"], os.environ["WORK"]
LONG_RECORDING = f"{WORK}/long.wav"
LONG_BYTES = 20 * 1024 * 1024


def check(text):
    """Raises unless a text has the words of the recording."""
    words = "".join(letter for letter in text.lower() if letter.isalpha() or letter.isspace()).split()
    if "ask not what your country can do for you" not in " ".join(words):
        raise AssertionError(f"the text is {text!r}")


def create(**fields):
    with open(RECORDING, "rb") as file:
        return openai.OpenAI().audio.transcriptions.create(file=file, **fields)


def openai_formats():
    for model in ("whisper-1", "gpt-4o-transcribe", "gpt-4o-mini-transcribe", "gpt-transcribe"):
        check(create(model=model).text)
    verbose = create(model="whisper-1", response_format="verbose_json")
    check("".join(segment.text for segment in verbose.segments))
    assert (verbose.language, round(verbose.duration)) == ("english", 11), verbose
    check(" ".join(item.text for item in pysrt.from_string(create(model="whisper-1", response_format="srt"))))
    check(" ".join(caption.text for caption in webvtt.from_string(create(model="whisper-1", response_format="vtt"))))
    check(create(model="whisper-1", response_format="text"))


def openai_preferences():
    check(create(model="whisper-1", prompt="President Kennedy", temperature=0.4).text)
    check(create(model="gpt-4o-transcribe", include=["logprobs"], chunking_strategy={"type": "server_vad"}).text)
    check(create(model="gpt-transcribe", keywords=["Americans", "country"]).text)


def openai_stream():
    events = list(create(model="gpt-4o-mini-transcribe", stream=True))
    check("".join(event.delta for event in events if event.type == "transcript.text.delta"))
    check(events[-1].text)


def openai_speakers():
    answer = create(model="gpt-4o-transcribe-diarize", response_format="diarized_json", chunking_strategy="auto")
    check(" ".join(segment.text for segment in answer.segments))
    assert {segment.speaker for segment in answer.segments} == {"A"}, answer


def openai_asynchronous():
    async def run():
        client = openai.AsyncOpenAI()
        names = [model.id async for model in client.models.list()]
        assert "whisper-1" in names, names
        with open(RECORDING, "rb") as file:
            check((await client.audio.transcriptions.create(file=file, model="whisper-1")).text)

    asyncio.run(run())


def recognizer():
    with speech_recognition.AudioFile(RECORDING) as source:
        audio = speech_recognition.Recognizer().record(source)
    check(speech_recognition.Recognizer().recognize_openai(audio))


def lite():
    address = {"api_base": os.environ["OPENAI_BASE_URL"], "api_key": API_KEY}
    for fields in ({}, {"response_format": "verbose_json", "temperature": 0.4}, {"response_format": "srt"}):
        with open(RECORDING, "rb") as file:
            check(litellm.transcription(model="openai/whisper-1", file=file, **address, **fields).text)


def call(method, path, body=None):
    fields = {"Authorization": f"Bearer {API_KEY}", "Content-Type": "application/json"}
    data = None if body is None else json.dumps(body).encode()
    sent = urllib.request.Request(API_URL + path, method=method, data=data, headers=fields)
    with urllib.request.urlopen(sent, timeout=60) as response:
        return json.loads(response.read() or "null")


def write_long_recording():
    """Writes the recording, then silence."""
    with wave.open(RECORDING) as source, wave.open(LONG_RECORDING, "wb") as target:
        target.setparams(source.getparams())
        target.writeframes(source.readframes(source.getnframes()))
        target.writeframes(bytes(LONG_BYTES - target.tell() * 2 - 44))


def relay(allowed_bytes):
    """Returns the address of a connection to the server that breaks after so many bytes. It serves one client."""
    listener = socket.create_server(("127.0.0.1", 0))
    host, port = API_URL.removeprefix("http://").split(":")

    def run():
        client, _ = listener.accept()
        with client, socket.create_connection((host, int(port))) as server:
            left = allowed_bytes
            while left > 0 and (piece := client.recv(min(left, 65536))):
                server.sendall(piece)
                left -= len(piece)
        listener.close()

    threading.Thread(target=run, daemon=True).start()
    return f"http://127.0.0.1:{listener.getsockname()[1]}"


uploads = {}


def tus():
    """Sends a file in four runs of the client: one stops, one's connection breaks, and two continue."""
    write_long_recording()
    upload = call("POST", "/v1/uploads", {"bytes": LONG_BYTES})
    way = upload["resumable_upload"]
    client = TusClient(way["endpoint"], headers=way["headers"])
    chunk, storage = 4 * 1024 * 1024, FileStorage(f"{WORK}/tus.json")
    stored = {"store_url": True, "url_storage": storage, "metadata": way["metadata"], "chunk_size": chunk}
    client.uploader(LONG_RECORDING, **stored).upload(stop_at=chunk)

    broken = client.uploader(LONG_RECORDING, **stored)
    assert broken.offset == chunk, broken.offset
    broken.store_url, address = False, broken.url
    broken.set_url(address.replace(API_URL, relay(chunk // 2)))
    try:
        broken.upload_chunk()
    except TusUploadFailed:
        # tuspy's own retries wait for 30 s.
        time.sleep(1)
    else:
        raise AssertionError("the connection did not break")
    resumed = Uploader(LONG_RECORDING, url=address, client=client, chunk_size=chunk)
    assert chunk <= resumed.offset < 2 * chunk, resumed.offset
    resumed.upload(stop_at=3 * chunk)
    client.uploader(LONG_RECORDING, **stored).upload()
    assert call("POST", f"/v1/uploads/{upload['id']}/complete")["state"] == "complete"
    uploads["tus"] = upload["id"]


def webhook():
    """Lets the file that tuspy sent be transcribed, and verifies the event. run.sh's clients in Go verify it again."""
    got, arrived = {}, threading.Event()

    class Receiver(http.server.BaseHTTPRequestHandler):
        def do_POST(self):
            body = self.rfile.read(int(self.headers["Content-Length"])).decode()
            got.update(body=body, headers={name.lower(): value for name, value in self.headers.items()})
            self.send_response(204)
            self.end_headers()
            arrived.set()

        def log_message(self, *_):
            pass

    receiver = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Receiver)
    threading.Thread(target=receiver.serve_forever, daemon=True).start()
    endpoint = call("POST", "/v1/webhook_endpoints", {"url": f"http://127.0.0.1:{receiver.server_port}/hook"})
    order = {"audio": {"upload_id": uploads["tus"]}, "language": "en", "webhook_endpoint_id": endpoint["id"]}
    transcription = call("POST", "/v1/transcriptions", order)
    assert arrived.wait(300), "no event came within 5 minutes"
    verifier = standardwebhooks.Webhook(endpoint["secret"])
    event = verifier.verify(got["body"], got["headers"])
    assert (event["data"]["id"], event["data"]["state"]) == (transcription["id"], "completed"), event
    try:
        verifier.verify(got["body"] + " ", got["headers"])
    except standardwebhooks.WebhookVerificationError:
        pass
    else:
        raise AssertionError("an event that was changed is taken for genuine")
    check(call("GET", f"/v1/transcriptions/{transcription['id']}/result")["text"])
    with open(f"{WORK}/delivery.json", "w") as file:
        json.dump({"secret": endpoint["secret"], **got}, file)


CLIENTS = [
    ("openai", "json with 4 models, verbose_json, srt, vtt, text", openai_formats),
    ("openai", "prompt, temperature, include, chunking_strategy, keywords", openai_preferences),
    ("openai", "stream", openai_stream),
    ("openai", "diarized_json", openai_speakers),
    ("openai", "asynchronous client, list of models", openai_asynchronous),
    ("SpeechRecognition", "recognize_openai", recognizer),
    ("litellm", "json, verbose_json with temperature, srt", lite),
    ("tuspy", "an upload of 20 MiB, stopped, broken off and resumed", tus),
    ("standardwebhooks", "a delivery, and the same delivery changed", webhook),
]
failed = False
for package, what, run in CLIENTS:
    name = f"{package} {importlib.metadata.version(package)} (Python): {what}"
    try:
        run()
        print(f"works  {name}", flush=True)
    except Exception as error:
        failed = True
        print(f"fails  {name}: {type(error).__name__}: {error}", flush=True)
sys.exit(1 if failed else 0)
