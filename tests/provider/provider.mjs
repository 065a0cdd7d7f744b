// An identity provider (oidc-provider) over HTTPS, whose keys are rotated by lines on its input:
//
//   provider.mjs MODULES PORT CERTIFICATE KEY
//
// `rotate`  makes a new key, which signs from now on; the keys before it stay in the key set
// `forget`  the same, and the key set holds the new key only
// Answers each line with the number of keys. Clients get tokens by the grant client_credentials.
import fs from "node:fs";
import https from "node:https";
import path from "node:path";
import readline from "node:readline";
import { generateKeyPairSync, randomUUID } from "node:crypto";
import { pathToFileURL } from "node:url";

const [modules, port, certificate, key] = process.argv.slice(2);
const { Provider } = await import(
  pathToFileURL(path.join(modules, "node_modules/oidc-provider/lib/index.js")));

const issuer = `https://localhost:${port}`;
const audience = "https://api.example";
let keys = [];
let handle;

function newKey() {
  const { privateKey } = generateKeyPairSync("ec", { namedCurve: "P-256" });
  return { ...privateKey.export({ format: "jwk" }), kid: randomUUID(), use: "sig", alg: "ES256" };
}

// As an operator rotates keys: the provider starts again with others. The first one signs.
function use(those) {
  keys = those;
  const provider = new Provider(issuer, {
    jwks: { keys },
    clients: [{
      client_id: "robot", client_secret: "of-the-test", grant_types: ["client_credentials"],
      redirect_uris: [], response_types: [], id_token_signed_response_alg: "ES256",
    }],
    enabledJWA: { idTokenSigningAlgValues: ["ES256"] },
    features: {
      devInteractions: { enabled: false },
      clientCredentials: { enabled: true },
      resourceIndicators: {
        enabled: true,
        defaultResource: () => audience,
        getResourceServerInfo: () => ({
          scope: "", audience, accessTokenTTL: 600, accessTokenFormat: "jwt",
          jwt: { sign: { alg: "ES256" } },
        }),
      },
    },
  });
  handle = provider.callback();
}

use([newKey()]);
const options = { cert: fs.readFileSync(certificate), key: fs.readFileSync(key) };
https.createServer(options, (request, response) => handle(request, response))
  .listen(Number(port), "127.0.0.1", () => console.log("ready"));

readline.createInterface({ input: process.stdin }).on("line", (line) => {
  use(line === "forget" ? [newKey()] : [newKey(), ...keys]);
  console.log(keys.length);
}).on("close", () => process.exit(0));
