-- Good requests of many clients at full speed, counted by status, for wrk.
local kPeople = 1000
local threads = {}

function setup(thread)
    thread:set("number", #threads)
    table.insert(threads, thread)
end

function init()
    answered_200, answered_429, answered_other = 0, 0, 0
    requests, at = {}, number * kPeople / 2
    for i = 0, kPeople - 1 do
        requests[i] = wrk.format("GET", "/fast/ok/" .. i, {
            ["Host"] = "soak.test",
            ["X-Forwarded-For"] = "10." .. i % 4 .. "." .. math.floor(i / 200) .. "." .. i % 200,
            ["X-User-Id"] = "user-" .. i,
        })
    end
end

function request()
    at = (at + 1) % kPeople
    return requests[at]
end

function response(status)
    if status == 200 then
        answered_200 = answered_200 + 1
    elseif status == 429 then
        answered_429 = answered_429 + 1
    else
        answered_other = answered_other + 1
    end
end

function done(summary)
    local ok, limited, other = 0, 0, 0
    for _, thread in ipairs(threads) do
        ok = ok + thread:get("answered_200")
        limited = limited + thread:get("answered_429")
        other = other + thread:get("answered_other")
    end
    local errors = summary.errors
    io.write(string.format(
        'counted {"200": %d, "429": %d, "other": %d, "requests": %d, "socket_errors": %d}\n',
        ok, limited, other, summary.requests,
        errors.connect + errors.read + errors.write + errors.timeout))
end
