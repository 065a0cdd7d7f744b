// Express with express-rate-limit and its Redis store, in front of an upstream:
//   node limiter.mjs PORT UPSTREAM_PORT REDIS_PORT QUOTA
//
// Two limits, of the address and of the user, with one window each.
import express from 'express';
import { rateLimit } from 'express-rate-limit';
import { RedisStore } from 'rate-limit-redis';
import { createClient } from 'redis';
import http from 'node:http';

const [port, upstreamPort, redisPort, quota] = process.argv.slice(2).map(Number);
const redis = createClient({ url: `redis://127.0.0.1:${redisPort}` });
await redis.connect();

const limit = (name, keyOf) => rateLimit({
    windowMs: 60 * 60 * 1000,
    limit: quota,
    standardHeaders: 'draft-7',
    legacyHeaders: false,
    keyGenerator: keyOf,
    validate: false,
    store: new RedisStore({
        prefix: `${name}:`,
        sendCommand: (...words) => redis.sendCommand(words),
    }),
});

const agent = new http.Agent({ keepAlive: true, maxSockets: 256 });
const app = express();
app.disable('x-powered-by');
app.use(limit('ip', (request) => request.get('x-forwarded-for')));
app.use(limit('user', (request) => request.get('x-user-id')));
app.use((request, response) => {
    const forwarded = http.request({
        host: '127.0.0.1', port: upstreamPort, agent,
        method: request.method, path: request.url, headers: request.headers,
    }, (answer) => {
        const { connection, 'keep-alive': keepAlive, ...fields } = answer.headers;
        response.writeHead(answer.statusCode, fields);
        answer.pipe(response);
    });
    forwarded.on('error', () => response.destroy());
    request.pipe(forwarded);
});
app.listen(port, '127.0.0.1');
