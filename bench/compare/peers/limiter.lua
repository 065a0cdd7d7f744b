-- The limiter that is usually built of nginx and Redis: one EVALSHA of hash_limiter.lua a request,
-- over connections that are kept. It speaks to Redis itself and reads only what it asks for, so it
-- is not slower than the client libraries for nginx.

local limiter = {}

local socket = ngx.socket.tcp
local IDLE_MS, POOL = 60000, 256

local function words(list)
    local parts = {'*' .. #list .. '\r\n'}
    for _, word in ipairs(list) do
        word = tostring(word)
        parts[#parts + 1] = '$' .. #word .. '\r\n' .. word .. '\r\n'
    end
    return table.concat(parts)
end

-- The number or the line that Redis answers, or nil and why not.
local function ask(connection, list)
    local sent, fault = connection:send(words(list))
    if not sent then return nil, fault end
    local line
    line, fault = connection:receive('*l')
    if not line then return nil, fault end
    local kind, rest = line:sub(1, 1), line:sub(2)
    if kind == ':' then return tonumber(rest) end
    if kind == '$' then
        return connection:receive(tonumber(rest) + 2)
    end
    return nil, rest
end

-- settings: port, script (its text), limits (JSON, as hash_limiter.lua takes them).
function limiter.new(settings)
    settings.digest = nil
    return setmetatable(settings, {__index = limiter})
end

function limiter:run(connection, ...)
    if self.digest then
        local verdict, fault = ask(connection, {'EVALSHA', self.digest, ...})
        if verdict or not fault:find('NOSCRIPT', 1, true) then return verdict, fault end
    end
    local digest, fault = ask(connection, {'SCRIPT', 'LOAD', self.script})
    if not digest then return nil, fault end
    self.digest = digest:sub(1, 40)
    return ask(connection, {'EVALSHA', self.digest, ...})
end

-- Ends the request with 429 unless Redis admits it for all names.
function limiter:admit(...)
    local connection = socket()
    connection:settimeout(1000)
    local ok = connection:connect('127.0.0.1', self.port)
    if not ok then return ngx.exit(503) end
    local names = {...}
    local arguments = {#names}
    for _, name in ipairs(names) do arguments[#arguments + 1] = name end
    arguments[#arguments + 1] = self.limits
    arguments[#arguments + 1] = string.format('%.0f', ngx.now() * 1000000)
    arguments[#arguments + 1] = 1
    local verdict = self:run(connection, unpack(arguments))
    if not verdict then
        connection:close()
        return ngx.exit(503)
    end
    connection:setkeepalive(IDLE_MS, POOL)
    if verdict == 0 then return ngx.exit(429) end
end

return limiter
