// Calls the SDKs of providers as the trial says: clients.mjs MODULES
//
// Each line of standard input is a call, {id, call, url, key, body, fields, retries, ...}. When it has ended, a
// line of standard output has {id, value} or {id, error}, and of both `attempts`: the requests that the SDK made,
// with their statuses and when they began. Of a stream, `value` is the list of what the SDK yielded.
import { createRequire } from "node:module";
import { createInterface } from "node:readline";
import { pathToFileURL } from "node:url";

const [modules] = process.argv.slice(2);
const resolve = createRequire(`${modules}/`).resolve;
const load = (name) => import(pathToFileURL(resolve(name)));

const plain = globalThis.fetch;

// The SDKs that take a `fetch` get one that notes what they send.
function noted(attempts) {
    return async (url, init) => {
        const attempt = { at: Date.now() };
        attempts.push(attempt);
        const answer = await plain(url, init);
        attempt.status = answer.status;
        attempt.fields = Object.fromEntries(answer.headers);
        return answer;
    };
}

async function listed(stream) {
    const items = [];
    for await (const one of stream) items.push(one);
    return items;
}

const openai = async (call, attempts, ask) => {
    const { default: OpenAI } = await load("openai");
    const client = new OpenAI({
        baseURL: `${call.url}/v1`, apiKey: call.key, maxRetries: call.retries ?? 0, fetch: noted(attempts),
        timeout: 30_000, defaultHeaders: call.fields,
    });
    return ask(client);
};

const anthropic = async (call, attempts, ask) => {
    const { default: Anthropic } = await load("@anthropic-ai/sdk");
    const client = new Anthropic({
        baseURL: call.url, apiKey: call.key, authToken: null, maxRetries: call.retries ?? 0, fetch: noted(attempts),
        timeout: 30_000, defaultHeaders: call.fields,
    });
    return ask(client);
};

const google = async (call, attempts, ask) => {
    const { GoogleGenAI } = await load("@google/genai");
    // This SDK has no option for it, so its calls are made one at a time.
    globalThis.fetch = noted(attempts);
    try {
        const client = new GoogleGenAI({
            apiKey: call.key,
            httpOptions: {
                baseUrl: call.url, headers: call.fields, timeout: 30_000,
                ...(call.retries ? { retryOptions: { attempts: call.retries + 1 } } : {}),
            },
        });
        return await ask(client);
    } finally {
        globalThis.fetch = plain;
    }
};

// What came on the wire is no part of what a program reads.
const plainly = ({ sdkHttpResponse, ...rest }) => rest;

const bedrock = async (call, attempts, make) => {
    const sdk = await load("@aws-sdk/client-bedrock-runtime");
    const client = new sdk.BedrockRuntimeClient({
        region: "eu-central-1", endpoint: call.url, maxAttempts: (call.retries ?? 0) + 1,
        credentials: { accessKeyId: "AKIATRIAL", secretAccessKey: "secret" },
        ...(call.http1 ? { requestHandler: await overHttp1() } : {}),
    });
    client.middlewareStack.add((next) => async (step) => {
        Object.assign(step.request.headers, call.fields, { "x-api-key": call.key });
        return next(step);
    }, { step: "build" });
    client.middlewareStack.add((next) => async (step) => {
        const attempt = { at: Date.now() };
        attempts.push(attempt);
        const answer = await next(step);
        attempt.status = answer.response.statusCode;
        attempt.fields = answer.response.headers;
        return answer;
    }, { step: "deserialize", priority: "low" });
    try {
        const { $metadata, ...answer } = await client.send(make(sdk));
        return answer.stream ? await listed(answer.stream) : answer;
    } finally {
        client.destroy();
    }
};

async function overHttp1() {
    const from = createRequire(resolve("@aws-sdk/client-bedrock-runtime"));
    const { NodeHttpHandler } = await import(pathToFileURL(from.resolve("@smithy/node-http-handler")));
    return new NodeHttpHandler();
}

// One session of MCP: each of `tools` is called in turn, and what comes back or is thrown is listed.
async function mcp(call, attempts) {
    const { Client } = await load("@modelcontextprotocol/sdk/client/index.js");
    const { StreamableHTTPClientTransport } = await load("@modelcontextprotocol/sdk/client/streamableHttp.js");
    const client = new Client({ name: "trial", version: "1.0.0" });
    await client.connect(new StreamableHTTPClientTransport(new URL(`${call.url}/mcp`), {
        requestInit: { headers: { "x-api-key": call.key, ...call.fields } }, fetch: noted(attempts),
    }));
    const results = [{ tools: (await client.listTools()).tools.map((tool) => tool.name) }];
    for (const [name, given] of call.tools) {
        try {
            const { content, isError } = await client.callTool({ name, arguments: given });
            results.push({ text: content[0].text, ...(isError ? { isError } : {}) });
        } catch (error) {
            results.push({ error: String(error.message), code: error.code });
        }
    }
    await client.close();
    return results;
}

const calls = {
    chat: (call, attempts) => openai(call, attempts, async (client) => {
        const answer = await client.chat.completions.create(call.body);
        return call.body.stream ? listed(answer) : answer;
    }),
    completions: (call, attempts) => openai(call, attempts, async (client) => {
        const answer = await client.completions.create(call.body);
        return call.body.stream ? listed(answer) : answer;
    }),
    embeddings: (call, attempts) => openai(call, attempts, (client) => client.embeddings.create(call.body)),
    responses: (call, attempts) => openai(call, attempts, async (client) => {
        const answer = await client.responses.create(call.body);
        return call.body.stream ? listed(answer) : answer;
    }),
    messages: (call, attempts) => anthropic(call, attempts, async (client) => {
        const answer = await client.messages.create(call.body);
        return call.body.stream ? listed(answer) : answer;
    }),
    // As programs use it: events are put together to the message.
    final_message: (call, attempts) =>
        anthropic(call, attempts, (client) => client.messages.stream(call.body).finalMessage()),
    gemini: (call, attempts) => google(call, attempts, async (client) => {
        if (!call.stream) return plainly(await client.models.generateContent(call.body));
        return (await listed(await client.models.generateContentStream(call.body))).map(plainly);
    }),
    bedrock: (call, attempts) => bedrock(call, attempts, (sdk) =>
        call.stream ? new sdk.ConverseStreamCommand(call.body) : new sdk.ConverseCommand(call.body)),
    mcp,
};

function told(error) {
    const fields = error.headers?.entries ? Object.fromEntries(error.headers) : error.$response?.headers;
    return {
        class: error.constructor?.name, name: error.name, message: String(error.message), status:
            error.status ?? error.$metadata?.httpStatusCode, code: error.code, type: error.type,
        param: error.param, body: error.error, fields,
    };
}

createInterface({ input: process.stdin }).on("line", async (line) => {
    const call = JSON.parse(line);
    const attempts = [];
    let answer;
    try {
        answer = { value: await calls[call.call](call, attempts) };
    } catch (error) {
        answer = { error: told(error) };
    }
    process.stdout.write(`${JSON.stringify({ id: call.id, attempts, ...answer })}\n`);
});
