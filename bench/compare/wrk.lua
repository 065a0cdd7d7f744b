-- Sends the requests of a file one after the other, as fast as answers come:
--   wrk -s wrk.lua URL -- HEADS [BODY_BYTES]
-- With BODY_BYTES above 0 the file has heads only, and so many bytes follow each.
-- Prints one line of JSON.
local heads, at, body = {}, 0, ''

function init(args)
    local file = assert(io.open(args[1], 'rb'))
    local text = file:read('*a')
    file:close()
    if args[2] then body = string.rep('x', tonumber(args[2])) end
    local from = 1
    while true do
        local _, last = text:find('\r\n\r\n', from, true)
        if not last then break end
        local length = text:sub(from, last):match('\r\nContent%-Length: (%d+)')
        if length and #body == 0 then last = last + tonumber(length) end
        heads[#heads + 1] = text:sub(from, last)
        from = last + 1
    end
    if #body > 0 then
        for i, head in ipairs(heads) do heads[i] = head .. body end
    end
end

function request()
    at = at % #heads + 1
    return heads[at]
end

function done(summary, latency)
    local errors = summary.errors
    io.write(string.format(
        '{"requests": %d, "bytes": %d, "seconds": %.6f, "refused": %d, "socket_errors": %d, ' ..
            '"p50_us": %.1f, "p99_us": %.1f, "p999_us": %.1f}\n',
        summary.requests, summary.bytes, summary.duration / 1e6, errors.status,
        errors.connect + errors.read + errors.write + errors.timeout,
        latency:percentile(50), latency:percentile(99), latency:percentile(99.9)))
end
