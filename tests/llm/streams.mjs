// Opens streams over HTTP/2 and leaves them open: streams.mjs PORT COUNT KEY TRIAL BODY
//
// Prints `open` when each has the head of its answer, 200. Ends with its standard input.
import { connect } from "node:http2";

const SESSION_STREAMS = 100;
const [port, count, key, trial, body] = process.argv.slice(2);

function open(session) {
    return new Promise((resolve, reject) => {
        const stream = session.request({
            ":method": "POST", ":path": "/v1/chat/completions", "content-type": "application/json",
            "content-length": Buffer.byteLength(body), "x-api-key": key, "x-trial": trial,
        });
        stream.on("response", (head) => (head[":status"] === 200 ? resolve() : reject(new Error(head[":status"]))));
        stream.on("error", reject);
        stream.resume();
        stream.end(body);
    });
}

for (let made = 0; made < Number(count); made += SESSION_STREAMS) {
    const session = connect(`http://127.0.0.1:${port}`);
    await Promise.all(Array.from({ length: Math.min(SESSION_STREAMS, count - made) }, () => open(session)));
}
process.stdout.write("open\n");
process.stdin.on("end", () => process.exit(0)).resume();
