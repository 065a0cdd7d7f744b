-- The limiter that is usually built of nginx and Redis: one EVALSHA of hash_limiter.lua a request,
-- through lua-resty-redis as Debian packages it for nginx (lua-nginx-redis), with the driver's pool
-- of connections.

local redis = require('nginx.redis')

local limiter = {}

local TIMEOUT_MS = 1000
local IDLE_MS, POOL = 60000, 256

-- settings: port, script (its text), limits (JSON, as hash_limiter.lua takes them).
function limiter.new(settings)
    return setmetatable(settings, {__index = limiter})
end

-- The script's answer, or nothing and why not. Redis is given the script when it does not have it:
-- at first, and after a restart.
function limiter:run(connection, ...)
    if self.digest then
        local verdict, fault = connection:evalsha(self.digest, ...)
        if verdict or fault:sub(1, 8) ~= 'NOSCRIPT' then return verdict, fault end
    end
    local digest, fault = connection:script('load', self.script)
    if not digest then return nil, fault end
    self.digest = digest
    return connection:evalsha(digest, ...)
end

-- The verdict of Redis on a request of both names, or nothing and why not.
function limiter:ask(address, user)
    local connection, fault = redis:new()
    if not connection then return nil, fault end
    -- Of connecting, sending and reading each: this version of the driver has no set_timeouts.
    connection:set_timeout(TIMEOUT_MS)
    local connected
    connected, fault = connection:connect('127.0.0.1', self.port)
    if not connected then return nil, fault end
    local now_us = string.format('%.0f', ngx.now() * 1000000)
    local verdict
    verdict, fault = self:run(connection, 2, address, user, self.limits, now_us, 1)
    if verdict then
        connection:set_keepalive(IDLE_MS, POOL)
    else
        connection:close()
    end
    return verdict, fault
end

-- Ends the request with 429 unless Redis admits it for both names, with 503 if Redis gives no
-- verdict.
function limiter:admit(address, user)
    local verdict, fault = self:ask(address, user)
    if not verdict then
        ngx.log(ngx.ERR, 'limiter: ', fault)
        return ngx.exit(503)
    end
    if verdict == 0 then return ngx.exit(429) end
end

return limiter
