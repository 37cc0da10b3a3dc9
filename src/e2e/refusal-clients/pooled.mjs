/** Sends many requests over pooled connections. Some responses close their connection. Prints the counts of responses. */
import http from "node:http";

const [url, count] = [process.argv[2], Number(process.argv[3])];
const agent = new http.Agent({ keepAlive: true, maxSockets: 4 });

function ask(n) {
  return new Promise((resolve) => {
    const headers = n % 2 === 0 ? { connection: "close" } : {};
    const request = http.request(url, { agent, headers }, (answer) => {
      answer.resume();
      answer.on("end", () => resolve(String(answer.statusCode)));
    });
    // Some clients keep a connection in their pool although they have asked the server to close it.
    request.shouldKeepAlive = true;
    request.on("error", ({ code }) => resolve(`lost: ${code}`));
    request.end();
  });
}

const counts = {};
for (let n = 0; n < count; n += 1) {
  const outcome = await ask(n);
  counts[outcome] = (counts[outcome] ?? 0) + 1;
}
process.stdout.write(JSON.stringify(counts));
process.exit(0);
