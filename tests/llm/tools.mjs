// A server of tools that speaks MCP over Streamable HTTP, without sessions: tools.mjs MODULES PORT
import { createServer } from "node:http";
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const [modules, port] = process.argv.slice(2);
const resolve = createRequire(`${modules}/`).resolve;
const load = (name) => import(pathToFileURL(resolve(name)));
const { McpServer } = await load("@modelcontextprotocol/sdk/server/mcp.js");
const { StreamableHTTPServerTransport } = await load("@modelcontextprotocol/sdk/server/streamableHttp.js");
const { z } = await load("zod");

function server() {
    const made = new McpServer({ name: "tools", version: "1.0.0" });
    const word = { word: z.string() };
    const said = (tool) => async ({ word: given }) => ({ content: [{ type: "text", text: `${tool} ${given}` }] });
    made.registerTool("search", { description: "cheap", inputSchema: word }, said("search"));
    made.registerTool("render", { description: "dear", inputSchema: word }, said("render"));
    return made;
}

createServer(async (request, response) => {
    const transport = new StreamableHTTPServerTransport({ sessionIdGenerator: undefined });
    response.on("close", () => transport.close());
    await server().connect(transport);
    await transport.handleRequest(request, response);
}).listen(Number(port), "127.0.0.1");
